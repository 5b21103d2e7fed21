"""Open a state of any origin to check it: nothing is written, and no host is connected to unasked.

Whoever made the folder may mean harm: files that never end, a database whose tables are views, the
address of a server that waits for a password. `Gate.inspect` opens such a state.
"""

import hashlib
import os
import shutil
import sqlite3
import stat
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, urlsplit

from tidegate.checks import InvalidValueError, StoreError
from tidegate.run.config.tables import Locations
from tidegate.state import lock, protected
from tidegate.state.damage import RESTORE, readable
from tidegate.state.database import FILE, Database, SqliteDatabase
from tidegate.state.layout import LAYOUT, MIGRATIONS, SCHEMA
from tidegate.state.lock import Lock, is_locked
from tidegate.state.opening import (
    ELSEWHERE,
    Elsewhere,
    checked_layout,
    migrate_state,
    no_state,
    refuse_remains,
)
from tidegate.state.segments import SegmentFolder
from tidegate.state.state_database import StateDatabase
from tidegate.whole_file import check_ordinary, open_ordinary

LOG, INDEX = f"{FILE}-wal", f"{FILE}-shm"

FILES = (FILE, LOG, INDEX, f"{FILE}-journal", lock.FILE, ELSEWHERE, protected.FILE, "tokens.json")
"""The files of a state that are read by name."""

TABLES = {
    2: "b1989ac7b5232dca678c519ce858bf0cd7251d427678cefabb736cba4aa77426",
    3: "9b5ddcce8349c588fd7f19b62e88a39090d9367d2fb60541b01728d30db1690f",
    4: "120d2adc34a4f0dd9278bbb48e27020316c4bd55ecb1328f697c96821725c858",
    5: "6db13bbf72914a9f247df1115ec3761c3029888ad52c141988726a6381ac34fa",
}
"""For each older layout, the digest of the statements that created its tables."""

INSTRUCTIONS_PER_CHECK = 100_000
"""How many instructions of SQLite are counted at a time."""

LEAST, PER_BYTE = 5 * 10**7, 2000
"""The instructions that checking a database may take: this many, and this many for each byte of it.
An honest state takes about 20 for each byte; a tree of pages that holds itself has no end."""


@dataclass(frozen=True, kw_only=True)
class Consent:
    """Where a check may connect to.

    Attributes:
        connect: Wherever the state says.
        locations: Those of a configuration that the user named, if they are the state's.
    """

    connect: bool = False
    locations: Locations = Locations()

    def check(self, folder: Path, named: Locations) -> None:
        """Refuse a state on a host that the user has not agreed to, before anything is sent."""
        for part in ("database", "segments"):
            place = getattr(named, part)
            if place is None or self.connect or place == getattr(self.locations, part):
                continue
            if part == "database" or urlsplit(place).scheme not in {"", "file"}:
                where = f"{folder} has its {part} on {host_of(place)}"
                agree = f"--connect, or --config with a file of yours that names the same {part}"
                raise InvalidValueError(f"{where}: to connect there, add {agree}")


def host_of(url: str) -> str:
    """The hosts that a URL names, in words.

    >>> host_of("postgresql://me@db.example:5432/x?hostaddr=203.0.113.9"), host_of("s3://bucket/a")
    ('db.example:5432, hostaddr 203.0.113.9', 'bucket (s3)')
    """
    parts = urlsplit(url)
    host, asked = parts.netloc.rpartition("@")[2], parse_qs(parts.query)
    if not parts.scheme.startswith("postgres"):
        more = [f"{name} {each}" for name in sorted(asked) for each in asked[name]]
        return ", ".join([f"{host or parts.path} ({parts.scheme})", *more])
    names = ("host", "hostaddr", "port", "service")
    more = [f"{name} {each}" for name in names for each in asked.get(name, [])]
    return ", ".join([*([host] if host else []), *more]) or "this machine"


def check_files(folder: Path) -> None:
    """Refuse a folder in which something else has the name of a state's file."""
    for name in FILES:
        path = folder / name
        if os.path.lexists(path):
            check_ordinary(os.lstat(path), path)
    segments = folder / "segments"
    if os.path.lexists(segments) and not stat.S_ISDIR(os.lstat(segments).st_mode):
        raise StoreError(f"{segments} is a link or a file, not a folder: {RESTORE}")


def inspect_state(folder: Path, consent: Consent) -> tuple[StateDatabase, SegmentFolder]:
    """Open a state to check it: its database and segments."""
    state = StateDatabase(folder, InspectedSqlite(folder))
    with state.explained():
        check_files(folder)
        elsewhere = Elsewhere.of(folder)
        consent.check(folder, elsewhere.locations)
        if elsewhere.locations.database is not None:
            state.db = elsewhere.database(folder, writes=False)
        elif not (folder / FILE).is_file():
            refuse_remains(folder)
            raise no_state(folder)
        try:
            state.db.connect()
            layout = checked_layout(state)
            if elsewhere.locations.database is not None:
                _check_on_server(state.db, elsewhere.name, layout)
            with readable("the table state"):
                (_,) = state.db.execute("SELECT seal FROM state").fetchall()
        except BaseException:
            state.close()
            raise
    return state, elsewhere.segments(folder)


