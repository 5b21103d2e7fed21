"""Correct the settings of a stopped state, and keep what its stopped steps have paid.

The stopped step moves to the table `stopped` with the settings that it ran under, and the history
goes on from there. All records are deleted, so no later fit can read a record that has paid.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tidegate.checks import StoreError
from tidegate.schedule import Span
from tidegate.state.damage import Problem, damage, readable
from tidegate.state.database import Database
from tidegate.state.erasure import Erasures, Position, after_erasures, place_of
from tidegate.state.fit_rows import survey_of
from tidegate.state.integrity import BEGINNING, COLUMNS, after
from tidegate.state.layout import SOURCES, STEP, covered
from tidegate.state.state_database import StateDatabase
from tidegate.state.store import StoppedStep

Row = Sequence[Any]


def correct(state: StateDatabase, config: str, settings: str) -> None:
    """Replace the settings of a stopped state, in one transaction.

    Its only step moves to the table `stopped`. Records, quarantine and counts of records are
    deleted; sources keep their place. Files of segments are left to `sweep`.
    """
    with state.transaction("correct"):
        steps = state.db.execute(f"SELECT {STEP}, history FROM steps").fetchall()  # noqa: S608
        if len(steps) != 1 or state.one("SELECT count(*) FROM fits")[0]:
            raise StoreError(
                f"{state.folder} has steps besides the stopped one: start a new state instead"
            )
        state.insert("stopped", [_stopped_row(state, steps[0])])
        state.db.execute("DELETE FROM steps")
        _delete_records(state)
        _restart_sources(state)
        values = (config, settings)
        state.db.execute("UPDATE state SET config = ?, settings = ?, arrived = NULL", values)


def _stopped_row(state: StateDatabase, step: Row) -> Row:
    number = state.one("SELECT coalesce(max(number), 0) + 1 FROM stopped")[0]
    _, stream, start, stop = step[:4]
    survey_share, survey, persons, history = step[-4:]
    if survey_share is None:
        raise StoreError(f"{state.folder} has no survey: only a stopped state can be corrected")
    settings = state.one("SELECT settings FROM state")[0]
    row = (number, settings, stream, start, stop, step[SOURCES], survey_share, survey)
    history = after_erasures(state.db, history, place_of(state.db))
    return (*row, after(history, [settings]), persons)


def _delete_records(state: StateDatabase) -> None:
    """Delete all records. Texts are overwritten first, as `forget` does: SQLite moves rows.

    The ledger of persons stays: who was admitted in the stopped step has paid for its survey.
    """
    state.sums.remove("quarantine", state.rows("quarantine", "1 = 1"))
    state.db.execute("UPDATE quarantine SET payload = NULL WHERE payload IS NOT NULL")
    state.db.execute("DELETE FROM quarantine")
    for table in ("segments", "arrivals", "admitted"):
        state.delete(table, "1 = 1")
    state.db.execute("DELETE FROM streams")


def _restart_sources(state: StateDatabase) -> None:
    """Count the records of each source from 0 again; the source goes on from where it was."""
    sources = state.rows("offsets", "1 = 1")
    state.sums.remove("offsets", sources)
    state.sums.add("offsets", [(source, stream, 0, *rest) for source, stream, _, *rest in sources])
    state.db.execute("UPDATE offsets SET records = 0")


def rows_of(database: Database) -> list[Row]:
    """The rows of all stopped steps, in order."""
    query = f"SELECT {COLUMNS['stopped']} FROM stopped ORDER BY number"  # noqa: S608
    rows: list[Row] = database.execute(query).fetchall()
    return rows


def beginning(database: Database) -> str:
    """The digest of the history before the first step that is not in the table `stopped`."""
    newest = "SELECT history FROM stopped ORDER BY number DESC LIMIT 1"
    row = database.execute(newest).fetchone()
    return BEGINNING if row is None else str(row[0])


def stopped_of(row: Row) -> StoppedStep:
    """A stopped step, from its row."""
    _, settings, stream, start, stop, _, share, survey, *_ = row
    with readable("a stopped step in the database"):
        return StoppedStep(
            settings=settings,
            stream=stream,
            span=Span(start, stop),
            survey=survey_of(share, survey),
        )


def problems(database: Database, erasures: Erasures) -> Iterator[Problem]:
    """Check stopped steps and their settings against the history."""
    history = BEGINNING
    for place, row in enumerate(rows_of(database), 1):
        number, settings, stream, start, stop, sources, share, survey, kept, persons = row
        step = (1, stream, start, stop, *[None] * 4, sources, None, share, survey, persons)
        history = erasures.after(history, Position(place - 1, 0))
        history = erasures.after(after(history, covered(step)), Position(place - 1, 1))
        history = after(history, [settings])
        if history != kept or number != place:
            yield damage(f"stopped step {number}", "hash mismatch in the step or its settings")
            history = kept  # report each wrong step once
