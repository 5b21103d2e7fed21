"""Fits: the parts of a plan, counted in steps or in records, and the levels of their shares."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import partial
from operator import index
from typing import Any, Literal, NamedTuple, SupportsIndex

from tidegate.checks import json_of

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


_record_fit: Callable[[tuple[Any, ...]], RecordFit] = partial(tuple.__new__, RecordFit)
"""Faster than calling RecordFit with its 13 arguments, which a plan does for every fit."""


@dataclass(frozen=True)
class Steps:
    """Steps of `size` records each.

    Schedules count in steps; only this class converts between steps and records.

    Args:
        size: Records in a step.

    >>> steps = Steps(1024)
    >>> steps.count(7), steps.complete(8191), steps.step_of(7168)
    (7168, 7, 7)
    >>> steps.records(Span(3, 7)), steps.whole(Span(3072, 7168))
    (Span(start=3072, stop=7168), Span(start=3, stop=7))
    """

    size: int = 1

    def count(self, step: int) -> int:
        """How many records the first `step` steps hold."""
        return step * self.size

    def complete(self, count: int) -> int:
        """How many steps are complete once `count` records have arrived."""
        return count // self.size

    def step_of(self, record: int) -> int:
        """The step that holds a record."""
        return record // self.size

    def records(self, span: Span) -> Span:
        """The records of a span of steps."""
        size = self.size
        return span if size == 1 else Span(span[0] * size, span[1] * size)

    def whole(self, span: Span) -> Span | None:
        """The steps that hold exactly a span of records; None if the span splits a step."""
        size = self.size
        if size == 1:
            return span
        (start, before), (stop, after) = divmod(span[0], size), divmod(span[1], size)
        return None if before or after else Span(start, stop)

    def read(self, sizes: Sequence[float], sample: int) -> int:
        """How many records fits of these sizes in steps read in total, each at most `sample`."""
        return sum(min(round(size * self.size), sample) for size in sizes)

    def fit(self, fit: Fit, power: int = 2) -> RecordFit:
        """Convert a fit from steps to records.

        Args:
            fit: In steps.
            power: The budget's, for fits that weigh slots.

        >>> Steps(10).fit(Fit(1, 5, Span(4, 5), 0, "update", 0, sample=30, behind=(4,)))[7:11]
        (True, None, None, 30)
        """
        number, at, span, prior, role, level, phase, released, cap, stream, behind, start, parts = (
            fit
        )
        size, read = self.size, None
        if size != 1:
            at, span = at * size, self.records(span)
        if behind:
            read = (self.read(behind, cap) if cap else round(sum(behind) * size)) or 1
        if cap and cap >= span.size:
            cap = None
        if parts:
            parts = tuple([SlotWeight(self.records(steps), part) for steps, part in parts])
        else:
            power = 2  # as the default: nothing depends on it
        # fmt: off
        return _record_fit((
            number, at, span, prior, role, level, phase, released, cap, stream, read, start, parts,
            power,
        ))
        # fmt: on


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


@dataclass(frozen=True, kw_only=True)
class Arrived:
    """How far two streams are: the public numbers that determine all later fits.

    `chain` maps each level to the number of the source's newest fit of that level. The prior of a
    source update is the entry one level up.
    """

    source: int = 0  # steps of the source so far
    target: int = 0  # steps of the target so far
    fits: int = 0  # fits so far
    model: int | None = None  # the number of the fit that made the newest source model
    phase_start: int = 0  # the first target step after that; earlier ones are not read again
    kept: int | None = None  # the number of the update kept as f_c
    chain: dict[int, int] = field(default_factory=dict)

    def as_text(self, streams: Mapping[str, Steps]) -> str | None:
        """The numbers as JSON, counted in records; None if there is only one stream."""
        if "target" not in streams:
            return None
        return json.dumps(asdict(self._counted(streams, Steps.count)))

    @classmethod
    def of_text(cls, text: str | None, streams: Mapping[str, Steps]) -> "Arrived":
        """The state that `as_text` wrote; ValueError, LookupError or TypeError if it is damaged."""
        if not text:
            return cls()
        numbers = json_of(text)
        chain = {int(level): number for level, number in numbers.pop("chain").items()}
        return cls(**numbers, chain=chain)._counted(streams, Steps.complete)

    def _counted(self, streams: Mapping[str, Steps], by: Callable[[Steps, int], int]) -> "Arrived":
        """Counted in records instead of steps, or the other way round."""
        target = streams["target"]
        return replace(
            self,
            source=by(streams["source"], self.source),
            target=by(target, self.target),
            phase_start=by(target, self.phase_start),
        )