def _check_on_server(database: Database, schema: str, layout: int) -> None:
    """Refuse a schema of an older layout, or one that has views in the place of tables."""
    if layout < LAYOUT:
        older = f"{database.where} has layout {layout}, and verify writes to no server"
        raise StoreError(f"{older}: its operator can run tidegate upgrade")
    query = (
        "SELECT count(*) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE nspname = ? AND relkind NOT IN ('r', 'i', 't')"
    )
    if database.execute(query, (schema,)).fetchone()[0]:
        raise StoreError(f"{database.where}: it has other things than tables: {RESTORE}")


class InspectedSqlite(SqliteDatabase):
    """A database that is checked; see `SqliteDatabase`.

    It is opened where it is if that takes no write: no process has it open, or a gate runs on it.
    Otherwise, after a crash or if its layout is older, a private copy is opened and upgraded.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, writes=False)
        self._private: TemporaryDirectory[str] | None = None
        self._uri = ""
        self._seen: tuple[int, int, int] | None = None  # of a file that nobody may change
        self._left = 0

    def connect(self) -> None:
        """Open the database, check that it has the tables of its layout, and no others."""
        path, log = self._folder / FILE, self._folder / LOG
        size = os.lstat(path).st_size + (os.lstat(log).st_size if log.exists() else 0)
        self._left = LEAST + PER_BYTE * size
        if is_locked(self._folder) and log.exists():
            self._open(path, "mode=ro", size)
            if 0 < self.layout() < LAYOUT:
                raise StoreError(f"{self._folder} is in use by an older version: stop that first")
            return
        if log.exists() and os.lstat(log).st_size:
            path = self._copied()
            self._open(path, "mode=rw", size)
        else:
            self._seen = _identity(path)
            self._open(path, "immutable=1", size)
        if self.layout() in MIGRATIONS:
            self._upgrade(size)

    def _open(self, path: Path, how: str, size: int) -> None:
        self._uri = f"{path.absolute().as_uri()}?{how}"
        self.use(
            sqlite3.connect(self._uri, uri=True, isolation_level=None, check_same_thread=False)
        )
        self._limit(size)
        for setting in ("query_only=ON", "trusted_schema=OFF", "cell_size_check=ON"):
            self.execute(f"PRAGMA {setting}")
        check_tables(self)
        if self.layout() in (LAYOUT, *MIGRATIONS):
            for what in self.problems():
                raise StoreError(f"{self.where}: {what}: {RESTORE}")

    def _limit(self, size: int) -> None:
        """Bound the values and the time of all statements by the size of the files."""
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(size + 2**16, 10**9))
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self._connection.set_progress_handler(self._counted, INSTRUCTIONS_PER_CHECK)

    def _counted(self) -> bool:
        """Called during statements; whether to end this one, because it has taken too long."""
        self._left -= INSTRUCTIONS_PER_CHECK
        return self._left < 0

    def _copied(self) -> Path:
        """Copy the files of the database to a private folder; the path of the copy."""
        if self._private is None:
            self._private = TemporaryDirectory(prefix="tidegate-verify-")
            for name in (FILE, LOG):
                if (self._folder / name).exists():
                    copy = Path(self._private.name, name)
                    with open_ordinary(self._folder / name) as old, copy.open("xb") as new:
                        shutil.copyfileobj(old, new)
        return Path(self._private.name, FILE)

    def _upgrade(self, size: int) -> None:
        """Upgrade a private copy to the newest layout."""
        super().close()
        path, self._seen = self._copied(), None
        state = StateDatabase(path.parent, SqliteDatabase(path.parent, writes=True))
        state.db.where = self.where
        try:
            state.lock = Lock(path.parent)
            state.db.connect()
            migrate_state(state, state.db.layout())
        finally:
            state.close()
        self._open(path, "mode=rw", size)

    def rollback(self) -> None:
        """End the snapshot; refuse what was read if another process has written meanwhile."""
        super().rollback()
        path = self._folder / FILE
        changed = self._seen is not None and (
            _identity(path) != self._seen or os.path.lexists(self._folder / LOG)
        )
        if changed:
            raise StoreError(f"{self._folder} was opened by a gate during the check: run it again")

    def open_reader(self) -> Database:
        """A second connection, to the same files."""
        other = InspectedSqlite(self._folder)
        other.use(sqlite3.connect(self._uri, uri=True, isolation_level=None))
        other.execute("PRAGMA query_only=ON")
        return other

    def close(self) -> None:
        """Close the connection, and delete a private copy."""
        super().close()
        if self._private is not None:
            self._private.cleanup()
            self._private = None


def _identity(path: Path) -> tuple[int, int, int]:
    status = os.lstat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns


def check_tables(database: SqliteDatabase) -> None:
    """Refuse a database with other tables than its layout has: a view can run for ever."""
    layout, found = database.layout(), sorted(database.schema())
    wanted = sorted(each.strip() for each in SCHEMA.split(";"))
    digest = hashlib.sha256("\n".join(found).encode(errors="replace")).hexdigest()
    if layout != LAYOUT and layout not in TABLES:
        return  # refused by its number
    known = found == wanted if layout == LAYOUT else digest == TABLES[layout]
    if not known or sorted(database.execute(LISTED), key=str) != _listed_by(found):
        raise StoreError(
            f"{database.where}: its tables are not those of layout {layout}: {RESTORE}"
        )


LISTED = "SELECT type, name, tbl_name, sql FROM sqlite_master"


def _listed_by(statements: list[str]) -> list[tuple[str | None, ...]]:
    """What SQLite lists after statements: also the names and kinds that it derives from them."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        for statement in sorted(statements, key=lambda each: "TABLE" not in each.split()):
            fresh.execute(statement)
        return sorted(fresh.execute(LISTED), key=str)
