"""Allocations: how shares go to levels, before they are scaled.

A schedule makes raw shares of them, which become shares when they are divided by the supremum that
it certifies, so that the record that pays most pays 1.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tidegate.checks import refuse
from tidegate.privacy.budget import Budget
from tidegate.schedule.levels import Levels


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

    def levels_for(self, budget: Budget) -> Levels:
        """How shares fall from level to level."""
        return Levels(rate=self.rate_for(budget))


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

    def levels_for(self, budget: Budget) -> Levels:
        """How shares fall from level to level; a schedule leaves nothing of them."""
        return Levels(rate=self.rate_for(budget), filled=True)


Allocation = Paper | Tapered
