"""Spans and fits: the parts of a plan, counted in steps or in records."""

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

    def __contains__(self, item: object) -> bool:
        return isinstance(item, SupportsIndex) and self.start <= index(item) < self.stop


class SlotWeight(NamedTuple):
    """How much each slot of a span counts in a fit, in (0, 1]."""

    span: Span
    part: Fraction


class Fit(NamedTuple):
    """One training run on a span of steps: the unit that the ledger charges.

    Schedules make fits and count in steps; `Steps.fit` converts a fit to a `RecordFit`.

    Attributes:
        number: Its place in the plan, counted from 0.
        at: How many steps are complete when it is carried out.
        span: The steps it reads.
        prior: The number of the earlier fit whose private model is its prior, or None.
        role: `base` for a model fitted from scratch, `update` for one that refines a prior.
        level: Its size class; an update of level j reads 2^j steps.
        phase: Which base it belongs to, if the shares of the schedule depend on that; else 0.
        released: Whether its model is a release, not only a prior for others.
        sample: The most records that are drawn from the span and read, or None for all.
        stream: The stream it reads, if there are two; else None.
        behind: How many steps were read by its prior, by the prior of that, and so on; for a base,
            by its start and earlier starts. Empty if there are none, or if they read another
            stream. With slot weights below 1 it is one number: how many steps would carry as much
            information as all earlier fits.
        start: For a fit without a prior, the number of an earlier fit at whose model gradient
            descent may start. That is post-processing, so it costs nothing.
        slot_weights: The slot weights of the parts of the span, in order; empty if all are 1. Fits
            that continue the release before (`start`) state them even if all are 1.
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
    """A fit in records instead of steps, as it is trained, charged, stored and shown.

    Attributes are those of `Fit`, except for:
        at: How many records have arrived when it is carried out.
        span: The records it reads.
        sample: How many records are drawn from the span and read, or None for all.
        behind: How many records the fits behind it have read in total, or None.
        slot_weights: The slot weights of the parts of the span, in records.
        power: A record of slot weight e pays e^power times the fit's share: 1 under a pure budget
            and 2 under a Gaussian one. Without slot weights nothing depends on it.
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
    power: int = 2


def superseded(earlier: Iterable[Fit | RecordFit], due: Iterable[Fit | RecordFit]) -> list[int]:
    """The numbers of earlier fits whose models are not needed once the due fits are made.

    Every prior or start is released, or is the newest fit of its level in its stream. So a model
    that is not released is needed only until a later step makes another of its level.

    >>> from tidegate.schedule import SlidingWindow
    >>> window = SlidingWindow(window=70, step=10)
    >>> [fit.number for fit in window.due(7)], superseded(window.due(7), window.due(9))
    ([0, 1, 2], [1])
    """
    made = {(fit.stream, fit.level) for fit in due}
    return [fit.number for fit in earlier if not fit.released and (fit.stream, fit.level) in made]


def mass(slot_weights: Sequence[SlotWeight], slots: int) -> Fraction:
    """The sum of slot weights; without any, the number of slots.

    >>> half, one = SlotWeight(Span(0, 9), Fraction(1, 2)), SlotWeight(Span(9, 10), Fraction(1))
    >>> mass([], 10), mass([half, one], 10)
    (Fraction(10, 1), Fraction(11, 2))
    """
    if not slot_weights:
        return Fraction(slots)
    return sum((span.size * part for span, part in slot_weights), Fraction(0))
