"""The databases of states: what each of them offers, and SQLite, in the folder of the state."""

import os
import sqlite3
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from tidegate.checks import StoreError
from tidegate.whole_file import sync_folder


class Database(Protocol):
    """A connection. A writer has exclusive write access from `connect` to `close`.

    Queries use the SQL that SQLite and PostgreSQL share, with a ? for each value. What is given
    here is what a database does that has nothing to add.
    """

    name: str  # shown by `verify`
    where: str  # shown in errors
    errors: type[Exception]  # the base class of the errors that it raises
    pad: bytes  # stored before the records in a row, so that deleting the row erases them

    @abstractmethod
    def connect(self) -> None:
        """Connect."""

    @abstractmethod
    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        """Execute a statement and return a cursor over its rows."""

    @abstractmethod
    def executemany(self, query: str, rows: Iterable[Sequence[Any]]) -> object:
        """Execute a statement once for each row of values."""

    @abstractmethod
    def layout(self) -> int:
        """The version of the layout; 0 before `create`."""

    @abstractmethod
    def create(self, schema: str, layout: int) -> None:
        """Within a transaction, create all tables and store the version of their layout."""

    def define(self, schema: str) -> None:
        """Within a transaction, execute CREATE statements, written with the types of SQLite."""
        for statement in schema.split(";"):
            self.execute(statement)

    @abstractmethod
    def set_layout(self, layout: int) -> None:
        """Within a transaction, store a new version of the layout."""

    def schema(self) -> list[str] | None:
        """The CREATE statements of its tables; None if the database does not store them."""
        return None

    @abstractmethod
    def begin(self) -> None:
        """Begin a read-write transaction."""

    @abstractmethod
    def begin_reading(self) -> None:
        """Begin a read-only transaction on a snapshot taken now."""

    @abstractmethod
    def commit(self) -> None:
        """Make a transaction durable. If this raises, it may or may not be durable."""

    @abstractmethod
    def rollback(self) -> None:
        """Undo the transaction, if there is one."""

    def scrub(self) -> bool:
        """Erase deleted rows from the files; False if that must be tried again."""
        return True

    def problems(self) -> Iterator[str]:
        """The results of the database's own integrity check."""
        yield from ()

    @property
    def lost(self) -> bool:
        """Whether the connection was lost."""
        return False

    @abstractmethod
    def message(self, error: Exception) -> str:
        """The text of an error in one line, without quoting any row."""

    @abstractmethod
    def damaged(self, error: Exception) -> bool:
        """Whether an error means that stored data is corrupt."""

    @abstractmethod
    def open_reader(self) -> "Database":
        """A second, read-only connection, outside any snapshot of this one."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection, if there is one."""


def without_pad(data: bytes, pad: bytes) -> bytes:
    """The data of a row after its pad; ValueError if something else stands in the pad's place.

    >>> without_pad(bytes(2) + b"data", bytes(2))
    b'data'
    """
    if bytes(memoryview(data)[: len(pad)]) != pad:
        raise ValueError("pad")
    return bytes(memoryview(data)[len(pad) :])


FILE = "state.db"

PAGE = 4096
"""Bytes of a page."""

SETTINGS = [
    f"page_size={PAGE}",
    "journal_mode=WAL",
    "synchronous=FULL",
    "secure_delete=ON",
    "temp_store=MEMORY",  # no records in temporary files
]

