"""Curves: the test accuracy of a method's releases over a stream, in several runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidegate.study.measured import MEASURES, measured
from tidegate.study.method import Method
from tidegate.study.study_stream import Fitted, StudyStream

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Accuracy over time.

    Attributes:
        private: Whether the method is private.
        at: How many records had arrived at each release.
        runs: The accuracies, shape (runs, releases).
        measures: The log-loss and each of `MEASURES`, if measured: shape (runs, releases), NaN
            where one is not defined.
    """

    private: bool
    at: tuple[int, ...]
    runs: Floats
    measures: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def median(self) -> Floats:
        """The median of the runs, for each release."""
        return np.asarray(np.median(self.runs, axis=0))

    @property
    def quartiles(self) -> tuple[Floats, Floats]:
        """The lower and upper quartiles of the runs, for each release."""
        lower, upper = np.quantile(self.runs, [0.25, 0.75], axis=0)
        return lower, upper

    @property
    def mean(self) -> float:
        """The mean of the medians over all releases."""
        return float(self.median.mean())

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

    @property
    def row(self) -> dict[str, Any]:
        """The whole curve in rounded numbers, for JSON."""
        lower, upper = self.quartiles
        return {
            "at": list(self.at),
            "median": self.median.round(4).tolist(),
            "lower_quartile": lower.round(4).tolist(),
            "upper_quartile": upper.round(4).tolist(),
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
        made = [(t, tested(method, model, arrived, t)) for t, model in method.models(arrived, seed)]
        at = tuple(t for t, _ in made)
        runs.append([values for _, values in made])
        tick()
    return curve_of(method, at, runs)


def tested(method: Method, model: Fitted, stream: StudyStream, at: int) -> dict[str, float]:
    """What `measured` finds for a release of a method."""
    has = method.probabilities
    return measured(model, stream.test(at), stream.classes, probabilities=has)


def curve_of(
    method: Method, at: Sequence[int], runs: Sequence[Sequence[Mapping[str, float]]]
) -> Curve:
    """The curve of a method from what `tested` found for each release of each run."""
    values = {
        name: np.array([[each[name] for each in run] for run in runs])
        for name in ("accuracy", "log_loss", *MEASURES)
    }
    accuracy = values.pop("accuracy")
    return Curve(private=method.private, at=tuple(at), runs=accuracy, measures=values)


def best_of(
    methods: Iterable[Method],
    stream: Callable[[int], StudyStream],
    seeds: Sequence[int],
    tick: Callable[[], None] = lambda: None,
) -> Curve:
    """The curve with the largest mean, among methods that differ in their settings.

    Choosing by the test records favours a method: nobody can do so with private records. It is
    done for baselines only, so a method that beats them beats them at their best. For the other
    arguments see `measure`.
    """
    curves = [measure(method, stream, seeds, tick) for method in methods]
    return max(curves, key=lambda curve: curve.mean)
