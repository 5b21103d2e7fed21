"""Curves: how good a method's releases are over a stream, in several runs."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import nothing
from tidegate.compare.labelled import LabelledStream
from tidegate.compare.method import Method
from tidegate.compare.yardstick import yardstick_of

Floats = NDArray[np.float64]
Made = TypeVar("Made")


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
        seconds: How long each run trained, shape (runs,); empty if unknown.

    >>> runs = np.array([[0.7, 0.9], [0.8, 0.7], [0.6, 0.8]])
    >>> Curve(private=True, at=(100, 200), runs=runs).median
    array([0.7, 0.8])
    """

    private: bool
    at: tuple[int, ...]
    runs: Floats
    measures: Mapping[str, Floats] = field(default_factory=dict)
    lower_is_better: bool = False
    seconds: Floats = field(default_factory=lambda: np.empty(0))

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


def measure(
    method: Method,
    stream: LabelledStream,
    seeds: Iterable[int],
    tick: Callable[[], None] = nothing,
    step: int = 0,
) -> Curve:
    """Run a method once for each seed of its noise, and test every release.

    NOT PRIVATE: it measures exactly, so the records must be public.

    Args:
        method: The method.
        stream: What it learns from, with the records to test on.
        seeds: One for each run.
        tick: Called after each run, to show progress.
        step: The newest release is tested again every so many records, so that methods that
            release at other times are compared on the same records; 0 for only when it is made.
    """
    yardstick = yardstick_of(stream)
    at: list[int] = []
    runs, seconds = [], []
    for seed in seeds:
        started = perf_counter()
        made = list(method.models(stream, seed))
        seconds.append(perf_counter() - started)
        if step:
            made = newest_at(made, range(step, stream.n + 1, step))
        at = [time for time, _ in made]
        has = method.probabilities
        runs.append([yardstick.measured(m, stream.test(t), probabilities=has) for t, m in made])
        tick()
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
        seconds=np.array(seconds),
    )


def newest_at(made: Sequence[tuple[int, Made]], times: Iterable[int]) -> list[tuple[int, Made]]:
    """The newest of what was made at each time: when something is made, and at the given times.

    >>> newest_at([(2, "a"), (4, "b"), (4, "c")], [1, 3, 6])
    [(2, 'a'), (3, 'a'), (4, 'c'), (6, 'c')]
    """
    at = [time for time, _ in made]
    wanted = sorted({*at, *(time for time in times if at and time >= at[0])})
    return [(time, made[bisect_right(at, time) - 1][1]) for time in wanted]
