"""What a run in memory keeps of records: those that are still needed, and who was admitted."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import refuse
from tidegate.data.records import Owners, Records, Slots, chosen, join
from tidegate.data.rows import Rows
from tidegate.learn.slot_weights import (
    EVERY_RECORD,
    UNOWNED,
    Admitted,
    AdmittedStep,
    Counted,
    Owned,
    Ownership,
)
from tidegate.privacy.admission import Admission, Histories
from tidegate.run.step_admission import StepAdmission
from tidegate.schedule.fit import Span


class Held:
    """The records that a stream still needs, kept in memory.

    They are stored in runs of decreasing length. A new run is joined with the runs before it that
    are not longer, so a record is copied once per doubling, however small the batches are.

    >>> from tidegate.data.intake import Intake
    >>> held = Held()
    >>> held.append(Intake(norm=9.0).records([[1.0], [2.0], [3.0]], None))
    >>> held.forget(1)
    >>> held.count, held.read(Span(1, 3)).X.ravel()
    (3, array([2., 3.]))
    """

    def __init__(self) -> None:
        self.first = 0
        self._runs: tuple[tuple[int, Records], ...] = ()  # each with its first slot

    @property
    def count(self) -> int:
        """How many records have arrived, including forgotten ones."""
        if not self._runs:
            return self.first
        start, newest = self._runs[-1]
        return start + newest.n

    @property
    def form(self) -> Rows:
        """An empty array of the stream's width, dtype and kind (dense or sparse)."""
        return self._runs[0][1].form

    def append(self, records: Records) -> None:
        """Add records at the end of the stream."""
        runs = [*self._runs, (self.count, records)]
        while len(runs) > 1 and runs[-2][1].n <= runs[-1][1].n:
            (_, newest), (start, older) = runs.pop(), runs.pop()
            runs.append((start, join([older, newest])))
        self._runs = tuple(runs)  # last, so that an interruption leaves the stream as it was

    def read(self, span: Span, slots: Slots | None = None) -> Records:
        """The records of a span, or some of its slots; those before `first` are forgotten."""
        return join(self.pieces(span, slots))

    def pieces(self, span: Span, slots: Slots | None = None) -> list[Records]:
        """The records that `read` returns, run by run."""
        if not self.first <= span.start < span.stop <= self.count:
            raise LookupError(f"{span} is not in memory, only [{self.first}, {self.count}) is")
        return [
            run.take(chosen(Span(start, start + run.n), span, slots))
            for start, run in self._runs
            if start < span.stop and span.start < start + run.n
        ]

    def forget(self, before: int) -> None:
        """Drop all records before this one; later ones are kept as they arrive."""
        before = min(before, self.count)  # or records to come would count as arrived
        if before > self.first:
            self.first = before
            runs = [(start, run) for start, run in self._runs if start + run.n > before]
            if runs and 2 * (before - runs[0][0]) > runs[0][1].n:  # rarely, to keep it cheap
                runs[0] = (before, runs[0][1].take(slice(before - runs[0][0], None)).copy())
            self._runs = tuple(runs)

    def __getstate__(self) -> dict[str, Any]:
        """The state to pickle, without forgotten records."""
        kept = self.read(Span(self.first, self.count)) if self._runs else None
        return {"first": self.first, "_runs": () if kept is None else ((self.first, kept),)}


Ranges = tuple[tuple[int, int], ...]


