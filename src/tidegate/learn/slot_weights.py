"""What slots count for: slot weights by age, and person weights, so that a person is one record.

Proof of person weights: docs/proofs/persons.md.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import refuse
from tidegate.data.records import Owners, Piece, Records, Slots, changed, zeroed
from tidegate.learn.exact import Floats, truncate
from tidegate.privacy.budget import down
from tidegate.schedule.fit import SlotWeight, Span


def with_runs(records: Records, *, runs: Sequence[tuple[int, float]]) -> Records:
    """The records with slot weights.

    Args:
        records: The slots.
        runs: In order, numbers of consecutive slots with their common weight.
    """
    sizes, weights = zip(*runs, strict=True)
    return replace(records, slot_weights=np.repeat(weights, sizes))


def weighing(records: Records, *, expected: bool, persons: bool = False) -> Records:
    """Refuse records that have slot or person weights if the fit has none, or the reverse.

    Args:
        records: The records.
        expected: Whether the fit has slot weights.
        persons: Whether it protects persons.
    """
    # Fail closed: a record or a person could lose more privacy than is charged.
    for name, wanted in (("slot_weights", expected), ("person_weights", persons)):
        if wanted != (getattr(records, name) is not None):
            raise refuse(name, "on fit and records, or on neither", shown="on one of them")
    return without_owners(records)


def by_record(records: Records) -> Records:
    """Refuse person weights that a fit has not taken over: they would have no effect."""
    return weighing(records, expected=records.slot_weights is not None)


def without_owners(records: Records) -> Records:
    """Refuse records that still have owners: they lack person weights."""
    if records.owners is not None:
        raise refuse("person_weights", "on records with owners", shown="none")
    return records


def by_person(records: Records, *, expected: bool) -> Records:
    """The records weighed by their person weights alone, in place of slot weights.

    Args:
        records: The records, with person weights.
        expected: Whether the fit has slot weights.
    """
    records = weighing(records, expected=expected, persons=True)
    return replace(records, slot_weights=records.person_weights, person_weights=None)


def counting(slots: int, person_weights: Floats | None, bits: int) -> Floats:
    """How much each slot counts: 1, or if persons are protected its person weight, rounded down.

    Args:
        slots: How many slots there are.
        person_weights: Their person weights, if persons are protected.
        bits: Weights become multiples of 2**-bits, so that sums of them are exact.

    >>> counting(2, None, 8), counting(2, np.array([0.5, 1 / 3]), 2)
    (array([1., 1.]), array([0.5 , 0.25]))
    """
    if person_weights is None:
        return np.ones(slots)
    return np.asarray(truncate(person_weights, bits))


def reweighed(records: Records, *, factors: Mapping[float, float]) -> Records:
    """Replace slot weights; a slot that gets 0 becomes unusable: zeros and label 0.

    A solver that still saw the row, for example in a preconditioner, could depend on it.

    Args:
        records: The records, with slot weights.
        factors: The new weight for each old one.

    >>> records = Records(np.eye(2), np.zeros(2, np.intp), np.ones(2, np.bool_), np.array([0.5, 1]))
    >>> reweighed(records, factors={0.5: 0.0, 1.0: 1.0}).X
    array([[0., 0.],
           [0., 1.]])
    """
    given = np.asarray(weighing(records, expected=True).slot_weights)
    olds = np.array(sorted(factors))
    news = np.array([factors[old] for old in olds])
    places = np.searchsorted(olds, given)
    if not np.array_equal(olds[places.clip(max=len(olds) - 1)], given):
        raise refuse("slot_weights", "those of the fit", None)
    weights = news[places]
    out = weights == 0
    labels = np.where(out, 0, records.y)
    return Records(zeroed(records.X, out), labels, records.usable & ~out, weights)


def weighted(pieces: Sequence[Piece], slot_weights: Sequence[SlotWeight]) -> list[Piece]:
    """The pieces of a span with their slot weights, rounded down.

    >>> from fractions import Fraction
    >>> from tidegate.schedule import Span
    >>> run = Records(np.eye(3), np.zeros(3, np.intp), np.ones(3, np.bool_))
    >>> half, one = SlotWeight(Span(0, 4), Fraction(1, 2)), SlotWeight(Span(4, 6), Fraction(1))
    >>> [piece.load().slot_weights for piece in weighted([run, run], [half, one])]
    [array([0.5, 0.5, 0.5]), array([0.5, 1. , 1. ])]
    """
    if not slot_weights:
        return list(pieces)
    covered, held = sum(span.size for span, _ in slot_weights), sum(piece.n for piece in pieces)
    if covered != held:
        raise refuse("slot_weights", f"for {held} slots", shown=f"weights for {covered}")
    left = [(span.size, down(weight)) for span, weight in slot_weights]
    result: list[Piece] = []
    for piece in pieces:
        runs, wanted = [], piece.n
        while wanted:
            size, weight = left.pop(0)
            runs.append((min(size, wanted), weight))
            if size > wanted:
                left.insert(0, (size - wanted, weight))
            wanted -= min(size, wanted)
        result.append(changed(piece, partial(with_runs, runs=runs)))
    return result


Admitted = NDArray[np.bool_]
"""Which slots of a step count."""

Pieces = Sequence[Piece]

NO_FACTORS: Mapping[float, float] = MappingProxyType({})
"""Slots are weighed by their slot weights themselves."""


class Reading(NamedTuple):
    """What a fit reads: a span, or some of its slots, and what they count for.

    Attributes:
        span: The span.
        slots: Some of its slots, counted from its start; None for all.
        slot_weights: The weights of its parts; empty if all are 1.
        factors: What a learner weighs a slot by instead, for each slot weight rounded down; empty
            if by that.
    """

    span: Span
    slots: Slots | None = None
    slot_weights: Sequence[SlotWeight] = ()
    factors: Mapping[float, float] = NO_FACTORS


class Counted(Protocol):
    """Which slots of a step that is not published yet count."""

    def weighed(self, pieces: Pieces, owned: "Ownership", reading: Reading, /) -> Pieces:
        """The pieces that a fit reads, where each person counts like one record."""

    def once(self, records: Records, /) -> Records:
        """The records of the step, in which each person counts like one record."""

    def stored(self, store: Callable[[Admitted], str], /) -> str | None:
        """Have a function store which slots count, if not all do, and return what it says."""


class Unowned:
    """Slots that are protected one by one."""

    owners: Owners = np.empty((0, 2), np.uint64)
    admitted: Admitted = np.empty(0, np.bool_)


class EveryRecord:
    """A step in which every record counts, because records are protected."""

    def weighed(self, pieces: Pieces, owned: "Ownership", reading: Reading, /) -> Pieces:
        """See `Counted`."""
        del reading
        if len(owned.owners):  # fail closed: persons would count as often as they like
            raise refuse("owners", "on records only if persons are protected", shown="some")
        return pieces

    def once(self, records: Records, /) -> Records:
        """See `Counted`."""
        return without_owners(records)

    def stored(self, store: Callable[[Admitted], str], /) -> None:
        """See `Counted`."""


UNOWNED, EVERY_RECORD = Unowned(), EveryRecord()


class AdmittedStep(NamedTuple):
    """A step that is not published yet, and which of its slots count."""

    step: Span
    admitted: Admitted

    def weighed(self, pieces: Pieces, owned: "Ownership", reading: Reading, /) -> Pieces:
        """See `Counted`."""
        if not isinstance(owned, Owned):  # fail closed
            raise refuse("owners", "on the records of persons", shown="none")
        if reading.slots is not None:
            raise refuse("sample", "None if persons are protected", shown="a sample")
        both = owned.with_step(reading.span, self)
        return with_persons(pieces, both, reading.slot_weights, reading.factors)

    def once(self, records: Records, /) -> Records:
        """See `Counted`."""
        return once(records, self.admitted)

    def stored(self, store: Callable[[Admitted], str], /) -> str:
        """See `Counted`."""
        return store(self.admitted)


BITS = 53
"""Person weights are multiples of 2**-BITS."""


@dataclass(frozen=True, eq=False)
class Owned:
    """Whose the slots of a span are, and which of them count.

    Attributes:
        owners: The keyed id of each slot's person.
        admitted: Whether the slot counts.
    """

    owners: Owners
    admitted: Admitted

    def with_step(self, span: Span, newest: AdmittedStep) -> "Owned":
        """The same slots, where those of a step that is not published yet count as given.

        Args:
            span: The span of these slots.
            newest: The step.

        >>> owned = Owned(np.ones((3, 2), np.uint64), np.array([True, False, False]))
        >>> step = AdmittedStep(Span(1, 4), np.array([True, False, True]))
        >>> owned.with_step(Span(0, 3), step).admitted
        array([ True,  True, False])
        """
        step, admitted = newest
        if len(admitted) != step.size or len(self.admitted) != span.size:
            raise refuse("admitted", "one bit for each slot", shown="another number")
        both, slots = self.admitted.copy(), np.arange(*span)
        inside = (slots >= step.start) & (slots < step.stop)
        both[inside] = admitted[slots[inside] - step.start]
        return replace(self, admitted=both)


Ownership = Owned | Unowned
"""Whose the slots of a span are: of persons, or each of itself."""


def person_weights(owned: Owned, runs: Sequence[tuple[int, float]]) -> Floats:
    """The person weight of each slot: the integral from 0 to its weight e of dx / N(x).

    N(x) is the number of admitted slots of the same person whose weight is at least x. So the
    weights of any of a person's slots add up to at most the largest e among them. They are
    multiples of 2**-53, rounded down, and 0 for slots that are not admitted or nobody's.

    Args:
        owned: Whose the slots are, and which are admitted.
        runs: In order, numbers of consecutive slots with their common weight e, from 0 to 1.

    >>> ann, bob = (1, 1), (2, 2)
    >>> owned = Owned(np.array([ann, ann, ann, bob], np.uint64), np.ones(4, np.bool_))
    >>> person_weights(owned, [(1, 0.5), (3, 1.0)])
    array([0.16666667, 0.41666667, 0.41666667, 1.        ])
    """
    n = len(owned.owners)
    if sum(size for size, _ in runs) != n or len(owned.admitted) != n:
        raise refuse("owners", "as many as slots", shown="another number")
    levels = [_level(weight) for _, weight in runs]
    slots = _by_level([size for size, _ in runs], levels)
    counted = owned.admitted & ((owned.owners[:, 0] | owned.owners[:, 1]) != 0)
    slots = slots[counted[slots]]
    result = np.zeros(n)
    if not slots.size:
        return result
    slots, begins = _by_owner(slots, owned.owners)
    level = np.repeat(levels, [size for size, _ in runs])[slots]
    # A block holds a person's slots of one level; a person's blocks follow by falling level.
    last = np.append(begins[1:] | (level[1:] != level[:-1]), True)
    at = np.flatnonzero(last)
    firsts = np.flatnonzero(begins)
    counts = at + 1 - firsts[np.cumsum(begins)[at] - 1]  # N at the level of each block
    ends = np.append(begins, True)[at + 1]  # whether it is the person's last block
    tops = level[at]
    lower = np.where(ends, 0, np.append(tops[1:], 0))
    # Sums of later blocks; that they wrap around 2**64 does not matter for their differences.
    sums = np.append(np.cumsum(((tops - lower) // counts)[::-1])[::-1], 0)
    final = np.flatnonzero(ends)
    others = np.repeat(sums[final + 1], np.diff(final, prepend=-1))
    result[slots] = np.repeat(sums[:-1] - others, np.diff(at, prepend=-1)) * 2.0**-BITS
    return result


def _level(weight: float) -> int:
    """A weight as a multiple of 2**-BITS, rounded down."""
    if not 0 <= weight <= 1:
        raise refuse("a slot weight", "from 0 to 1", weight)
    return math.floor(math.ldexp(weight, BITS))


def _by_level(sizes: Sequence[int], levels: Sequence[int]) -> NDArray[np.intp]:
    """The slots whose level is above 0, by falling level."""
    starts = np.cumsum([0, *sizes])
    falling = sorted(range(len(sizes)), key=lambda run: -levels[run])
    kept = [np.arange(starts[run], starts[run + 1]) for run in falling if levels[run]]
    return np.concatenate(kept) if kept else np.empty(0, np.intp)


def _by_owner(
    slots: NDArray[np.intp], owners: Owners
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Slots sorted by owner, else in the order given, and where another owner's begin."""
    first, second = owners[slots, 0], owners[slots, 1]
    order = np.argsort(first, kind="stable")
    begins, mixed = _changes(first[order]), _changes(second[order])
    if (mixed & ~begins).any():
        # Two owners share their first word. That hardly ever happens, and sorting by one is fast.
        order = np.lexsort((second, first))
        begins = _changes(first[order]) | _changes(second[order])
    return slots[order], begins


