"""Recommends a schedule by what was measured, and says what the noise leaves undecided."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from tidegate.schedule import Schedule
from tidegate.study.compared import Result
from tidegate.study.grid import CONSTANT

Floats = NDArray[np.float64]

CONFIDENCE = 0.975
"""The quantile of Student's t that a difference is held against: 95 % on two sides."""


class Retained(NamedTuple):
    """Which records stay stored because a later fit reads them; None if all do, for ever.

    Attributes:
        records: How many stay after a release, besides those of the step that is not complete.
        steps: For how many steps, its own included, a record stays.
    """

    records: int | None
    steps: int | None


def retained(schedule: Schedule) -> Retained:
    """What a schedule retains.

    >>> from tidegate.schedule import Continual, Fading, SlidingWindow
    >>> retained(SlidingWindow(window=70, step=10))
    Retained(records=60, steps=7)
    >>> retained(Fading(step=10, memory=1)), retained(Continual(block=10, step=10))
    (Retained(records=0, steps=1), Retained(records=None, steps=None))
    """
    steps = schedule.look_back
    return Retained(None if steps is None else schedule.steps.count(steps - 1), steps)


class Margin(NamedTuple):
    """A difference of two means, of accuracy or RMSE.

    Attributes:
        size: The difference.
        noise: The size up to which it can be noise; None if there is only one run.
    """

    size: float
    noise: float | None

    @property
    def within_noise(self) -> bool:
        """Whether the difference may be noise."""
        return self.noise is None or abs(self.size) <= self.noise


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
        return Margin(size, None)
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
        results: What was measured, schedules and baselines.
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
        schedules = [each for each in self.results if each.contender.schedule is not None]
        return sorted(schedules, key=lambda each: (-self.gain(each), _records_kept(each)))

    @property
    def best(self) -> Result:
        """The schedule with the best mean."""
        return self.ranked[0]

    @property
    def next(self) -> Result | None:
        """The schedule that comes second, if there is one."""
        return self.ranked[1] if len(self.ranked) > 1 else None

    @property
    def configured(self) -> Result:
        """The configured schedule."""
        return next(each for each in self.results if each.contender.configured)

    def behind(self, result: Result) -> Margin:
        """By how much a result is behind the best schedule; negative if a baseline is ahead."""
        return margin(self.best.gains(self.times), result.gains(self.times))

    def constant(self, reached: str | float | None) -> float:
        """What a constant reaches: always the same, or by a measure of the test records alone.

        NaN if it is None, or was not measured.
        """
        if isinstance(reached, str):
            return self.configured.measure(reached, self.times)
        return math.nan if reached is None else reached

    @property
    def ties(self) -> list[Result]:
        """The schedules whose difference from the best is within its noise."""
        return [each for each in self.ranked[1:] if self.behind(each).within_noise]

    @property
    def over_constant(self) -> Margin | None:
        """By how much the best schedule is ahead of the constant; None if that was not run."""
        margins = (self.behind(r) for r in self.results if r.contender.name == CONSTANT)
        return next(margins, None)

    @property
    def baselines_ahead(self) -> list[Result]:
        """The private baselines that are ahead of the best schedule by more than the noise."""
        private = [r for r in self.results if r.contender.schedule is None and r.curve.private]
        margins = {id(each): self.behind(each) for each in private}
        return [r for r in private if margins[id(r)].size < 0 and not margins[id(r)].within_noise]


def _records_kept(result: Result) -> float:
    """How many records a schedule retains."""
    schedule = result.contender.schedule
    kept = None if schedule is None else retained(schedule).records
    return math.inf if kept is None else kept


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
    return "\n".join(["[schedule]", *(f"{key} = {_value(v)}" for key, v in table.items())])


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else f'"{value}"'
