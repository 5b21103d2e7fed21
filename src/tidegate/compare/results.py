"""What runs measured: curves over a stream, and which schedule they recommend beyond the noise."""

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from tidegate.checks import nothing
from tidegate.compare.contenders import CONSTANT, Contender, Method
from tidegate.compare.labelled import LabelledStream
from tidegate.compare.yardstick import Shown, yardstick_of

Floats = NDArray[np.float64]
Made = TypeVar("Made")


CONFIDENCE = 0.975
"""The quantile of Student's t that a difference is held against: 95 % on two sides."""


# --- curves


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


# --- results


@dataclass(frozen=True, kw_only=True)
class Result:
    """A contender and what its runs measured.

    Attributes:
        contender: The contender.
        curve: Its measures over time, of its best setting.
        admitted: The share of the records that its models learn from, of those with a person;
            NaN if records are protected, and for methods of other packages.
    """

    contender: Contender
    curve: Curve
    admitted: float = math.nan

    @property
    def seconds(self) -> float:
        """How long a run trained: the median of the runs."""
        return float(np.median(self.curve.seconds))

    def _newest(self, times: Sequence[int]) -> Any:
        """The number of its newest release at each of the times."""
        return np.searchsorted(self.curve.at, times, side="right") - 1

    def at(self, times: Sequence[int]) -> Floats:
        """What ranks it, of its newest release at each of the times: the median of the runs."""
        return np.asarray(self.curve.median[self._newest(times)])

    def scores(self, times: Sequence[int]) -> Floats:
        """What ranks it: accuracy or RMSE in each run at each time, shape (runs, times)."""
        return np.asarray(self.curve.runs[:, self._newest(times)])

    def gains(self, times: Sequence[int]) -> Floats:
        """The same with its sign such that more is better."""
        return np.asarray(self.curve.gains[:, self._newest(times)])

    def measure(self, name: str, times: Sequence[int]) -> float:
        """The mean of another measure over all runs and times; NaN if it is not defined."""
        if name not in self.curve.measures:
            return math.nan
        chosen = self.curve.measures[name][:, self._newest(times)]
        chosen = chosen[~np.isnan(chosen)]
        return float(chosen.mean()) if chosen.size else math.nan


def results(
    contenders: Sequence[Contender],
    stream: LabelledStream,
    runs: int,
    tick: Callable[[], None] = nothing,
    step: int = 0,
) -> Iterator[Result]:
    """Run each contender `runs` times, with new noise; call `tick` after each run of a setting.

    Of several settings the best counts. Choosing it by the test records favours a method: nobody
    can do so with private records. Schedules have one setting each, so one that beats such a method
    beats it at its best. For `step` see `measure`.
    """
    for contender in contenders:
        seeds = range(1) if contender.runs_once else range(runs)
        curves = [measure(each, stream, seeds, tick, step) for each in contender.methods]
        best = max(curves, key=lambda curve: curve.gain)
        yield Result(contender=contender, curve=best, admitted=contender.admitted(stream))


