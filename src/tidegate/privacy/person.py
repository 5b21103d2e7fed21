"""The settings that protect persons instead of records."""

from dataclasses import dataclass
from fractions import Fraction

from tidegate.checks import whole
from tidegate.privacy.budget import MOST_CONTRIBUTIONS


@dataclass(frozen=True, kw_only=True)
class Person:
    """How much a person may contribute.

    Attributes:
        contributions: k: what all records of a person may cost together, in units of what one
            record may cost.
        typical: How many slots a person is expected to have in a fit; it sizes descents, and enters
            no guarantee.
        period: The promise is about what a person does within any so many consecutive steps; None
            is for life.
    """

    contributions: int
    typical: Fraction = Fraction(1)
    period: int | None = None

    def __post_init__(self) -> None:
        whole("contributions", self.contributions, most=MOST_CONTRIBUTIONS)
        if self.period is not None:
            whole("period", self.period)