class AdmittedSteps:
    """Decides which slots count, and remembers in which steps each person was admitted.

    A step is decided once, however often it is interrupted, and added once.

    Args:
        admission: Decides in which steps a person is admitted.
        streams: The names of the streams.

    >>> from tidegate.privacy.rises import Count
    >>> steps = AdmittedSteps(Admission(rises=Count(), contributions=1), ["records"])
    >>> ann, bob, nobody = (1, 1), (2, 2), (0, 0)
    >>> both = np.array([ann, bob, nobody], np.uint64)
    >>> steps.decide("records", Span(0, 3), 0, both)
    array([ True,  True, False])
    >>> steps.add("records", Span(0, 3), 0)
    >>> steps.decide("records", Span(3, 4), 1, both[:1])
    array([False])
    >>> [(each.counted, each.records) for each in steps.counts]
    [(2, 2)]
    """

    def __init__(self, admission: Admission, streams: Iterable[str]) -> None:
        self._admission = admission
        self._ranges: dict[str, dict[bytes, Ranges]] = {stream: {} for stream in streams}
        self._bits: dict[str, dict[Span, Admitted]] = {stream: {} for stream in self._ranges}
        self._decided: dict[str, tuple[Span, Admitted, tuple[bytes, ...]]] = {}
        self._counts: dict[tuple[str, Span], StepAdmission] = {}  # of the steps decided so far

    def decide(self, stream: str, span: Span, step: int, owners: Owners) -> Admitted:
        """Which slots of a complete step count, from owners alone.

        Args:
            stream: The stream.
            span: The slots of the step.
            step: Its number.
            owners: Whose the slots are.
        """
        if stream not in self._decided or self._decided[stream][0] != span:
            if len(owners) != span.size:
                raise refuse("owners", "as many as slots", shown="another number")
            persons, inverse = unique(owners)
            histories = Histories.of([self._history(person) for person in persons])
            nobody = np.array([not any(person) for person in persons], np.bool_)
            admitted = self._admission.decide(histories, step) & ~nobody
            new = tuple(person for person, yes in zip(persons, admitted, strict=True) if yes)
            counts = {
                "records": int((~nobody)[inverse].sum()),
                "counted": int(admitted[inverse].sum()),
            }
            self._counts[stream, span] = StepAdmission(stream=stream, span=span, **counts)
            self._decided[stream] = span, admitted[inverse], new
        return self._decided[stream][1]

    def _history(self, person: bytes) -> Ranges:
        """The steps of a person, of all streams one after the other."""
        return sum((ranges.get(person, ()) for ranges in self._ranges.values()), ())

    def add(self, stream: str, span: Span, step: int) -> None:
        """Remember the step that was decided last; to do so again changes nothing."""
        if self._decided.get(stream, (None,))[0] != span:
            raise refuse("step", "the one decided last", shown="another")
        _, admitted, new = self._decided[stream]
        if span in self._bits[stream]:
            return
        ranges = self._ranges[stream]
        after = {person: _with(ranges.get(person, ()), step) for person in new}
        ranges.update(after)
        self._admission.check(Histories.of([self._history(person) for person in new]))
        self._bits[stream][span] = admitted  # last: then the step is added

    @property
    def counts(self) -> list[StepAdmission]:
        """How many records of each step that was added count: exact, so for the operator alone."""
        waiting = {
            (stream, span)
            for stream, (span, *_) in self._decided.items()
            if span not in self._bits[stream]
        }
        return [counts for place, counts in self._counts.items() if place not in waiting]

    def admitted(self, stream: str, span: Span) -> Admitted:
        """Which slots of a span count; those of steps that are not added do not."""
        bits = np.zeros(span.size, np.bool_)
        for step, each in self._bits[stream].items():
            start, stop = max(span.start, step.start), min(span.stop, step.stop)
            if start < stop:
                found = each[start - step.start : stop - step.start]
                bits[start - span.start : stop - span.start] = found
        return bits

    def check(self, records: Records) -> None:
        """Refuse records without owners."""
        if records.owners is None:  # fail closed
            raise refuse("owners", "given if and only if persons are protected", shown="otherwise")

    def counted(self, stream: str, span: Span, step: int, held: Held) -> Counted:
        """Which slots of a complete step count; see `decide`."""
        return AdmittedStep(span, self.decide(stream, span, step, owners_in(held.pieces(span))))

    def owned(self, stream: str, span: Span, held: Held) -> Ownership:
        """Whose the slots of a span are, and which count."""
        return Owned(owners_in(held.pieces(span)), self.admitted(stream, span))

    def forget(self, stream: str, before: int, now: int) -> None:
        """Delete what is no longer needed.

        Args:
            stream: The stream.
            before: The first slot that is still needed.
            now: How many steps of the stream are complete.
        """
        bits = self._bits[stream]
        for step in [step for step in bits if step.stop <= before]:
            if step != self._decided[stream][0]:  # or it could be added again
                del bits[step]
        first = self._admission.needed(now)
        if first:  # only with a period
            kept = {person: _from(each, first) for person, each in self._ranges[stream].items()}
            self._ranges[stream] = {person: each for person, each in kept.items() if each}


class AllAdmitted:
    """Does nothing: records are protected, so each of them counts."""

    counts: tuple[StepAdmission, ...] = ()

    def check(self, records: Records) -> None:
        """Refuse records with owners."""
        if records.owners is not None:  # fail closed
            raise refuse("owners", "given if and only if persons are protected", shown="otherwise")

    def counted(self, *_: object) -> Counted:
        """Which slots of a step count: all of them."""
        return EVERY_RECORD

    def owned(self, *_: object) -> Ownership:
        """Whose the slots of a span are: nobody asks."""
        return UNOWNED

    def add(self, *_: object) -> None:
        """Nothing is to be remembered."""

    def forget(self, *_: object) -> None:
        """Nothing is to be forgotten."""


def owners_in(pieces: Sequence[Records]) -> Owners:
    """The owners of all slots of some records, which have owners."""
    found = (piece.owners for piece in pieces)
    return np.concatenate([each for each in found if each is not None])


def unique(owners: Owners) -> tuple[list[bytes], NDArray[np.intp]]:
    """The different owners, as bytes, and which of them each slot has."""
    pairs = np.ascontiguousarray(owners).view("V16").reshape(-1).tolist()
    places: dict[bytes, int] = {}
    inverse = [places.setdefault(pair, len(places)) for pair in pairs]
    return list(places), np.array(inverse, np.intp)


def _with(ranges: Ranges, step: int) -> Ranges:
    """The ranges with one more step, after all of them."""
    if ranges and ranges[-1][1] > step:  # an interruption came after it was added
        return ranges
    if ranges and ranges[-1][1] == step:
        return (*ranges[:-1], (ranges[-1][0], step + 1))
    return (*ranges, (step, step + 1))


def _from(ranges: Ranges, first: int) -> Ranges:
    """The part of ranges from a step on."""
    return tuple((max(start, first), stop) for start, stop in ranges if stop > first)
