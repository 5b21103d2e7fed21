"""Shares: how a budget is divided among levels, scaled so that no record ever pays more than 1.

An allocation gives raw shares; each schedule certifies the most that a record pays before scaling.
docs/proofs/certificate.md derives the closed forms, and tests/laws compares them with brute force.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from tidegate.checks import refuse
from tidegate.privacy.budget import Budget
from tidegate.schedule.fit import Certificate, Fit, Levels
from tidegate.schedule.protocol import SCHEDULES, Charged
from tidegate.schedule.twostream import Target


@dataclass(frozen=True)
class Paper:
    """The paper's own split: updates of all levels have the same noise.

    >>> from tidegate.privacy import ApproxDP, PureDP
    >>> Paper().rate_for(PureDP(1.0)), Paper().rate_for(ApproxDP(1.0, 1e-6))
    (Fraction(1, 2), Fraction(1, 4))
    """

    name: ClassVar[str] = "paper"

    def rate_for(self, budget: Budget) -> Fraction:
        """The rate that keeps the noise the same when the number of records doubles."""
        return budget.even_rate

    def levels_for(self, budget: Budget) -> Levels:
        """The raw shares of levels under a budget."""
        return Levels(rate=self.rate_for(budget), power=budget.power)


@dataclass(frozen=True)
class Tapered:
    """Shares that fall more slowly from level to level, so that larger fits have less noise.

    In every phase of Continual and Basic, updates get all the budget that bases leave.

    Args:
        rate: The ratio of the shares of two successive levels, above the rate of `Paper` and below
            1. The default is 7/10 for a pure budget and 1/2 for a Gaussian one: the noise of a fit
            on n records then falls about as n^-1/2, as the sampling error does.

    >>> from tidegate.privacy import ApproxDP
    >>> Tapered().rate_for(ApproxDP(1.0, 1e-6))
    Fraction(1, 2)
    """

    rate: Fraction | None = None

    name: ClassVar[str] = "tapered"

    def __post_init__(self) -> None:
        rate: object = self.rate
        if rate is not None and not (isinstance(rate, Fraction) and 0 < rate < 1):
            raise refuse("rate", "a Fraction above 0 and below 1", rate)

    def rate_for(self, budget: Budget) -> Fraction:
        """The rate, which must be above that of `Paper` for the same budget."""
        if not self.rate:
            return budget.tapered_rate
        if not budget.even_rate < self.rate:
            allowed = f"above {budget.even_rate} and below 1 for this budget"
            raise refuse("rate", allowed, shown=str(self.rate))
        return self.rate

    def levels_for(self, budget: Budget) -> Levels:
        """The raw shares of levels under a budget, scaled to leave nothing over."""
        return Levels(rate=self.rate_for(budget), power=budget.power, filled=True)


Allocation = Paper | Tapered


@dataclass(frozen=True, kw_only=True)
class Shares:
    """The share of each fit of a schedule.

    Args:
        schedule: The schedule that makes the fits.
        budget: The budget of each record.
        allocation: How the budget is divided among levels.
        reserve: The part of each record's budget that is kept for other lines of the ledger.

    >>> from tidegate.privacy import PureDP
    >>> from tidegate.schedule import SlidingWindow
    >>> sliding = SlidingWindow(window=7, step=1)
    >>> shares = Shares(schedule=sliding, budget=PureDP(1.0))
    >>> [str(shares.of(fit)) for fit in sliding.due(7)]
    ['4/7', '1/7', '2/7']
    """

    schedule: Charged
    budget: Budget
    allocation: Allocation = Paper()
    reserve: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if not 0 <= self.reserve < 1:
            raise refuse("reserve", "a share from 0 to below 1", shown=str(self.reserve))
        name = type(self.schedule).__name__
        if not self.schedule.allocated and not isinstance(self.allocation, Paper):
            allowed = f"left out for a {name} schedule, which sets its own shares"
            raise refuse("allocation", allowed, self.allocation.name)
        _ = self.certificate  # raise now if there is none, or if the budget does not allow the rate

    @cached_property
    def levels(self) -> Levels:
        """The raw shares of levels."""
        return self.allocation.levels_for(self.budget)

    @cached_property
    def certificate(self) -> Certificate:
        """The most that any record can ever pay, before scaling."""
        return certify(self.schedule, self.levels)

    @property
    def forever(self) -> Fraction:
        """The most that any record can ever pay for fits, after scaling."""
        return self.certificate.supremum * self._scale

    @cached_property
    def _scale(self) -> Fraction:
        return (1 - self.reserve) / self.certificate.supremum

    @cached_property
    def _cache(self) -> dict[tuple[str, int, int], Fraction]:
        return {}

    def of(self, fit: Fit) -> Fraction:
        """The share of a fit, which depends only on its role, level and phase."""
        key = fit[4:7]
        if key not in self._cache:
            self._cache[key] = self.schedule.raw_share(fit, self.levels) * self._scale
        return self._cache[key]


def certify(schedule: Charged, levels: Levels) -> Certificate:
    """The exact supremum of what a record is charged over all time, before scaling.

    >>> from fractions import Fraction
    >>> from tidegate.schedule import Continual, SlidingWindow
    >>> halves = Levels(rate=Fraction(1, 2), power=1)
    >>> str(certify(SlidingWindow(window=7, step=1), halves).supremum)
    '7/12'
    >>> str(certify(Continual(block=8, step=1), halves).supremum)
    '11/8'
    """
    if type(schedule) not in (*SCHEDULES.values(), Target):
        # A subclass may make fits that the certificate does not cover.
        names = ", ".join(each.__name__ for each in SCHEDULES.values())
        allowed = f"one that a certificate is proved for ({names})"
        raise refuse("schedule", allowed, shown=type(schedule).__name__)
    return schedule.certificate(levels)
