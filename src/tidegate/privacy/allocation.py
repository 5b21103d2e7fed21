"""Allocations: how shares go to levels, before they are scaled.

A weight becomes a share when it is divided by the supremum that certificate.py derives, so that
the record that pays most pays 1. Both allocations are geometric: a level up is worth a `rate` less.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, assert_never

from tidegate.checks import refuse
from tidegate.privacy.budget import Budget
from tidegate.schedule import (
    Basic,
    Continual,
    Cumulative,
    Fit,
    Growing,
    Independent,
    MultiResolution,
    SlidingWindow,
)
from tidegate.schedule.binary import log2

OneStream = MultiResolution | Cumulative | Continual | Basic | Growing | Independent | SlidingWindow


@dataclass(frozen=True)
class Target:
    """The target side of a TwoStream, as far as shares are concerned.

    Its phases are as long as the source lets them be, so every level may occur in each.
    """


Charged = OneStream | Target
"""What shares are allocated for: a schedule of one stream, or one side of two."""


@dataclass(frozen=True)
class Paper:
    """The text's own split: the noise of an update does not depend on its level.

    >>> from tidegate.privacy import ApproxDP, PureDP
    >>> Paper().rate_for(PureDP(1.0)), Paper().rate_for(ApproxDP(1.0, 1e-6))
    (Fraction(1, 2), Fraction(1, 4))
    """

    name: ClassVar[str] = "paper"

    def rate_for(self, budget: Budget) -> Fraction:
        """The rate that keeps the noise the same when the records double."""
        return budget.even_rate


@dataclass(frozen=True)
class Tapered:
    """Spends slower from level to level, so that the noise falls as the data grows.

    In every phase of Continual and Basic the updates get all that the bases will leave.

    Args:
        rate: The ratio of two levels' shares, above the rate of `Paper` and below 1. Without it,
            7/10 for a pure budget and 1/2 for a Gaussian one: the noise then falls with the
            number n of records as n^-1/2, as the sampling error does.

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
        """The rate, checked against the budget's kind."""
        if self.rate is None:
            return budget.tapered_rate
        if not budget.even_rate < self.rate:
            allowed = f"above {budget.even_rate} and below 1 for this budget"
            raise refuse("rate", allowed, told=str(self.rate))
        return self.rate


Allocation = Paper | Tapered


def weight(  # noqa: PLR0911 (one for each schedule)
    schedule: Charged, allocation: Allocation, rate: Fraction, fit: Fit
) -> Fraction:
    """The share of a fit before scaling.

    >>> sliding = SlidingWindow(window=7, step=1)
    >>> [str(weight(sliding, Paper(), Fraction(1, 2), fit)) for fit in sliding.due(7)]
    ['1/3', '1/12', '1/6']
    """
    level = geometric(rate, fit.level)
    match schedule:
        case Independent():
            return Fraction(1)
        case Growing():
            return schedule.share(fit.number)
        case SlidingWindow():
            if fit.role == "base":
                return Fraction(1, 3)
            return level / 3 / side(schedule, allocation, rate)
        case Continual() | Basic():
            if fit.role == "update" and isinstance(allocation, Tapered):
                return level * allowance(schedule, rate, fit.phase)
            return level
        case MultiResolution() | Cumulative() | Target():
            return level
        case _:
            assert_never(schedule)


def geometric(rate: Fraction, level: int) -> Fraction:
    """(1 - r) r^level: the weights of all levels add up to 1."""
    return (1 - rate) * rate**level


def side(schedule: SlidingWindow, allocation: Allocation, rate: Fraction) -> Fraction:
    """What the levels of one side are divided by.

    1 in the paper, where finitely many levels leave some of their third unspent; `Tapered` does
    not leave it.
    """
    return 1 - rate**schedule.levels if isinstance(allocation, Tapered) else Fraction(1)


def update_levels(schedule: Continual | Basic, phase: int) -> int:
    """How many levels of updates a phase has."""
    if isinstance(schedule, Basic):
        return 1
    return log2(schedule.block // schedule.step) + phase


def allowance(schedule: Continual | Basic, rate: Fraction, phase: int) -> Fraction:
    """What `Tapered` multiplies a phase's updates by, so that its worst record pays 1 in the limit.

    The bases after phase q take r^(q + 1) from its records; the updates of the record that is in
    all L levels of them add up to 1 - r^L before this factor.
    """
    return (1 - rate ** (phase + 1)) / (1 - rate ** update_levels(schedule, phase))
