"""The lines that erasures leave in the database, and how the history covers them.

A line says when, and whether a record or a person was erased; it names neither. It has the number
of slots, and the checksum of each segment that was written again. The digest of a line covers the
history before it, and the next step's digest covers the line, so that the next release covers it
too. A random salt keeps what is private in a line out of the digests on public cards.
"""

import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tidegate.checks import json_of
from tidegate.release import canonical
from tidegate.state.damage import COLUMNS, Problem, after, damage, readable
from tidegate.state.database import Database
from tidegate.state.erasure import ERASED, Erasure
from tidegate.state.state_database import StateDatabase

Row = Sequence[Any]


def rows_of(database: Database, where: str = "1 = 1", *values: Any) -> list[Row]:
    """The rows of erasures, in order."""
    query = f"SELECT {COLUMNS['erasures']} FROM erasures WHERE {where} ORDER BY number"  # noqa: S608
    rows: list[Row] = database.execute(query, values).fetchall()
    return rows


class Place(NamedTuple):
    """A position in the history: the corrections of a stopped state, and the steps since."""

    stopped: int
    steps: int

    @property
    def number(self) -> int:
        """What lines keep; it grows with every step and every correction."""
        return 2 * self.stopped + self.steps


def place_of(state: StateDatabase) -> Place:
    """The place after everything so far."""
    return Place(state.totals.stopped, state.totals.steps)


def after_erasures(state: StateDatabase, history: str, place: Place) -> str:
    """The digest of the history after the erasures at a place."""
    some = state.totals.erasures > 0
    for *row, _ in rows_of(state.db, "place = ?", place.number) if some else ():
        history = after(history, row)
    return history


def line_of(
    state: StateDatabase, history: str, kind: str, time: datetime, rewritten: Sequence[Row]
) -> tuple[Any, ...]:
    """The row of a new erasure.

    Args:
        state: Where the lines so far are.
        history: The digest of the history so far.
        kind: What was erased: a record or a person.
        time: When.
        rewritten: For each segment its stream, start, stop, new checksum and number of slots newly
            erased; the checksum is None if only the quarantine held something of them.
    """
    number = state.one("SELECT coalesce(max(number), 0) + 1 FROM erasures")[0]
    slots, text = sum(row[-1] for row in rewritten), canonical([list(row) for row in rewritten])
    at, salt = time.isoformat(timespec="seconds"), secrets.token_hex(32)
    row = (number, at, kind, place_of(state).number, slots, text, salt)
    return (*row, after(history, row))


def erasure_of(row: Row) -> Erasure:
    """An erasure, from its row."""
    number, time, kind, _, slots, _, _, history = row
    return Erasure(number=number, time=time, kind=kind, slots=slots, hash=history)


class Erasures:
    """The lines of all erasures, checked while the history is followed from its beginning."""

    def __init__(self, database: Database) -> None:
        self._rows = rows_of(database)
        self._passed = 0
        self.problems: list[Problem] = []

    def after(self, history: str, place: Place) -> str:
        """The digest of the history after the erasures at a place."""
        while self._passed < len(self._rows) and self._rows[self._passed][3] <= place.number:
            *row, kept = self._rows[self._passed]
            self._passed += 1
            if after(history, row) != kept or row[0] != self._passed or row[3] != place.number:
                what = "hash mismatch in the line of the erasure"
                self.problems.append(damage(f"erasure {row[0]}", what))
            history = kept  # report each wrong line once
        return history

    def found(self) -> list[Problem]:
        """All problems, at the end of the history."""
        later = self._rows[self._passed :]
        missing = "it was made after a step that is missing"
        return [*self.problems, *(damage(f"erasure {row[0]}", missing) for row in later)]


def problems(state: StateDatabase) -> Iterator[Problem]:
    """Check lines against the slots that are marked as erased, and segments against lines."""
    newest: dict[tuple[Any, ...], tuple[int, Any]] = {}
    claimed: Counter[str] = Counter()
    database = state.db
    corrected = place_of(state)._replace(steps=0).number  # which deleted all earlier records
    for number, _, _, place, slots, text, *_ in rows_of(database):
        with readable(f"the line of erasure {number}"):
            segments = [(tuple(where), crc, count) for *where, crc, count in json_of(text)]
        if slots != sum(count for *_, count in segments):
            yield damage(f"erasure {number}", "its segments do not add up to its slots")
        for where, crc, count in segments if place >= corrected else []:
            newest[where] = number, crc
            claimed[where[0]] += count
    for *where, crc in database.execute("SELECT stream, start, stop, checksum FROM segments"):
        number, written = newest.get(tuple(where), (0, crc))
        if crc != written:
            what = f"its records from {where[1]} on are not those that erasure {number} left"
            yield damage(where[0], what)
    marks = "SELECT stream, count(*) FROM quarantine WHERE reason = ? GROUP BY stream"
    marked = dict(database.execute(marks, (ERASED,)).fetchall())
    for stream in sorted({*claimed, *marked}):
        if claimed[stream] != marked.get(stream, 0):
            what = f"{marked.get(stream, 0)} slots are erased, but erasures say {claimed[stream]}"
            yield damage(stream, what)
