"""Who is protected: each record by itself, or persons with all of their records."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from tidegate.checks import refuse, whole, written
from tidegate.privacy.budget import MAX_CONTRIBUTIONS, Budget

PERSON_NEIGHBOURS = (
    "streams of one length whose records belong to the same persons, that differ in the content of "
    "records of one person"
)
"""What a card says about neighbouring streams, if persons are protected."""

MAX_DENOMINATOR = 1000
"""The largest denominator of `typical`."""

MAX_TYPICAL = 2**20
"""The largest `typical`; as for contributions, far beyond what leaves a useful model."""


class Words(NamedTuple):
    """How texts speak of whom a budget protects."""

    whom: str
    in_stream: str  # as part of a stream
    contents: str  # two contents of which look alike
    replaced: str  # what neighbouring streams differ in
    limits: str = ""  # how much one may contribute
    until: str = ""  # how long records count, in a sentence


@dataclass(frozen=True, kw_only=True)
class Person:
    """How much a person may contribute.

    Attributes:
        contributions: k: what all records of a person may cost together, in units of what one
            record may cost.
        typical: How many slots a person is expected to have in a fit; it sizes descents, and enters
            no guarantee.
        period: Protect what a person does within any `period` consecutive steps; None
            is for life. Schedules without a look-back keep owners for ever all the same.

    >>> Person(contributions=4, typical=2)
    Person(contributions=4, typical=Fraction(2, 1), period=None)
    >>> Person(contributions=4, typical="1/2")
    Traceback (most recent call last):
    tidegate.checks.InvalidValueError: typical must be a number from 1 to 1048576 with a denominator
    of at most 1000, such as 2 or "5/2", got '1/2'
    """

    contributions: int
    typical: Fraction = Fraction(1)
    period: int | None = None

    def __post_init__(self) -> None:
        whole("contributions", self.contributions, most=MAX_CONTRIBUTIONS)
        object.__setattr__(self, "typical", typical_slots(self.typical))
        if self.period is not None:
            whole("period", self.period)

    persons = True
    """Whether persons are protected."""

    def entries(self) -> dict[str, Any]:
        """What a card says about the protection of persons."""
        within = {None: "", 1: " within one step"}.get(
            self.period, f" within {self.period} consecutive steps"
        )
        return {
            "neighbours": f"{PERSON_NEIGHBOURS}{within}",
            "protects": {
                "unit": "person",
                "contributions": self.contributions,
                "period": self.period,
                "typical": str(self.typical),
            },
        }

    @property
    def within(self) -> str:
        """In which steps a person is protected; empty for life."""
        if not self.period:
            return ""
        steps = "one step" if self.period == 1 else f"{self.period:,} consecutive steps"
        return f" within any {steps}"

    @property
    def cost(self) -> str:
        """The most that all records of a person cost together."""
        times = "" if self.contributions == 1 else f"{self.contributions:,} times "
        return f"{times}what one record may cost"

    @property
    def words(self) -> Words:
        """How texts speak of persons."""
        within = self.within
        whom = f"what any one person does{within}"
        period = f"period {self.period:,} steps" if self.period else "for life"
        before = f"{within.strip().capitalize()}, the" if within else "The"
        return Words(
            whom=whom if within else "any one person",
            in_stream=whom if within else "a person with records in the stream",
            contents=f"all records of a person{within} together have",
            replaced=f"any number of records of any one person{within}",
            limits=f"persons, {period}; contributions {self.contributions:,}: what all records of "
            f"a person may cost, in units of one record; typical {self.typical}",
            until=f"{before} records of a person count until all of them together have cost "
            f"{self.cost}; later ones keep their place and are not learnt from.",
        )

    def check(self, budget: Budget, *, sample: int | None = None) -> None:
        """Refuse a budget for another number of contributions, and samples."""
        if budget.contributions != self.contributions:
            allowed = f"those of the budget ({budget.contributions})"
            raise refuse("contributions", allowed, self.contributions)
        if sample is not None:
            allowed = "left out where persons are protected, whose records a sample would split"
            raise refuse("sample", allowed, sample)


class EachRecord:
    """Protects each record by itself: nothing is to be limited, weighed or said.

    >>> EACH_RECORD.persons, EACH_RECORD.contributions, EACH_RECORD.entries()
    (False, 1, {})
    """

    persons = False
    contributions = 1
    typical = Fraction(1)
    period = None
    within = ""
    cost = "its budget"
    words = Words("any one record", "a record of the stream", "a record has", "any one record")

    def entries(self) -> dict[str, Any]:
        """See `Person`: nothing, cards are about records unless they say otherwise."""
        return {}

    def check(self, budget: Budget, *, sample: int | None = None) -> None:
        """See `Person`: any budget and any sample will do."""


EACH_RECORD = EachRecord()

Protects = Person | EachRecord
"""Who is protected."""


def typical_slots(value: object) -> Fraction:
    """Check how many slots a person is expected to have in a fit; return it exactly.

    >>> typical_slots(2.5), typical_slots("5/2"), typical_slots(3)
    (Fraction(5, 2), Fraction(5, 2), Fraction(3, 1))
    """
    text = written(value) if isinstance(value, str | int | float | Fraction) else ""
    try:
        # No exponent: 10 to the power of a billion would take for ever.
        exact = Fraction(text) if len(text) < 30 and "e" not in text.lower() else Fraction(0)
    except (ValueError, ZeroDivisionError):
        exact = Fraction(0)
    if (
        isinstance(value, bool)
        or not 1 <= exact <= MAX_TYPICAL
        or exact.denominator > MAX_DENOMINATOR
    ):
        allowed = (
            f"a number from 1 to {MAX_TYPICAL} with a denominator of at most {MAX_DENOMINATOR}"
        )
        raise refuse("typical", f'{allowed}, such as 2 or "5/2"', value)
    return exact
