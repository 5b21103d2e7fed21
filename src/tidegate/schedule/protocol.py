"""What a schedule answers, and the registry to which each adds itself under its kind."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeVar

from tidegate import kinds
from tidegate.checks import optional, ratio
from tidegate.schedule.fit import Certificate, Fit, Levels, Steps


class Charged(Protocol):
    """What the ledger needs of a schedule: raw shares and their certificate."""

    allocated: ClassVar[bool] = True

    def raw_share(self, fit: Fit, levels: Levels) -> Fraction:
        """The share of a fit before scaling; it depends only on its role, level and phase."""

    def certificate(self, levels: Levels) -> Certificate:
        """The exact supremum of what a record is charged over all time, before scaling."""


class Schedule(Charged, Protocol):
    """The rule that says which fits are due when, from public numbers alone.

    Each schedule is a frozen dataclass in a file of its own. Declare its fields with `parameter`
    and decorate it with `register`. Its parameters count records; its methods and properties count
    steps, except `largest`. The defaults below suit most schedules.

    Attributes:
        kind: Its name in configurations and on the command line.
        about: One line that describes its models.
        alone: Whether it can run on a single stream; if not, it is only a source of `TwoStream`.
        source: Whether it can make the source models of a `TwoStream`.
        allocated: Whether an allocation sets its shares; if not, it sets them itself.
    """

    kind: ClassVar[str]
    about: ClassVar[str]
    alone: ClassVar[bool] = True
    source: ClassVar[bool] = False

    def __init__(self, **parameters: Any) -> None: ...

    @property
    def steps(self) -> Steps:
        """The mapping between its steps and records."""

    @property
    def first(self) -> int:
        """How many steps are complete when the first model is released."""

    @property
    def look_back(self) -> int | None:
        """How many steps back a fit can read, at most; None if there is no limit."""
        return None

    @property
    def largest(self) -> int | None:
        """The most records that any fit reads; None if there is no limit."""
        return None

    def due(self, now: int) -> Sequence[Fit]:
        """The fits to carry out once `now` steps are complete, in order."""

    def reads(self, step: int) -> Iterator[int]:
        """The times at which a fit may read this step, ascending and possibly endless."""

    def settled(self, now: int) -> int:
        """The number of leading steps that each fit after `now` reads entirely or not at all."""


class Stepped(Schedule, Protocol):
    """A schedule whose parameter `step` is the number of records in a step."""

    step: int

    @cached_property
    def steps(self) -> Steps:
        """Steps of `step` records each."""
        return Steps(self.step)


def fits(schedule: Schedule, until: int) -> Iterator[Fit]:
    """All fits that are due by the time `until` steps are complete, in order.

    >>> from tidegate.schedule import Independent
    >>> [fit.span for fit in fits(Independent(step=1024), until=2)]
    [Span(start=0, stop=1), Span(start=1, stop=2)]
    """
    for now in range(1, until + 1):
        yield from schedule.due(now)


def needed(schedule: Schedule, now: int) -> int:
    """The earliest step that a fit after time `now` may read; older records can be deleted.

    >>> from tidegate.schedule import Basic, SlidingWindow
    >>> needed(SlidingWindow(window=7, step=1), now=10), needed(Basic(block=4, step=1), now=10)
    (4, 0)
    """
    if not schedule.look_back:
        return 0
    return max(0, max(now + 1, schedule.first) - schedule.look_back)


S = TypeVar("S", bound=Schedule)

SCHEDULES: dict[str, type[Schedule]] = {}
"""Every schedule of one stream whose certificate is proved, by kind."""


def parameter(
    help: str,  # noqa: A002
    example: int | str | None = None,
    *,
    check: kinds.Check | None = None,
    **default: Any,
) -> Any:
    """Declare a parameter of a schedule: a dataclass field with the help that users see.

    Args:
        help: What it means, in a few words.
        example: The value that `tidegate init` writes; a string makes the parameter a ratio.
        check: How to check a value; by default for a ratio or a number of records.
        default: The field's default, if it has one.
    """
    by_example: kinds.Check = ratio if isinstance(example, str) else optional
    return kinds.parameter(help, check or by_example, example, **default)


def register(schedule: type[S]) -> type[S]:
    """Register a schedule (a class decorator); its certificate must be proved."""
    SCHEDULES[schedule.kind] = schedule
    return schedule


def build(kind: str, given: Mapping[str, Any]) -> Schedule:
    """Build a schedule from its parameters; refuse unknown and missing ones.

    >>> build("independent", {"step": 1024})
    Independent(step=1024)
    """
    return kinds.build(SCHEDULES, kind, given)


def alone() -> dict[str, type[Schedule]]:
    """The schedules that can run on a single stream."""
    return {kind: each for kind, each in SCHEDULES.items() if each.alone}


def sources() -> dict[str, type[Schedule]]:
    """The schedules that can make the source models of a `TwoStream`."""
    return {kind: each for kind, each in SCHEDULES.items() if each.source}
