"""What every Schedule answers."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Protocol

from tidegate.schedule.fit import Fit
from tidegate.schedule.levels import Certificate, Levels
from tidegate.schedule.steps import Steps


class Charged(Protocol):
    """Fits that records are charged for: a schedule of one stream, or one side of two."""

    weighs: ClassVar[bool] = False
    allocated: ClassVar[bool] = True

    def raw_share(self, fit: Fit, levels: Levels) -> Fraction:
        """The share of a fit before scaling; it depends on its role, level and phase alone."""

    def certificate(self, levels: Levels) -> Certificate:
        """The exact supremum of the ledger, over all records and all time, before scaling."""


class Schedule(Charged, Protocol):
    """Which fits are due when: a pure function of public numbers, known before any record.

    It is a frozen dataclass whose fields are made by `parameter`, in a file that holds all that is
    known about it, and is added to the others by `register`. Its parameters are numbers of records;
    all that it answers counts in steps, except `largest`. What most schedules say is the default.

    Attributes:
        kind: Its name in configurations and on the command line.
        about: What its models are, in a line.
        alone: Whether it serves a stream by itself, and not only as the source of two.
        source: Whether it may make the source models of two streams.
        weighs: Whether its fits weigh slots by their place, which only Gaussian noise can serve.
        allocated: Whether an allocation decides its shares; otherwise they are its own.
    """

    kind: ClassVar[str]
    about: ClassVar[str]
    alone: ClassVar[bool] = True
    source: ClassVar[bool] = False

    def __init__(self, **parameters: Any) -> None: ...

    @property
    def steps(self) -> Steps:
        """Which records its steps hold."""

    @property
    def first(self) -> int:
        """How many steps are complete when the first model is released."""

    @property
    def look_back(self) -> int | None:
        """How many of the newest steps a fit can read at the most; None if all of them."""
        return None

    @property
    def largest(self) -> int | None:
        """The most records that any fit reads; None if there is no limit."""
        return None

    def due(self, now: int) -> Sequence[Fit]:
        """The fits to carry out once `now` steps are complete, in order."""

    def reads(self, step: int) -> Iterator[int]:
        """The times at which a fit may read this step, ascending (endless if it never ends)."""

    def settled(self, now: int) -> int:
        """Steps before this one are, after time `now`, read all together or never again."""


class Stepped(Schedule, Protocol):
    """A schedule with the number of records in a step as a parameter."""

    step: int

    @cached_property
    def steps(self) -> Steps:
        """All of one size."""
        return Steps(self.step)


def fits(schedule: Schedule, until: int) -> Iterator[Fit]:
    """All fits due while the first `until` steps are completed, in order.

    >>> from tidegate.schedule import Independent
    >>> [fit.span for fit in fits(Independent(step=1024), until=2)]
    [Span(start=0, stop=1), Span(start=1, stop=2)]
    """
    for now in range(1, until + 1):
        yield from schedule.due(now)


def needed(schedule: Schedule, now: int) -> int:
    """Steps before this one are never read after time `now`: their records can be forgotten.

    >>> from tidegate.schedule import Basic, SlidingWindow
    >>> needed(SlidingWindow(window=7, step=1), now=10), needed(Basic(block=4, step=1), now=10)
    (4, 0)
    """
    return 0 if schedule.look_back is None else max(0, now + 1 - schedule.look_back)
