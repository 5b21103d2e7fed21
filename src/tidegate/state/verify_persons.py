"""The checks of `tidegate verify` on the ledger of persons.

Each step has digests of who is admitted and of all of its owners. The history covers them, and so
does every later release. So the ledger of persons, the slots that count and the owners in segments
can only be changed together with all releases after them. No problem names a person.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate.checks import StoreError, json_of
from tidegate.data.records import Owners
from tidegate.learn.slot_weights import Admitted
from tidegate.privacy import LedgerError
from tidegate.privacy.admission import Admission, Histories
from tidegate.release import canonical
from tidegate.schedule import Span
from tidegate.state.damage import UNREADABLE, Problem, damage
from tidegate.state.person_log import PersonLog, newest_stopped, persons_text
from tidegate.state.person_runs import Run, StepDigest, merged, sorted_owners, step_digest
from tidegate.state.record_log import RecordLog
from tidegate.state.state_database import StateDatabase
from tidegate.state.still_held import still_held
from tidegate.state.store import Segment

LEDGER = "the ledger of persons"


@dataclass(frozen=True)
class Stated:
    """What a published step says about persons."""

    number: int  # how many steps of all streams came before it
    stream: str
    span: Span
    admitted: str
    owners: str
    key: str
    records: int | None = None  # how many slots have a person; unknown in earlier versions
    counted: int | None = None  # how many of these count


def problems(
    state: StateDatabase, records: RecordLog, persons: PersonLog, admission: Admission | None
) -> Iterator[Problem]:
    """The problems of what a state keeps about persons; none if it is sound.

    Args:
        state: The state.
        records: Its records.
        persons: Its ledger of persons.
        admission: What decides about admissions; None if records are protected.
    """
    persons.rows.reset()
    if admission is None:
        for table in ("person_key", "persons", "admitted"):
            if state.rows(table, "1 = 1"):
                yield damage(state.db.name, f"{table} has rows, but records are protected")
        return
    stated = []
    for step, problem in _stated(state, persons.key()):
        yield from [] if problem is None else [problem]
        stated += [] if step is None else [step]
    yield from _ledger(state, persons, admission, stated)
    yield from _slots(state, records, persons, stated)
    yield from _after_stop(state, records, persons, admission, stated)


def _stated(
    state: StateDatabase, key: str | None
) -> Iterator[tuple[Stated | None, Problem | None]]:
    """What each step says about persons, or why it says nothing."""
    if key is None:
        yield None, damage(state.db.name, "it has no check value of the key of persons")
    query = "SELECT number, stream, start, stop, persons FROM steps ORDER BY number"
    for number, stream, start, stop, text in state.db.execute(query).fetchall():
        where = f"the step of {stream} at {stop}"
        try:
            step = Stated(number - 1, stream, Span(start, stop), **json_of(text))
        except UNREADABLE:
            yield None, damage(where, "what it says about persons is missing or damaged")
            continue
        wrong = None
        if step.key != key:
            wrong = damage(where, "its persons were admitted under another key than the state's")
        yield step, wrong


def _ledger(
    state: StateDatabase, persons: PersonLog, admission: Admission, stated: list[Stated]
) -> Iterator[Problem]:
    """Check who is admitted where: nobody too often, and as each step says."""
    done = int(state.one("SELECT count(*) FROM steps")[0])
    first = admission.needed(done)
    wanted = {step.number: step.admitted for step in stated if step.number >= first}
    if not done and (stopped := _stopped(state)) is not None:
        wanted[0] = stopped
    digests = {number: StepDigest() for number in wanted}
    others = over = 0
    for run in persons.rows.all_parts():
        try:
            whole = merged([run])
            over += int(admission.over(Histories(whole.begins, whole.starts, whole.stops)).sum())
        except (LedgerError, ValueError):
            over += 1
        others += 1 if _outside(run, max(done, 1)) else _digest(run, digests)
    if over:
        yield damage(LEDGER, "a person has paid more than the contributions")
    if others:
        yield damage(LEDGER, "a person is admitted in a step that is not published or not needed")
    for number, digest in digests.items():
        if digest.text() != wanted[number]:
            yield damage(f"{LEDGER}, step {number + 1}", "it does not match the history")


def _digest(run: Run, digests: dict[int, StepDigest]) -> int:
    """Add the owners of a run to the digests of their steps; the number of other steps."""
    which, steps = run.steps()
    order = np.lexsort((which, steps))
    which, steps = which[order], steps[order]
    numbers, places = np.unique(steps, return_index=True)
    ends = np.append(places, len(steps))[1:]
    others = 0
    for number, low, high in zip(numbers.tolist(), places, ends, strict=True):
        if number in digests:
            digests[number].add(run.owners[which[low:high]])
        else:
            others += 1
    return others


def _outside(run: Run, steps: int) -> bool:
    """Whether a run has steps that were not made; to list them might take all memory."""
    return bool(len(run.starts) and (run.starts.min() < 0 or run.stops.max() > steps))


def _stopped(state: StateDatabase) -> str | None:
    """Who was admitted in the newest stopped step and those before it."""
    try:
        return newest_stopped(state)
    except StoreError:
        return ""


def _slots(
    state: StateDatabase, records: RecordLog, persons: PersonLog, stated: list[Stated]
) -> Iterator[Problem]:
    """Check whose the held slots are and which count, against what their steps say."""
    first: dict[str, int] = {}
    for segment in records.held():
        first.setdefault(segment.stream, segment.span.start)
    kept = {(row[0], row[1], row[2]) for row in state.rows("admitted", "1 = 1")}
    stopped = state.one("SELECT count(*) FROM stopped")[0] > 0
    for step in stated:
        place = (step.stream, *step.span)
        if step.span.start < first.get(step.stream, step.span.stop):
            continue  # its records were deleted
        where = f"the step of {step.stream} at {step.span.stop}"
        if place not in kept:
            yield damage(where, "which of its slots count is missing")
        kept.discard(place)
        try:
            owners = records.owners(step.stream, step.span)
            admitted = persons.admitted(step.stream, step.span)
        except StoreError as error:
            if still_held(state, *_segments(records, step)):
                yield Problem(where, str(error))
            continue
        if owners is None:
            yield damage(where, "its records have no owners")
        else:
            again = step.number == 0 and stopped
            yield from _agree(step, owners, admitted, where, again=again)
    for stream, start, _ in sorted(kept):
        if start >= first.get(stream, start):
            yield damage(stream, "slots of a step that is not published count")


def _after_stop(
    state: StateDatabase,
    records: RecordLog,
    persons: PersonLog,
    admission: Admission,
    stated: list[Stated],
) -> Iterator[Problem]:
    """Check that the first step admits those whose slots count, and those of stopped steps."""
    stopped, step = _stopped(state), next(iter(stated), None)
    if stopped is None or step is None or step.number or admission.needed(stated[-1].number + 1):
        return
    try:
        owners = records.owners(step.stream, step.span)
        counts = persons.admitted(step.stream, step.span)
    except StoreError:
        return  # deleted, or reported already
    if owners is None:
        return
    counted = sorted_owners(owners[counts])
    first = sorted_owners(np.concatenate([_of_first(run) for run in persons.rows.all_parts()]))
    left = first[~_among(first, counted)]
    if len(left) + len(counted) != len(first) or step_digest(left) != stopped:
        what = "persons that it admits are not those of its slots that count, and of stopped steps"
        yield damage(f"the step of {step.stream} at {step.span.stop}", what)


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


def _segments(records: RecordLog, step: Stated) -> list[Segment]:
    """The segments that hold records of a step."""
    span = step.span
    return [
        each
        for each in records.held()
        if each.stream == step.stream
        and each.span.start < span.stop
        and span.start < each.span.stop
    ]


def _agree(
    step: Stated, owners: Owners, admitted: Admitted, where: str, *, again: bool
) -> Iterator[Problem]:
    """Check the slots of one step.

    Args:
        step: What it says.
        owners: Whose its slots are.
        admitted: Which of them count.
        where: What to call it.
        again: Whether persons of a stopped step are said to be admitted in it too.
    """
    counts = step.counted is not None
    if persons_text(step.admitted, owners, admitted, step.key, counts=counts) != _text(step):
        yield damage(where, "its owners, or which of its slots count, were changed")
    counted = sorted_owners(owners[admitted])
    if not again and step_digest(counted) != step.admitted:
        yield damage(where, "the slots that count are not those of the persons it admits")
    _, inverse = np.unique(owners, axis=0, return_inverse=True)
    share = np.bincount(inverse.ravel(), admitted) / np.bincount(inverse.ravel())
    if ((share > 0) & (share < 1)).any() or admitted[~owners.any(axis=1)].any():
        yield damage(where, "some slots of a person count and others do not")


def _text(step: Stated) -> str:
    names = ("admitted", "key", "owners", "records", "counted")
    said = {name: getattr(step, name) for name in names}
    return canonical({name: value for name, value in said.items() if value is not None})


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
