"""Raw shares by level, and the certificate of a schedule."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, kw_only=True)
class Levels:
    """The raw shares of levels: each level has `rate` times the raw share of the one below.

    >>> str(Levels(rate=Fraction(1, 2), power=1).raw_share(2))
    '1/8'
    """

    rate: Fraction  # the ratio of the raw shares of two successive levels, above 0 and below 1
    power: int  # a record of slot weight e pays e^power times a share
    filled: bool = False  # whether schedules scale updates so that no budget is left over

    def raw_share(self, level: int) -> Fraction:
        """(1 - r) r^level: the raw shares of all levels add up to 1."""
        return (1 - self.rate) * self.rate**level


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The most that any record can ever pay before shares are scaled.

    Attributes:
        supremum: The supremum of what a record pays over all time; raw shares are divided by it.
        attained: Whether some record reaches it; if not, records only tend to it over time.
    """

    supremum: Fraction
    attained: bool


TENDS_TO_ONE = Certificate(supremum=Fraction(1), attained=False)
"""A supremum of 1 that is not attained, such as (1 - r)(1 + r + r^2 + ...)."""
