"""Curves: how good a method's releases are over a stream, in several runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidegate.study.measured import Yardstick, yardstick_of
from tidegate.study.method import Method
from tidegate.study.study_stream import Fitted, StudyStream

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The measure that ranks models, over time: accuracy, or the RMSE of a number.

    Attributes:
        private: Whether the method is private.
        at: How many records had arrived at each release.
        runs: That measure, shape (runs, releases).
        measures: Each of the other measures, if measured: shape (runs, releases), NaN where one is
            not defined.
        lower_is_better: Whether the least value is the best.
    """

    private: bool
    at: tuple[int, ...]
    runs: Floats
    measures: Mapping[str, Floats] = field(default_factory=dict)
    lower_is_better: bool = False

    @property
    def gains(self) -> Floats:
        """The runs with their sign such that more is better."""
        return -self.runs if self.lower_is_better else self.runs

    @property
    def gain(self) -> float:
        """The mean of the medians over all releases, with the same sign; NaN counts as nothing."""
        return float(np.nanmean(np.median(self.gains, axis=0)))

    @property
    def median(self) -> Floats:
        """The median of the runs, for each release."""
        return np.asarray(np.median(self.runs, axis=0))

    @property
    def quartiles(self) -> tuple[Floats, Floats]:
        """The lower and upper quartiles of the runs, for each release."""
        lower, upper = np.quantile(self.runs, [0.25, 0.75], axis=0)
        return lower, upper

    def median_of(self, name: str) -> Floats:
        """The median of the runs of a measure, for each release; NaN if any run has none."""
        return np.asarray(np.median(self.measures[name], axis=0))

    @property
    def constant(self) -> "Curve | None":
        """The curve of the majority class on the same test records; None if it was not measured."""
        if "majority" not in self.measures:
            return None
        losses = {"log_loss": self.measures["constant_log_loss"]}
        return Curve(private=False, at=self.at, runs=self.measures["majority"], measures=losses)

    @property
    def measures_row(self) -> dict[str, list[float | None]]:
        """The medians of all measures in rounded numbers, for JSON; None where not defined."""
        return {
            name: [None if np.isnan(each) else round(each, 4) for each in medians.tolist()]
            for name in self.measures
            if not np.isnan(medians := self.median_of(name)).all()
        }

    def row(self, digits: int = 4) -> dict[str, Any]:
        """The whole curve in rounded numbers, for JSON; None where the measure is not defined."""
        lower, upper = self.quartiles
        lines = {"median": self.median, "lower_quartile": lower, "upper_quartile": upper}
        return {
            "at": list(self.at),
            **{
                name: [None if np.isnan(each) else round(each, digits) for each in line.tolist()]
                for name, line in lines.items()
            },
        }

    def draw(self, axes: "Axes", color: str, **style: Any) -> None:
        """Draw the median of the runs as a line and the quartiles as a shaded band."""
        axes.fill_between(self.at, *self.quartiles, color=color, alpha=0.2, linewidth=0)
        axes.plot(self.at, self.median, color=color, **style)


def measure(
    method: Method,
    stream: Callable[[int], StudyStream],
    seeds: Iterable[int],
    tick: Callable[[], None] = lambda: None,
) -> Curve:
    """Run a method once for each seed, on the stream of that seed, and test every release.

    `tick` is called after each run, to show progress.
    """
    at: tuple[int, ...] = ()
    runs = []
    for seed in seeds:
        arrived = stream(seed)
        yardstick = yardstick_of(arrived)
        made = [(t, tested(method, model, arrived, t)) for t, model in method.models(arrived, seed)]
        at = tuple(t for t, _ in made)
        runs.append([values for _, values in made])
        tick()
    return curve_of(method, yardstick, at, runs)


def tested(method: Method, model: Fitted, stream: StudyStream, at: int) -> dict[str, float]:
    """What the stream's yardstick finds for a release of a method."""
    has = method.probabilities
    return yardstick_of(stream).measured(model, stream.test(at), probabilities=has)


def curve_of(
    method: Method,
    yardstick: Yardstick,
    at: Sequence[int],
    runs: Sequence[Sequence[Mapping[str, float]]],
) -> Curve:
    """The curve of a method from what `tested` found for each release of each run."""
    values = {
        name: np.array([[each[name] for each in run] for run in runs])
        for name in (yardstick.ranks, *yardstick.names)
    }
    return Curve(
        private=method.private,
        at=tuple(at),
        runs=values.pop(yardstick.ranks),
        measures=values,
        lower_is_better=yardstick.lower_is_better,
    )


def best_of(
    methods: Iterable[Method],
    stream: Callable[[int], StudyStream],
    seeds: Sequence[int],
    tick: Callable[[], None] = lambda: None,
) -> Curve:
    """The best curve, among methods that differ in their settings.

    Choosing by the test records favours a method: nobody can do so with private records. It is
    done for baselines only, so a method that beats them beats them at their best. For the other
    arguments see `measure`.
    """
    curves = [measure(method, stream, seeds, tick) for method in methods]
    return max(curves, key=lambda curve: curve.gain)
