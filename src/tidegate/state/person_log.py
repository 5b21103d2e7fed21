"""The ledger of persons: decides and keeps in which steps each person is admitted.

An index in memory has 12 bytes for each person, from which almost every admission is decided. It is
made from the rows in the database, and changes only after a commit.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import StoreError, json_of
from tidegate.data.records import Owners
from tidegate.failpoints import failpoint
from tidegate.learn.slot_weights import Admitted
from tidegate.privacy.admission import Admission
from tidegate.privacy.compact import NOBODY, UNKNOWN, UNSURE, YES
from tidegate.privacy.ledger import LedgerError
from tidegate.release.card import canonical
from tidegate.run.step_admission import StepAdmission
from tidegate.schedule import Span
from tidegate.state.damage import readable
from tidegate.state.database import without_pad
from tidegate.state.person_index import PersonIndex, RecentSteps, built, states_after
from tidegate.state.person_rows import (
    EMPTY,
    MAX_UNMERGED_RANGES,
    PersonRows,
    Run,
    Words,
    admissions_in,
    merged,
    names_of,
    owner_bytes,
    sorted_owners,
    step_digest,
)
from tidegate.state.state_database import StateDatabase


@dataclass(frozen=True, eq=False, kw_only=True)
class Decided:
    """The admission of a step, which is not stored yet."""

    stream: str
    span: Span  # its slots
    number: int  # how many steps of all streams came before it
    admission: Admission  # what decided
    owners: Owners  # whose the slots are
    admitted: Admitted  # which of them count
    names: Words  # of persons in the index whose state changes, ascending
    states: Words  # their states after the step
    joined: Admitted  # which of these persons are admitted


class PersonLog:
    """The ledger of persons of a state."""

    def __init__(self, state: StateDatabase) -> None:
        self._state, self._db = state, state.db
        self._indexed = -1  # how many steps the index knows; negative before it is read
        self._decided: Decided | None = None
        self._forgot = False  # whether rows were deleted that must be erased

    # what is kept in memory, none of it before the first step of persons

    @cached_property
    def rows(self) -> PersonRows:
        """The rows that are stored."""
        return PersonRows(self._state)

    @cached_property
    def _recent(self) -> RecentSteps:
        return RecentSteps()

    @cached_property
    def _index(self) -> PersonIndex:
        return PersonIndex()

    def reset(self) -> None:
        """Read everything again; call it after a transaction that failed."""
        self._indexed, self._decided = -1, None  # first: an empty index knows nobody
        for kept in ("rows", "_recent", "_index"):
            self.__dict__.pop(kept, None)

    def key(self) -> str:
        """The check value of the key; empty if records are protected."""
        row = self._state.fact("SELECT digest FROM person_key")
        return str(row[0]) if row else ""

    # --- deciding

    def admit(self, stream: str, span: Span, owners: Owners, admission: Admission) -> Admitted:
        """Decide which slots of the next step count, from owners alone; `store` keeps it."""
        number = self._state.totals.steps
        if self._indexed != number:  # also if a commit was interrupted
            self.reset()
            self._index, self._indexed = built(self.rows, admission.compact), number
        real = (owners[:, 0] | owners[:, 1]) != 0
        names, inverse = np.unique(names_of(owners[real]), return_inverse=True)
        states = self._index.get(names)
        verdicts = admission.compact.decide(states, number)
        changed = verdicts == UNSURE
        if changed.any():
            verdicts[changed], states[changed] = self._exactly(names[changed], number, admission)
        if number == 0:  # whoever is known was admitted in a stopped step, and not once more
            verdicts[states != np.uint64(NOBODY)] = 0
        yes = verdicts == YES
        states[yes] = admission.compact.after(states[yes], number)
        admitted = np.zeros(len(owners), np.bool_)
        admitted[real] = yes[inverse]
        changed |= yes
        self._decided = Decided(
            stream=stream,
            span=span,
            number=number,
            admission=admission,
            owners=owners,
            admitted=admitted,
            names=names[changed],
            states=states[changed],
            joined=yes[changed],
        )
        return admitted

    def _exactly(
        self, names: Words, number: int, admission: Admission
    ) -> tuple[NDArray[np.int8], Words]:
        """The decisions about some persons from all of their steps, and their states."""
        compact, states = admission.compact, np.full(len(names), UNKNOWN, np.uint64)
        if not admission.period:
            histories = self.rows.histories(names)
        else:  # many, and a bound within the period is enough
            first = number - admission.period + 1
            histories = self._recent.histories(names, first, self.rows.histories)
            states = states_after(*admissions_in(histories), len(names), compact)
        for place in np.flatnonzero(states == np.uint64(UNKNOWN)).tolist():
            ranges = histories.ranges(place)
            last = ranges[-1][1] - 1 if ranges else -1
            states[place] = compact.of(last, admission.cost(ranges))
        return admission.decide(histories, number).astype(np.int8), states

    # --- storing

    def store(self, stream: str, span: Span, admitted: Admitted) -> str:
        """Within a transaction, store the admission of a step; return its digests."""
        decided, key = self._decided, self.key()
        if (
            not decided
            or not key
            or (decided.stream, decided.span) != (stream, span)
            or not np.array_equal(decided.admitted, admitted)
        ):
            raise StoreError(f"cannot publish {stream} at {span.stop}: the step was not admitted")
        owners = sorted_owners(decided.owners[admitted])
        self._check(decided, owners)
        if decided.number == 0:  # a stopped step counts as the first one too
            owners = sorted_owners(np.concatenate([owners, self._stopped_owners()]))
        self.rows.add(Run.of_step(owners, decided.number))
        if _forgets(decided.admission):
            self._forgot = self.rows.forget(decided.admission.needed(decided.number + 1))
        else:
            self.rows.merge(4 * len(owners) + MAX_UNMERGED_RANGES // 16)
        bits = np.packbits(admitted).tobytes()
        row = (stream, *span, hashlib.sha256(bits).hexdigest(), self._db.pad + bits)
        self._state.insert("admitted", [row])
        failpoint("publish.admitted")
        return persons_text(step_digest(owners), decided.owners, admitted, key)

    def _stopped_owners(self) -> Owners:
        """Delete and return all owners before the first step: those of stopped steps, no others."""
        owners = self.rows.take_all().owners
        if step_digest(owners) != (newest_stopped(self._state) or step_digest(EMPTY.owners)):
            what = "the ledger of persons does not match the stopped step"
            raise StoreError(f"{self._db.where}: {what}; run tidegate verify")
        return owners

    def _check(self, decided: Decided, owners: Owners) -> None:
        """Refuse to admit a person beyond the contributions, whatever has decided that."""
        doubtful = decided.names[decided.admission.compact.over(decided.states)]
        doubtful = doubtful[np.isin(doubtful, names_of(owners))]
        if len(doubtful):
            before = self.rows.histories(doubtful)
            if not decided.admission.decide(before, decided.number).all():
                raise LedgerError(
                    "a person would pay more than the contributions: nothing was charged. "
                    "If a gate reports this, run tidegate verify"
                )

    def stored(self) -> None:
        """After the commit, let the index know."""
        decided, self._decided = self._decided, None
        if not decided:
            return
        self._indexed = -1  # until it is complete
        self._index.put(decided.names, decided.states)
        self._recent.add(decided.names[decided.joined], decided.number)
        self._indexed = decided.number + 1
        if self._forgot:
            self._forgot = False
            self._state.scrubbing.scrub()
            period = decided.admission.period or 1
            if decided.number % (period // 8 + 1) == 0:
                self._index.drop(decided.number + 2 - period)

    # --- reading

    def admitted(self, stream: str, span: Span) -> Admitted:
        """Which slots of a span count; those of steps that are not published do not."""
        query = """
            SELECT start, stop, digest, data FROM admitted
            WHERE stream = ? AND start < ? AND stop > ? AND start >= coalesce((
                SELECT max(start) FROM admitted WHERE stream = ? AND start <= ?
            ), 0)"""
        values = (stream, span.stop, span.start, stream, span.start)
        with self._state.explained():
            rows = self._db.execute(query, values).fetchall()
        found = np.zeros(span.size, np.bool_)
        for start, stop, digest, data in rows:
            with readable(f"which slots of {stream} count"):
                bits = self.bits(stop - start, digest, data)
            low, high = max(start, span.start), min(stop, span.stop)
            found[low - span.start : high - span.start] = bits[low - start : high - start]
        return found

    def admissions(self, newest: int) -> list[StepAdmission]:
        """How many records of the newest steps count, in order; not of steps that do not say."""
        query = "SELECT stream, start, stop, persons FROM steps ORDER BY number DESC LIMIT ?"
        with self._state.explained():
            rows = self._db.execute(query, (newest,)).fetchall()
        found = []
        for stream, start, stop, text in reversed(rows):
            with readable(f"how many records of {stream} count"):
                said = json_of(text) if text else {}
                if "counted" in said:
                    counts = {name: int(said[name]) for name in ("records", "counted")}
                    found.append(StepAdmission(stream=stream, span=Span(start, stop), **counts))
        return found

    def bits(self, slots: int, digest: str, data: bytes) -> Admitted:
        """The bits of a row of `admitted`; ValueError if they are damaged."""
        packed = without_pad(data, self._db.pad)
        if hashlib.sha256(packed).hexdigest() != digest or len(packed) != -(-slots // 8):
            raise ValueError(digest)
        return np.unpackbits(np.frombuffer(packed, np.uint8), count=slots).view(np.bool_)

    def person(self, owner: Owners) -> list[tuple[int, int]]:
        """The steps in which an owner is admitted, as ranges."""
        run = self.rows.of_names(names_of(owner))
        mine = np.flatnonzero((run.owners == owner).all(axis=1)).tolist()
        found = merged([run.slice(place, place + 1) for place in mine])
        return list(zip(found.starts.tolist(), found.stops.tolist(), strict=True))


def newest_stopped(state: StateDatabase) -> str | None:
    """The digest of who was admitted in the newest stopped step and those before it, if any."""
    row = state.one("SELECT persons FROM stopped ORDER BY number DESC LIMIT 1")
    with readable("what the stopped step says about persons"):
        return row and str(json_of(row[0])["admitted"])


def _forgets(admission: Admission) -> bool:
    """Whether old steps will not be needed any more."""
    return admission.period is not None and admission.look_back is not None


def persons_text(
    admitted_digest: str, owners: Owners, admitted: Admitted, key: str, *, counts: bool = True
) -> str:
    """What a step says about persons: digests of who is admitted, of all owners, and of the key.

    Args:
        admitted_digest: The digest of who is admitted.
        owners: Whose its slots are.
        admitted: Which of them count.
        key: The check value of the key.
        counts: Whether it also says how many slots count, and how many have a person. Steps of
            earlier versions do not.
    """
    slots = hashlib.sha256(owner_bytes(owners))
    slots.update(np.packbits(admitted).tobytes())
    said: dict[str, str | int] = {"admitted": admitted_digest, "key": key}
    said["owners"] = slots.hexdigest()
    if counts:
        said |= {"counted": int(admitted.sum()), "records": int(owners.any(axis=1).sum())}
    return canonical(said)
