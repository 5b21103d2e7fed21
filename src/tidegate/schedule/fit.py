"""Spans, Fits, and what every Schedule answers."""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from operator import index
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, SupportsIndex

from tidegate.schedule.levels import Certificate, Levels

Stream = Literal["source", "target"]


class Span(NamedTuple):
    """A half-open range of record indices.

    >>> len(range(*Span(3072, 7168))), 7168 in Span(3072, 7168)
    (4096, False)
    """

    start: int
    stop: int

    @property
    def size(self) -> int:
        """How many slots the span holds."""
        return self.stop - self.start

    def __contains__(self, record: object) -> bool:
        return isinstance(record, SupportsIndex) and self.start <= index(record) < self.stop


class SlotWeight(NamedTuple):
    """The weight of a span of records in a fit, in (0, 1]."""

    span: Span
    part: Fraction


class Fit(NamedTuple):
    """Train on a span, starting from a prior: the unit that the ledger charges.

    Attributes:
        number: Its place in the plan, counted from 0.
        at: The number of records that have arrived when it is carried out.
        span: The records it reads.
        prior: The number of the earlier fit whose released model it is drawn to, or None.
        role: `base` for a model fitted from scratch, `update` for one that refines a prior.
        level: Its size class; an update of level j reads 2^j steps.
        phase: Which base the fit belongs to, where a schedule's shares depend on that; else 0.
        released: Whether its model is the current one at time `at`.
        sample: How many slots of the span are drawn and read, or None for all of them.
        stream: The stream it reads, in a schedule of two.
        behind: How many records its prior, the prior of that, and so on have read, all of the same
            stream; for a base, its start and the starts before that. None where there is neither,
            or it comes from another stream. Where records count unequally, how many would have told
            as much as all fits before.
        start: The number of an earlier fit at whose model a descent may start, though the fit has
            no prior: post-processing, so it costs nothing.
        slot_weights: What the slots of the span count for, in order; empty if all count for 1. One
            that counts for w pays w^2 times the fit's share: only Gaussian noise can serve this.
    """

    number: int
    at: int
    span: Span
    prior: int | None
    role: Literal["base", "update"]
    level: int
    phase: int = 0
    released: bool = True
    sample: int | None = None
    stream: Stream | None = None
    behind: int | None = None
    start: int | None = None
    slot_weights: tuple[SlotWeight, ...] = ()

    @property
    def counted(self) -> int:
        """What the records it reads count for together."""
        return counted(self.slot_weights, self.sample or self.span.size)


class Charged(Protocol):
    """Fits that records are charged for: a schedule of one stream, or one side of two."""

    weighs: ClassVar[bool]
    allocated: ClassVar[bool]

    def raw_share(self, fit: Fit, levels: Levels) -> Fraction:
        """The share of a fit before scaling; it depends on its role, level and phase alone."""

    def certificate(self, levels: Levels) -> Certificate:
        """The exact supremum of the ledger, over all records and all time, before scaling."""


class Schedule(Charged, Protocol):
    """Which fits are due when: a pure function of public numbers, known before any record.

    It is a frozen dataclass whose fields are made by `parameter`, in a file that holds all that is
    known about it, and is added to the others by `register`. A model that is not released is the
    prior or start of later fits only until a step makes another of its level, see `superseded`.

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
    alone: ClassVar[bool]
    source: ClassVar[bool]

    def __init__(self, **parameters: Any) -> None: ...

    @property
    def step(self) -> int:
        """The smallest block, in records; fits are due only at multiples of it."""

    @property
    def first(self) -> int:
        """How many records there are when the first model is released."""

    @property
    def largest(self) -> int | None:
        """The most slots that any fit reads; None if there is no limit."""

    def due(self, at: int) -> Sequence[Fit]:
        """The fits to carry out once `at` records have arrived, in order."""

    def reads(self, record: int) -> Iterator[int]:
        """The times at which a fit may read this record, ascending (endless if it never ends)."""

    def settled(self, at: int) -> int:
        """Records before this one are, after time `at`, read all together or never again."""

    def needed(self, at: int) -> int:
        """Records before this one are never read after time `at`: they can be forgotten."""


def fits(schedule: Schedule, until: int) -> Iterator[Fit]:
    """All fits due while the first `until` records arrive, in order.

    >>> from tidegate.schedule import Independent
    >>> [fit.span for fit in fits(Independent(step=2), until=5)]
    [Span(start=0, stop=2), Span(start=2, stop=4)]
    """
    for at in range(schedule.step, until + 1, schedule.step):
        yield from schedule.due(at)


def superseded(earlier: Iterable[Fit], due: Iterable[Fit]) -> list[int]:
    """The earlier fits whose model no fit needs once those that are due now have been made.

    A prior or a start is released, or the newest fit of its level in its stream. So a model that
    is not released is needed until a later step makes another of its level.

    >>> from tidegate.schedule import SlidingWindow
    >>> window = SlidingWindow(window=70, step=10)
    >>> [fit.number for fit in window.due(70)], superseded(window.due(70), window.due(90))
    ([0, 1, 2], [1])
    """
    made = {(fit.stream, fit.level) for fit in due}
    return [fit.number for fit in earlier if not fit.released and (fit.stream, fit.level) in made]


def counted(slot_weights: Sequence[SlotWeight], slots: int) -> int:
    """What so many slots count for together, rounded down.

    >>> half, one = SlotWeight(Span(0, 9), Fraction(1, 2)), SlotWeight(Span(9, 10), Fraction(1))
    >>> counted([], 10), counted([half, one], 10)
    (10, 5)
    """
    total = sum((span.size * part for span, part in slot_weights), Fraction(0))
    return int(total) if slot_weights else slots


def least(size: int, sample: int | None) -> int:
    """How many of `size` slots are read where at most `sample` are, if that is given."""
    return size if sample is None else min(size, sample)


def sampled(size: int, sample: int | None) -> int | None:
    """How many of `size` slots a fit reads: None for all, where there are no more than `sample`."""
    return sample if sample is not None and sample < size else None