def _changes(words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    return np.append(True, words[1:] != words[:-1])


def with_weights(records: Records, weights: Floats) -> Records:
    """The records with person weights and without owners.

    A slot of weight 0 becomes unusable, zeros and label 0, before anything reads it. A solver that
    still saw the row, for example in a preconditioner, could depend on it.
    """
    if weights.shape != (records.n,):
        raise refuse("person_weights", f"for {records.n} slots", shown=f"{weights.shape}")
    out = weights == 0
    return replace(
        records,
        X=zeroed(records.X, out),
        y=np.where(out, 0, records.y),
        usable=records.usable & ~out,
        owners=None,
        person_weights=weights,
    )


def with_persons(
    pieces: Sequence[Piece],
    owned: Owned,
    slot_weights: Sequence[SlotWeight] = (),
    factors: Mapping[float, float] = NO_FACTORS,
) -> list[Piece]:
    """The pieces of a span with their person weights.

    Args:
        pieces: The pieces, in order.
        owned: Whose their slots are, and which are admitted.
        slot_weights: The weights of the parts of the span; empty if all are 1.
        factors: What a learner weighs a slot by instead, for each slot weight rounded down; empty
            if by that.
    """
    runs = [(len(owned.owners), 1.0)]
    if slot_weights:
        runs = [(span.size, down(part)) for span, part in slot_weights]
    if factors:
        runs = [(size, factors[weight]) for size, weight in runs]
    weights, result, start = person_weights(owned, runs), list[Piece](), 0
    if sum(piece.n for piece in pieces) != len(weights):
        raise refuse("owners", "as many as slots", shown="another number")
    for piece in pieces:
        part = weights[start : start + piece.n]
        result.append(changed(piece, partial(with_weights, weights=part)))
        start += piece.n
    return result


def once(records: Records, admitted: Admitted) -> Records:
    """The records of one step, in which each admitted person counts like one record.

    Args:
        records: All slots of the step, with owners.
        admitted: Which of them count.
    """
    if records.owners is None:
        raise refuse("owners", "on the records of persons", shown="none")
    weights = person_weights(Owned(records.owners, admitted), [(records.n, 1.0)])
    return with_weights(records, weights)