def common_times(compared: Sequence[Result], step: int) -> list[int]:
    """The times, a step apart, at which all contenders have a model that could be tested."""
    since = max(result.curve.at[0] for result in compared)
    times = range(-(-since // step) * step, max(max(r.curve.at) for r in compared) + 1, step)
    tested = [~np.isnan(result.scores(times)).any(axis=0) for result in compared]
    return [time for time, each in zip(times, np.all(tested, axis=0), strict=True) if each]


# --- the recommendation


class Margin(NamedTuple):
    """A difference of two means, of accuracy or RMSE.

    Attributes:
        size: The difference.
        noise: The size up to which it can be noise; infinite if there is only one run.
    """

    size: float
    noise: float

    @property
    def within_noise(self) -> bool:
        """Whether the difference may be noise."""
        return abs(self.size) <= self.noise


def margin(ahead: Floats, behind: Floats) -> Margin:
    """The difference of gains of shape (runs, times), paired by run and by test records.

    It varies over the runs, because of the private noise, and over the times, because of the test
    records and of the drift. For each of the two take Student's t times the standard error; the
    root of the sum of their squares is `noise`. What runs only once is compared with every run.

    >>> margin(np.array([[0.8, 0.9], [0.7, 0.8]]), np.array([[0.7, 0.8], [0.7, 0.8]])).within_noise
    True
    """
    differences = ahead - behind
    size = float(differences.mean())
    if len(differences) == 1:
        return Margin(size, math.inf)
    return Margin(
        size, math.hypot(_half_width(differences, axis=0), _half_width(differences, axis=1))
    )


def _half_width(differences: Floats, axis: int) -> float:
    """Student's t times the standard error of the mean along an axis; 0 if it has one entry."""
    means = differences.mean(axis=1 - axis)
    if len(means) == 1:
        return 0.0
    quantile = student.ppf(CONFIDENCE, len(means) - 1)
    return float(quantile * means.std(ddof=1) / math.sqrt(len(means)))


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The results under one budget, ranked by mean accuracy or RMSE.

    Args:
        results: What was measured, of schedules and of methods of other packages.
        times: The times that means cover.
    """

    results: Sequence[Result]
    times: Sequence[int]

    def score(self, result: Result) -> float:
        """What ranks a result, accuracy or RMSE: the mean over all runs and times."""
        return float(result.scores(self.times).mean())

    def gain(self, result: Result) -> float:
        """The same with its sign such that more is better."""
        return float(result.gains(self.times).mean())

    @property
    def ordered(self) -> list[Result]:
        """All results: those without privacy first, then the best first."""
        return sorted(self.results, key=lambda r: (r.curve.private, -self.gain(r)))

    @cached_property
    def ranked(self) -> list[Result]:
        """The schedules, the best first; a tie goes to the one that retains less."""
        schedules = [each for each in self.results if each.contender.table]
        return sorted(schedules, key=lambda each: (-self.gain(each), each.contender.records_kept))

    @property
    def best(self) -> Result:
        """The schedule with the best mean."""
        return self.ranked[0]

    @property
    def others(self) -> list[Result]:
        """The other schedules, the second best first; if there is none, nothing is recommended."""
        return self.ranked[1:]

    def recommends(self, result: Result) -> bool:
        """Whether a result is the best of several schedules."""
        return bool(self.others) and result is self.best

    @property
    def configured(self) -> Result:
        """The configured schedule."""
        return next(each for each in self.results if each.contender.configured)

    def behind(self, result: Result) -> Margin:
        """By how much a result is behind the best schedule; negative if it is ahead."""
        return margin(self.best.gains(self.times), result.gains(self.times))

    def constant(self, shown: Shown) -> float:
        """What a constant reaches of a measure, on the test records; NaN if that is not known."""
        measured = self.configured.measure(shown.constant, self.times)
        return shown.always if math.isnan(measured) else measured

    @property
    def ties(self) -> list[Result]:
        """The schedules whose difference from the best is within its noise."""
        return [each for each in self.others if self.behind(each).within_noise]

    @property
    def over_constant(self) -> list[Margin]:
        """By how much the best schedule is ahead of the constant; empty if that was not run."""
        return [self.behind(each) for each in self.results if each.contender.name == CONSTANT]

    @property
    def baselines_ahead(self) -> list[Result]:
        """Private methods that are no schedules, and ahead of the best by more than the noise."""
        private = [r for r in self.results if not r.contender.table and r.curve.private]
        margins = [(each, self.behind(each)) for each in private]
        return [each for each, by in margins if by.size < 0 and not by.within_noise]


def toml(table: Mapping[str, Any]) -> str:
    """A [schedule] table as TOML.

    >>> from fractions import Fraction
    >>> print(toml({"kind": "fading", "step": 10, "forget": Fraction(1, 5), "memory": 1}))
    [schedule]
    kind = "fading"
    step = 10
    forget = "1/5"
    memory = 1
    """
    lines = (f"{key} = {json.dumps(value, default=str)}" for key, value in table.items())
    return "\n".join(["[schedule]", *lines])
