"""Spans and Fits: what a schedule makes, counted in steps."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from operator import index
from typing import Literal, NamedTuple, SupportsIndex

Stream = Literal["source", "target"]
Role = Literal["base", "update"]


class Span(NamedTuple):
    """A half-open range of steps, or of the records in them.

    >>> len(range(*Span(3072, 7168))), 7168 in Span(3072, 7168)
    (4096, False)
    """

    start: int
    stop: int

    @property
    def size(self) -> int:
        """How many steps or records the span holds."""
        return self.stop - self.start

    def __contains__(self, one: object) -> bool:
        return isinstance(one, SupportsIndex) and self.start <= index(one) < self.stop


class SlotWeight(NamedTuple):
    """The weight of a span in a fit, in (0, 1]."""

    span: Span
    part: Fraction


class Fit(NamedTuple):
    """Train on a span, starting from a prior: the unit that the ledger charges.

    A schedule makes it and counts in steps; `Steps.fit` makes it a `RecordFit`.

    Attributes:
        number: Its place in the plan, counted from 0.
        at: The number of steps that are complete when it is carried out.
        span: The steps it reads.
        prior: The number of the earlier fit whose released model it is drawn to, or None.
        role: `base` for a model fitted from scratch, `update` for one that refines a prior.
        level: Its size class; an update of level j reads 2^j steps.
        phase: Which base the fit belongs to, where a schedule's shares depend on that; else 0.
        released: Whether its model is the current one at time `at`.
        sample: How many records of the span are drawn and read at the most, or None for all.
        stream: The stream it reads, in a schedule of two.
        behind: How many steps its prior, the prior of that, and so on have read, each, all of the
            same stream; for a base, its start and the starts before that. Empty where there is
            neither, or it comes from another stream. Where records count unequally, one number: how
            many steps would have told as much as all fits before.
        start: The number of an earlier fit at whose model a descent may start, though the fit has
            no prior: post-processing, so it costs nothing.
        slot_weights: The weights of the spans that the span consists of, in order; empty if all
            are 1. A record of weight w pays w^2 times the fit's share: only Gaussian noise can
            serve this.
    """

    number: int
    at: int
    span: Span
    prior: int | None
    role: Role
    level: int
    phase: int = 0
    released: bool = True
    sample: int | None = None
    stream: Stream | None = None
    behind: tuple[float, ...] = ()
    start: int | None = None
    slot_weights: tuple[SlotWeight, ...] = ()


class RecordFit(NamedTuple):
    """A fit with its steps mapped to records: what is trained, charged, stored and shown.

    Attributes are those of `Fit`, except for:
        at: The number of records that have arrived when it is carried out.
        span: The records it reads.
        sample: How many records of the span are drawn and read, or None for all of them.
        behind: How many records the fits behind it have read together, or None.
        slot_weights: The weights of its records.
    """

    number: int
    at: int
    span: Span
    prior: int | None
    role: Role
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


def superseded(earlier: Iterable[Fit | RecordFit], due: Iterable[Fit | RecordFit]) -> list[int]:
    """The earlier fits whose model no fit needs once those that are due now have been made.

    A prior or a start is released, or the newest fit of its level in its stream. So a model that
    is not released is needed until a later step makes another of its level.

    >>> from tidegate.schedule import SlidingWindow
    >>> window = SlidingWindow(window=70, step=10)
    >>> [fit.number for fit in window.due(7)], superseded(window.due(7), window.due(9))
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
