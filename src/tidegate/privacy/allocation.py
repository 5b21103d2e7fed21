"""Allocations: how raw shares are divided among levels.

Raw shares become shares when they are divided by the supremum that the schedule certifies. So no
record ever pays more than 1.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tidegate.checks import refuse
from tidegate.privacy.budget import Budget
from tidegate.schedule.levels import Levels


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
        if self.rate is None:
            return budget.tapered_rate
        if not budget.even_rate < self.rate:
            allowed = f"above {budget.even_rate} and below 1 for this budget"
            raise refuse("rate", allowed, shown=str(self.rate))
        return self.rate

    def levels_for(self, budget: Budget) -> Levels:
        """The raw shares of levels under a budget, scaled to leave nothing over."""
        return Levels(rate=self.rate_for(budget), power=budget.power, filled=True)


Allocation = Paper | Tapered
