"""[person]: protects persons instead of records."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from tidegate.checks import InvalidValueError, optional, refuse, whole, word
from tidegate.kinds import CHANGEABLE
from tidegate.privacy.budget import MAX_CONTRIBUTIONS
from tidegate.privacy.person import Person, typical_slots
from tidegate.run.config.keys import key
from tidegate.run.config.tables import RecordsTable
from tidegate.schedule import Schedule, TwoStream


def typical(name: str, value: object) -> Fraction:
    """An exact number of 1 or more: 54, 2.5 or "5/2"."""
    try:
        return typical_slots(value)
    except InvalidValueError as error:  # it names the key without its table
        raise InvalidValueError(f"{name.removesuffix('typical')}{error}") from None


def variable(name: str, value: object) -> str:
    """The name of an environment variable."""
    text = value if isinstance(value, str) else ""
    if not (text.isascii() and text.isidentifier()):
        # It may be the key itself, which no error may show.
        allowed = "the name of an environment variable, such as PERSON_KEY"
        raise refuse(name, allowed, shown="something else")
    return text


@dataclass(frozen=True, kw_only=True)
class PersonTable:
    """[person]: whose each record is, and how much a person may contribute."""

    id: str = key(word, "the column, field or header that says whose a record is")
    contributions: int = key(
        partial(whole, most=MAX_CONTRIBUTIONS),
        "k: what a person's records may cost together, in units of one record",
    )
    typical: Fraction = key(
        typical,
        "how many records a person is expected to have in a fit; for accuracy only",
        default=Fraction(1),
    )
    period: int | None = key(
        optional,
        "protect what a person does in this many consecutive steps; default: for life",
        default=None,
    )
    key: str | None = key(
        variable,
        "environment variable with the key of ids; by default a file of the state",
        life=CHANGEABLE,  # the state notices if the key itself is another one
        default=None,
    )

    def build(self) -> Person:
        """How much a person may contribute."""
        return Person(contributions=self.contributions, typical=self.typical, period=self.period)


def person_mistakes(
    person: PersonTable,
    read: Sequence[str] | None,
    records: RecordsTable,
    schedule: Schedule | TwoStream,
) -> Iterator[str]:
    """Why a record's columns, or a schedule, do not go with [person]."""
    used = "a feature" if person.id in (read or ()) else None
    if used or person.id == records.label:
        allowed = f"a column of its own, not that of {used or 'the label'}"
        yield str(refuse("person.id", allowed, person.id))
    two = isinstance(schedule, TwoStream)
    if getattr(schedule.source if two else schedule, "sample", None) is not None:
        name = "schedule.source.sample" if two else "schedule.sample"
        yield f"{name} must not be given with [person]: remove one of the two"
    if two and person.period is not None:
        yield "person.period must be left out with two streams, whose steps have no common order"
