"""The checks of `tidegate verify` on the ledger of persons.

Each step has digests of who is admitted and of all of its owners. The history covers them, and so
does every later release. So the ledger of persons, the slots that count and the owners in segments
can only be changed together with all releases after them. No problem names a person.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.checks import StoreError, json_of
from tidegate.data.records import Owners
from tidegate.learn.slot_weights import Admitted, Ownership
from tidegate.privacy import LedgerError
from tidegate.privacy.admission import Admission, Histories
from tidegate.schedule import Span
from tidegate.state.damage import UNREADABLE, Problem, damage
from tidegate.state.person_log import PersonLog, newest_stopped, persons_text
from tidegate.state.person_rows import Run, merged, owner_bytes, sorted_owners, step_digest
from tidegate.state.state_database import StateDatabase
from tidegate.state.store import Segment

if TYPE_CHECKING:
    from tidegate.state.store import Store

LEDGER = "the ledger of persons"


@dataclass(frozen=True)
class Stated:
    """What a published step says about persons."""

    number: int  # how many steps of all streams came before it
    stream: str
    span: Span
    text: str  # all of it
    admitted: str
    owners: str
    key: str
    records: int | None = None  # how many slots have a person; unknown in earlier versions
    counted: int | None = None  # how many of these count

    @property
    def where(self) -> str:
        """What to call it."""
        return f"the step of {self.stream} at {self.span.stop}"


def leftovers(state: StateDatabase) -> Iterator[Problem]:
    """What is kept about persons, in a state that protects records."""
    for table in ("person_key", "persons", "admitted"):
        if state.rows(table, "1 = 1"):
            yield damage(state.db.name, f"{table} has rows, but records are protected")


class LedgerOfPersons:
    """Checks what a state keeps about persons, whose admissions one object decides."""

    def __init__(
        self, store: "Store", state: StateDatabase, persons: PersonLog, admission: Admission
    ) -> None:
        self._store, self._state, self._persons = store, state, persons
        self._admission = admission
        self._steps: list[Stated] = []

    def problems(self) -> Iterator[Problem]:
        """The problems of what a state keeps about persons; none if it is sound."""
        self._persons.rows.reset()
        yield from self._read()
        yield from self._admitted()
        yield from self._slots()
        yield from self._after_stop()

    def _read(self) -> Iterator[Problem]:
        """Read what each step says about persons."""
        key = self._persons.key()
        if not key:
            yield damage(self._state.db.name, "it has no check value of the key of persons")
        query = "SELECT number, stream, start, stop, persons FROM steps ORDER BY number"
        for number, stream, start, stop, text in self._state.db.execute(query).fetchall():
            try:
                step = Stated(number - 1, stream, Span(start, stop), text, **json_of(text))
            except UNREADABLE:
                where = f"the step of {stream} at {stop}"
                yield damage(where, "what it says about persons is missing or damaged")
                continue
            self._steps.append(step)
            if step.key != key:
                what = "its persons were admitted under another key than the state's"
                yield damage(step.where, what)

    def _admitted(self) -> Iterator[Problem]:
        """Check who is admitted where: nobody too often, and as each step says."""
        done = int(self._state.one("SELECT count(*) FROM steps")[0])
        first = self._admission.needed(done)
        wanted = {step.number: step.admitted for step in self._steps if step.number >= first}
        if not done and (stopped := self._stopped) is not None:
            wanted[0] = stopped
        digests = {number: hashlib.sha256() for number in wanted}
        others = over = 0
        for run in self._persons.rows.all_parts():
            try:
                whole = merged([run])
                histories = Histories(whole.begins, whole.starts, whole.stops)
                over += int(self._admission.over(histories).sum())
            except (LedgerError, ValueError):
                over += 1
            others += 1 if _outside(run, max(done, 1)) else _digest(run, digests)
        if over:
            yield damage(LEDGER, "a person has paid more than the contributions")
        if others:
            what = "a person is admitted in a step that is not published or not needed"
            yield damage(LEDGER, what)
        for number, digest in digests.items():
            if digest.hexdigest() != wanted[number]:
                yield damage(f"{LEDGER}, step {number + 1}", "it does not match the history")

    @cached_property
    def _stopped(self) -> str | None:
        """Who was admitted in the newest stopped step and those before it."""
        try:
            return newest_stopped(self._state)
        except StoreError:
            return ""

    def _slots(self) -> Iterator[Problem]:
        """Check whose the held slots are and which count, against what their steps say."""
        first: dict[str, int] = {}
        for segment in self._store.held():
            first.setdefault(segment.stream, segment.span.start)
        kept = {(row[0], row[1], row[2]) for row in self._state.rows("admitted", "1 = 1")}
        stopped = self._state.one("SELECT count(*) FROM stopped")[0] > 0
        for step in self._steps:
            place = (step.stream, *step.span)
            if step.span.start < first.get(step.stream, step.span.stop):
                continue  # its records were deleted
            if place not in kept:
                yield damage(step.where, "which of its slots count is missing")
            kept.discard(place)
            try:
                owned = self._store.owned(step.stream, step.span)
            except StoreError as error:
                if self._store.still_holds(*self._segments(step)):
                    yield Problem(step.where, str(error))
                continue
            if len(owned.owners):
                yield from _agree(step, owned, again=step.number == 0 and stopped)
            else:
                yield damage(step.where, "its records have no owners")
        for stream, start, _ in sorted(kept):
            if start >= first.get(stream, start):
                yield damage(stream, "slots of a step that is not published count")

    def _segments(self, step: Stated) -> list[Segment]:
        """The segments that hold records of a step."""
        start, stop = step.span
        own = [each for each in self._store.held() if each.stream == step.stream]
        return [each for each in own if each.span.start < stop and start < each.span.stop]

    def _after_stop(self) -> Iterator[Problem]:
        """Check that the first step admits those whose slots count, and those of stopped steps."""
        if self._stopped is None or not self._steps or self._steps[0].number:
            return
        if self._admission.needed(self._steps[-1].number + 1):
            return
        step = self._steps[0]
        try:
            owned = self._store.owned(step.stream, step.span)
        except StoreError:
            return  # deleted, or reported already
        if not len(owned.owners):
            return
        counted = sorted_owners(owned.owners[owned.admitted])
        runs = self._persons.rows.all_parts()
        first = sorted_owners(np.concatenate([_of_first(run) for run in runs]))
        left = first[~_among(first, counted)]
        if len(left) + len(counted) != len(first) or step_digest(left) != self._stopped:
            counting = "those of its slots that count, and of stopped steps"
            yield damage(step.where, f"persons that it admits are not {counting}")


def _digest(run: Run, digests: dict[int, Any]) -> int:
    """Add the owners of a run to the digests of their steps; the number of other steps."""
    which, steps = run.steps()
    order = np.lexsort((which, steps))
    which, steps = which[order], steps[order]
    numbers, places = np.unique(steps, return_index=True)
    ends = np.append(places, len(steps))[1:]
    others = 0
    for number, low, high in zip(numbers.tolist(), places, ends, strict=True):
        if number in digests:
            digests[number].update(owner_bytes(run.owners[which[low:high]]))
        else:
            others += 1
    return others


def _outside(run: Run, steps: int) -> bool:
    """Whether a run has steps that were not made; to list them might take all memory."""
    return bool(len(run.starts) and (run.starts.min() < 0 or run.stops.max() > steps))


def _of_first(run: Run) -> Owners:
    """The owners of a run that are admitted in the first step."""
    which, steps = run.steps()
    owners: Owners = run.owners[which[steps == 0]]
    return owners


def _among(owners: Owners, others: Owners) -> Admitted:
    """Which owners are among others."""
    pair = np.dtype([("first", "u8"), ("second", "u8")])
    one, other = (np.ascontiguousarray(each, np.uint64).view(pair) for each in (owners, others))
    return np.isin(one.ravel(), other.ravel())


def _agree(step: Stated, owned: Ownership, *, again: bool) -> Iterator[Problem]:
    """Check the slots of one step; `again` if it also admits persons of a stopped step."""
    owners, admitted, counts = owned.owners, owned.admitted, step.counted is not None
    if persons_text(step.admitted, owners, admitted, step.key, counts=counts) != step.text:
        yield damage(step.where, "its owners, or which of its slots count, were changed")
    if not again and step_digest(sorted_owners(owners[admitted])) != step.admitted:
        yield damage(step.where, "the slots that count are not those of the persons it admits")
    _, inverse = np.unique(owners, axis=0, return_inverse=True)
    share = np.bincount(inverse.ravel(), admitted) / np.bincount(inverse.ravel())
    if ((share > 0) & (share < 1)).any() or admitted[~owners.any(axis=1)].any():
        yield damage(step.where, "some slots of a person count and others do not")


def row_problems(state: StateDatabase, persons: PersonLog) -> Iterator[Problem]:
    """Check that every row of the ledger of persons can be read, and holds what it says."""
    persons.rows.reset()
    for place in persons.rows.places:
        try:
            run: Any = persons.rows.read(place)
        except StoreError as error:
            yield Problem(LEDGER, str(error))
            continue
        if not place.describes(run):
            yield damage(LEDGER, "a row does not hold what it says")
    for stream, start, stop, *_ in state.rows("admitted", "1 = 1"):
        try:
            persons.admitted(stream, Span(start, stop))
        except StoreError as error:
            yield Problem(stream, str(error))
