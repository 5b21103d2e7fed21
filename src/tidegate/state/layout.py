"""The layout of a state's database, and the migrations from older layouts.

To change the layout, raise `LAYOUT`, add a migration from the layout before, and add a state of the
new layout to `tests/state/states/`.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

from tidegate.checks import StoreError, json_of
from tidegate.release.card import canonical
from tidegate.run.config.config import OPERATIONAL
from tidegate.schedule.fit import RecordFit, superseded
from tidegate.state.damage import BEGINNING, COLUMNS, DAMAGED, Sums, after
from tidegate.state.database import Database
from tidegate.state.segments import checksum
from tidegate.state.store import OLD_STEP, PlannedWeights, drop, line_of, with_fits

LAYOUT = 6
"""The layout that this version reads and writes. Version 0.1.0 wrote 2."""

SCHEMA = """
CREATE TABLE state (
    config TEXT NOT NULL, settings TEXT NOT NULL, committed INTEGER NOT NULL, arrived TEXT,
    sums TEXT NOT NULL, seal TEXT NOT NULL
);
CREATE TABLE streams (
    stream TEXT PRIMARY KEY, kind TEXT NOT NULL, count INTEGER NOT NULL, done INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE segments (
    stream TEXT NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL,
    size INTEGER NOT NULL, checksum INTEGER NOT NULL, file TEXT, data BLOB
);
CREATE UNIQUE INDEX segments_by_start ON segments (stream, start);
CREATE INDEX segments_waiting ON segments (stream, start, stop) WHERE file IS NULL;
CREATE TABLE quarantine (
    stream TEXT NOT NULL, slot INTEGER NOT NULL, reason TEXT NOT NULL, payload TEXT,
    PRIMARY KEY (stream, slot)
);
CREATE TABLE offsets (
    source TEXT PRIMARY KEY, stream TEXT NOT NULL, records INTEGER NOT NULL, place TEXT NOT NULL,
    seal INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE arrivals (
    stream TEXT NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, source TEXT,
    PRIMARY KEY (stream, start)
) WITHOUT ROWID;
CREATE TABLE keys (stream TEXT, name TEXT, PRIMARY KEY (stream, name)) WITHOUT ROWID;
CREATE TABLE fits (
    number INTEGER PRIMARY KEY, stream TEXT NOT NULL, fit TEXT NOT NULL, share TEXT NOT NULL,
    card TEXT NOT NULL, shape TEXT NOT NULL, weights BLOB NOT NULL, digest TEXT NOT NULL,
    release INTEGER UNIQUE, previous TEXT, hash TEXT
);
CREATE INDEX fits_by_stream ON fits (stream, number);
CREATE INDEX fits_unreleased ON fits (stream) WHERE release IS NULL AND length(weights) > 0;
CREATE TABLE dropped (number INTEGER PRIMARY KEY, norm REAL NOT NULL);
CREATE TABLE erasures (
    number INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, place INTEGER NOT NULL,
    slots INTEGER NOT NULL, segments TEXT NOT NULL, salt TEXT NOT NULL, history TEXT NOT NULL
);
CREATE TABLE steps (
    number INTEGER PRIMARY KEY, stream TEXT NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL,
    release INTEGER, share TEXT, accuracy REAL, deviation REAL, sources TEXT, history TEXT NOT NULL,
    scores TEXT, survey_share TEXT, survey TEXT, persons TEXT
);
CREATE TABLE stopped (
    number INTEGER PRIMARY KEY, settings TEXT NOT NULL, stream TEXT NOT NULL,
    start INTEGER NOT NULL, stop INTEGER NOT NULL, sources TEXT, survey_share TEXT NOT NULL,
    survey TEXT NOT NULL, history TEXT NOT NULL, persons TEXT
);
CREATE TABLE published (release INTEGER PRIMARY KEY, files TEXT NOT NULL);
CREATE TABLE persons (
    level INTEGER NOT NULL, part INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    entries INTEGER NOT NULL, digest TEXT NOT NULL, data BLOB NOT NULL
);
CREATE INDEX persons_by_place ON persons (level, part, first, last, entries);
CREATE TABLE admitted (
    stream TEXT NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, digest TEXT NOT NULL,
    data BLOB NOT NULL
);
CREATE UNIQUE INDEX admitted_by_start ON admitted (stream, start);
CREATE TABLE person_key (digest TEXT NOT NULL)
"""

TABLES_AFTER_LAYOUT_3 = {"dropped", "stopped", "person_key", "persons", "admitted", "erasures"}
"""Tables with a sum that layout 3 does not have."""

OLD_STOPPED = "number, settings, stream, start, stop, sources, survey_share, survey, history"
"""The columns of a stopped step before layout 6."""


def migrate(database: Database) -> Sums:
    """Within a transaction, upgrade a state to this layout and return the sums of its tables."""
    for layout in range(database.layout(), LAYOUT):
        MIGRATIONS[layout](database)
    database.set_layout(LAYOUT)
    return Sums(database.execute("SELECT sums FROM state").fetchone()[0])


def sums_of(database: Database, tables: Iterable[str] = COLUMNS) -> Sums:
    """The sums of the tables, computed from their rows."""
    return Sums.of({table: _rows(database, table, COLUMNS[table]) for table in tables})


def _rows(database: Database, table: str, columns: str) -> Iterator[Any]:
    return iter(database.execute(f"SELECT {columns} FROM {table}"))  # noqa: S608


def _statements(table: str) -> str:
    """The statements of `SCHEMA` that create a table and its indexes."""
    names = (f"CREATE TABLE {table} ", f" ON {table} ")
    return ";".join(each for each in SCHEMA.split(";") if any(name in each for name in names))


def _from_2(database: Database) -> None:
    """Add the original settings, sums, a history, and where records came from.

    Tables that contain records are created again: in the old ones SQLite left copies of deleted
    rows.
    """
    _check_seal_of_2(database)
    remade = ("state", "segments", "quarantine", "offsets", "steps")
    for index in ("segments_by_start", "segments_waiting"):
        database.execute(f"DROP INDEX {index}")
    for table in remade:
        database.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    for table in (*remade, "arrivals", "published"):
        database.define(_statements(table))
    ((config, committed, arrived),) = database.execute(
        "SELECT config, committed, arrived FROM old_state"
    ).fetchall()
    kept = json_of(config)
    settings = canonical({key: kept[key] for key in kept if key not in OPERATIONAL})
    database.execute(
        "INSERT INTO state VALUES (?, ?, ?, ?, '{}', '')", (config, settings, committed, arrived)
    )
    # layout 2 did not store which source its records came from
    database.execute(
        "INSERT INTO offsets SELECT source, CASE WHEN source IN (SELECT stream FROM streams) "
        "THEN source ELSE '' END, 0, place, seal FROM old_offsets"
    )
    database.execute(
        "INSERT INTO arrivals SELECT stream, done, count, NULL FROM streams WHERE done < count"
    )
    database.executemany(
        f"INSERT INTO steps ({OLD_STEP}, history) VALUES ({', '.join('?' * 10)})",  # noqa: S608
        list(_steps_of_2(database)),
    )
    database.execute("INSERT INTO quarantine SELECT * FROM old_quarantine ORDER BY stream, slot")
    database.execute("INSERT INTO segments SELECT * FROM old_segments WHERE file IS NOT NULL")
    waiting = database.execute("SELECT * FROM old_segments WHERE file IS NULL").fetchall()
    for stream, start, stop, size, crc, _, data in waiting:
        if len(data) != size or checksum(data) != crc:
            raise StoreError(f"{database.where}: {DAMAGED}")
        row = (stream, start, stop, size, crc, None, database.pad + bytes(data))
        database.execute("INSERT INTO segments VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    for table in remade:
        database.execute(f"DROP TABLE old_{table}")
    sums = sums_of(database, [table for table in COLUMNS if table not in TABLES_AFTER_LAYOUT_3])
    database.execute("UPDATE state SET sums = ?", (sums.text(),))


def _check_seal_of_2(database: Database) -> None:
    state = database.execute("SELECT config, committed, arrived FROM state").fetchone()
    streams = database.execute("SELECT * FROM streams ORDER BY stream").fetchall()
    seal = database.execute("SELECT seal FROM state").fetchone()[0]
    if seal != checksum(repr([state, streams]).encode()):
        raise StoreError(f"{database.where}: {DAMAGED}")


def _steps_of_2(database: Database) -> Iterator[tuple[Any, ...]]:
    """The rows of steps, each with the digest of the history up to it."""
    history = BEGINNING
    steps = database.execute("SELECT * FROM old_steps ORDER BY number").fetchall()
    for step, fits in with_fits(database, [(*step, None) for step in steps]):
        for row in (*fits, step):
            history = after(history, row)
        yield (*step, history)


def _from_3(database: Database) -> None:
    """Drop models that no future fit needs, and slot weights that follow from the settings.

    Existing sums are not recomputed, so that `verify` still finds earlier damage.
    """
    for name in ("CREATE TABLE dropped", "CREATE INDEX fits_unreleased"):
        database.define(next(each for each in SCHEMA.split(";") if name in each))
    sums = Sums(database.execute("SELECT sums FROM state").fetchone()[0])
    sums.add("dropped", drop(database, _superseded_of_3(database)))
    database.execute("UPDATE state SET sums = ?", (sums.text(),))
    planned = PlannedWeights(database)
    weighing = "SELECT number, fit, card FROM fits WHERE fit LIKE '%emphasis%'"
    for number, *texts in database.execute(weighing).fetchall():
        short = [planned.left_out(text) for text in texts]
        database.execute("UPDATE fits SET fit = ?, card = ? WHERE number = ?", (*short, number))


def _from_4(database: Database) -> None:
    """Add scores and surveys to steps, and a table of stopped steps. Earlier steps have none."""
    database.define(_statements("stopped"))
    _make_again(database, "steps", f"{OLD_STEP}, history")
    database.execute("DROP TABLE old_steps")


def _make_again(database: Database, table: str, columns: str) -> None:
    """Create a table as it is now, with some columns of the old one, which is kept beside it."""
    database.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    database.define(_statements(table))
    rows = f"SELECT {columns} FROM old_{table}"  # noqa: S608
    database.execute(f"INSERT INTO {table} ({columns}) {rows}")


def _from_5(database: Database) -> None:
    """Add what a state keeps about persons, and erasures. Earlier steps have none.

    Existing sums are not recomputed, so that `verify` still finds earlier damage.
    """
    _make_again(database, "steps", f"{OLD_STEP}, scores, survey_share, survey, history")
    _make_again(database, "stopped", OLD_STOPPED)
    sums = Sums(database.execute("SELECT sums FROM state").fetchone()[0])
    sums.remove("stopped", _rows(database, "old_stopped", OLD_STOPPED))
    sums.add("stopped", _rows(database, "stopped", COLUMNS["stopped"]))
    database.execute("UPDATE state SET sums = ?", (sums.text(),))
    for table in ("steps", "stopped"):
        database.execute(f"DROP TABLE old_{table}")
    for table in ("person_key", "persons", "admitted", "erasures"):
        database.define(_statements(table))


def _superseded_of_3(database: Database) -> list[int]:
    """The numbers of fits whose models no future fit needs."""
    rows = database.execute("SELECT fit, share FROM fits ORDER BY number")
    fits = (line_of(json_of(fit), share).fit for fit, share in rows)
    gone: list[int] = []
    kept: list[RecordFit] = []
    for _, group in groupby(fits, key=lambda fit: (fit.stream, fit.at)):
        due = list(group)
        gone += (now := superseded(kept, due))
        kept = [fit for fit in [*kept, *due] if not fit.released and fit.number not in now]
    return gone


MIGRATIONS: dict[int, Callable[[Database], None]] = {
    2: _from_2,
    3: _from_3,
    4: _from_4,
    5: _from_5,
}
"""For each older layout, the migration to the next one."""