PATIENCE = 5000
"""Milliseconds to wait for a lock of another connection."""

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class SqliteDatabase(Database):
    """See `Database`.

    Deleted rows are overwritten (`secure_delete`). But when SQLite moves a row to another page, it
    leaves a copy behind that is never overwritten. So data that must be erased must not be in a row
    that moves. Two kinds of data never move:

    - the end of a long row. It is on overflow pages, which stay in place and are overwritten when
      the row is deleted. A `pad` of one page before the data puts all of it there.
    - rows of a table that only grows at its end (no WITHOUT ROWID) and whose rows may shrink but
      are never deleted: the quarantine.

    Args:
        folder: The state folder.
        writes: Open for writing; the caller must have locked the folder.
    """

    name = FILE
    errors: type[Exception] = sqlite3.Error
    pad = bytes(PAGE)
    _connection: sqlite3.Connection

    def __init__(self, folder: Path, *, writes: bool) -> None:
        self._folder, self._writes = folder, writes
        self.where = str(folder / FILE)

    def connect(self) -> None:
        """Connect; a writer creates the file if it is missing."""
        path = self._folder / FILE
        if self._writes and not path.exists():
            # SQLite would make it world-readable; its other files copy the mode of this one
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            sync_folder(self._folder)
        if self._writes or os.access(self._folder, os.W_OK):
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        else:
            connection = sqlite3.connect(self._readable(path), uri=True, isolation_level=None)
        self.use(connection)
        for setting in SETTINGS if self._writes else ["query_only=ON"]:
            self.execute(f"PRAGMA {setting}")

    def use(self, connection: sqlite3.Connection) -> None:
        """Use a connection."""
        self._connection = connection

    def execute(self, query: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute a statement and return a cursor over its rows."""
        return self._connection.execute(query, values)

    def executemany(self, query: str, rows: Iterable[Sequence[Any]]) -> sqlite3.Cursor:
        """Execute a statement once for each row of values."""
        return self._connection.executemany(query, rows)

    def commit(self) -> None:
        """Make a transaction durable."""
        self._connection.commit()

    def rollback(self) -> None:
        """Undo the transaction, if there is one."""
        self._connection.rollback()

    def _readable(self, path: Path) -> str:
        """The URI to open it in a read-only folder, where SQLite cannot index the log."""
        log, index = (self._folder / f"{FILE}-{ending}" for ending in ("wal", "shm"))
        if log.exists() and not index.exists():
            cause = "was not closed, so reading it needs write access"
            raise StoreError(f"{self._folder} {cause}: copy it to where it can be written")
        # without a log, no process has the state open
        return f"{path.absolute().as_uri()}?{'mode=ro' if log.exists() else 'immutable=1'}"

    def layout(self) -> int:
        """The version of the layout; 0 before `create`."""
        return int(self.execute("PRAGMA user_version").fetchone()[0])

    def create(self, schema: str, layout: int) -> None:
        """Within a transaction, create all tables."""
        self.define(schema)
        self.set_layout(layout)

    def set_layout(self, layout: int) -> None:
        """Within a transaction, store a new version of the layout."""
        self.execute(f"PRAGMA user_version={layout}")

    def schema(self) -> list[str]:
        """The CREATE statements of its tables."""
        return [sql for (sql,) in self.execute("SELECT sql FROM sqlite_master") if sql is not None]

    def begin(self) -> None:
        """Begin a read-write transaction."""
        self.execute("BEGIN IMMEDIATE")

    def begin_reading(self) -> None:
        """Begin a read-only transaction on a snapshot taken now."""
        self.execute("BEGIN")
        self.layout()  # the first read takes the snapshot

    def scrub(self) -> bool:
        """Empty the log, which has old versions of pages; False while a reader needs them."""
        self.execute("PRAGMA busy_timeout=0")
        try:
            busy = self.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.OperationalError as error:  # this connection is reading
            if error.sqlite_errorcode & 0xFF not in _BUSY:
                raise
            return False
        finally:
            self.execute(f"PRAGMA busy_timeout={PATIENCE}")
        return not busy

    def problems(self) -> Iterator[str]:
        """The results of SQLite's integrity check."""
        for (what,) in self.execute("PRAGMA integrity_check"):
            if what != "ok":
                yield what

    def message(self, error: Exception) -> str:
        """The text of an error in one line; where text is not UTF-8, without that text."""
        return " ".join(str(error).partition(" with text ")[0].split())

    def damaged(self, error: Exception) -> bool:
        """Whether an error means that stored data is corrupt."""
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE

    def open_reader(self) -> Database:
        """A second, read-only connection."""
        database = SqliteDatabase(self._folder, writes=False)
        database.connect()
        return database

    def close(self) -> None:
        """Close the connection, if there is one."""
        if hasattr(self, "_connection"):
            self._connection.close()
