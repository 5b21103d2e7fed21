"""How shares fall from level to level, and what a schedule certifies about them."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, kw_only=True)
class Levels:
    """The raw shares of levels: geometric, a level up is worth `rate` times as much.

    >>> str(Levels(rate=Fraction(1, 2)).raw_share(2))
    '1/8'
    """

    rate: Fraction  # the ratio of two levels' shares, above 0 and below 1
    filled: bool = False  # levels also get what a schedule with finitely many of them would leave

    def raw_share(self, level: int) -> Fraction:
        """(1 - r) r^level: the raw shares of all levels add up to 1."""
        return (1 - self.rate) * self.rate**level


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What any record could ever pay before shares are scaled, known before there is one.

    Attributes:
        supremum: The most any record pays over all time before scaling: what shares are divided by.
        attained: Whether a record reaches it, or only tends to it as more and more bases are made.
    """

    supremum: Fraction
    attained: bool


TENDS_TO_ONE = Certificate(supremum=Fraction(1), attained=False)
"""(1 - r)(1 + r + r^2 + ...), or what fills up to it."""
