"""SQLite: the database in the state's own folder."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tidegate.checks import StoreError
from tidegate.gate.database import Database
from tidegate.gate.segment_folder import sync_folder

FILE = "state.db"

PAGE = 4096
"""Bytes of a page."""

SETTINGS = [
    f"page_size={PAGE}",
    "journal_mode=WAL",
    "synchronous=FULL",
    "secure_delete=ON",
    "temp_store=MEMORY",  # nothing of a record in files that are nobody's
]

PATIENCE = 5000
"""Milliseconds to wait for what another connection does just now."""

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class SqliteDatabase:
    """See `Database`.

    What is deleted is overwritten (`secure_delete`), but when SQLite moves rows from page to page
    it leaves copies behind that it does not know of any more. So no byte that is to be forgotten
    may be in a row that is ever moved. Two kinds of row never are:

    - the end of a long one. It lies on pages of its own that stay where they are, and are
      overwritten when the row is deleted. Behind a `pad` of a page's length all of it does.
    - a row of a table to which rows are added at the end (no WITHOUT ROWID), and in which they are
      made shorter but never deleted: the quarantine.

    Args:
        folder: Where it is.
        writes: Whether it is opened to write; the caller has locked the folder then.
    """

    name = FILE
    errors: type[Exception] = sqlite3.Error
    lost = False
    pad = bytes(PAGE)

    def __init__(self, folder: Path, *, writes: bool) -> None:
        self._folder, self._writes = folder, writes
        self.where = str(folder / FILE)
        self._connection: sqlite3.Connection | None = None

    def connect(self) -> None:
        """Get hold of it; made if it is not there and the caller may write."""
        path = self._folder / FILE
        if self._writes and not path.exists():
            # SQLite would make it readable by all; its other files take over this one's mode
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            sync_folder(self._folder)
        if self._writes or os.access(self._folder, os.W_OK):
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        else:
            connection = sqlite3.connect(self._readable(path), uri=True, isolation_level=None)
        self._connection = connection
        self.execute, self.executemany = connection.execute, connection.executemany
        self.commit, self.rollback = connection.commit, connection.rollback
        for setting in SETTINGS if self._writes else ["query_only=ON"]:
            self.execute(f"PRAGMA {setting}")

    def _readable(self, path: Path) -> str:
        """How to open it where SQLite cannot make its index of the log."""
        log, index = (self._folder / f"{FILE}-{ending}" for ending in ("wal", "shm"))
        if log.exists() and not index.exists():
            told = f"{self._folder} was not closed, and its log can only be read where it can be"
            raise StoreError(f"{told} written: copy the folder to such a place")
        # without a log nobody has the state open
        return f"{path.absolute().as_uri()}?{'mode=ro' if log.exists() else 'immutable=1'}"

    def layout(self) -> int:
        """The version of the layout, 0 before `create`."""
        return int(self.execute("PRAGMA user_version").fetchone()[0])

    def create(self, schema: str, layout: int) -> None:
        """Within a transaction, make all tables."""
        self.define(schema)
        self.keep_layout(layout)

    def define(self, schema: str) -> None:
        """Within a transaction, make some tables."""
        for statement in schema.split(";"):
            self.execute(statement)

    def keep_layout(self, layout: int) -> None:
        """Within a transaction, keep another version of the layout."""
        self.execute(f"PRAGMA user_version={layout}")

    def schema(self) -> list[str] | None:
        """The statements that its tables were made with."""
        return [sql for (sql,) in self.execute("SELECT sql FROM sqlite_master") if sql is not None]

    def begin(self) -> None:
        """Begin a transaction that writes."""
        self.execute("BEGIN IMMEDIATE")

    def begin_looking(self) -> None:
        """Begin one that only reads, and sees what there was at its start."""
        self.execute("BEGIN")
        self.layout()  # it begins when it first reads

    def scrub(self) -> bool:
        """Empty the log, which has the pages as they were; False while somebody reads those."""
        self.execute("PRAGMA busy_timeout=0")
        try:
            busy = self.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.OperationalError as error:  # in the midst of reading by this connection
            if error.sqlite_errorcode & 0xFF not in _BUSY:
                raise
            return False
        finally:
            self.execute(f"PRAGMA busy_timeout={PATIENCE}")
        return not busy

    def problems(self) -> Iterator[str]:
        """What SQLite finds wrong with its pages."""
        for (what,) in self.execute("PRAGMA integrity_check"):
            if what != "ok":
                yield what

    def told(self, error: Exception) -> str:
        """What an error says, in one line."""
        return " ".join(str(error).split())

    def damaged(self, error: Exception) -> bool:
        """Whether an error says that what was written can no longer be read."""
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE

    def beside(self) -> Database:
        """Another connection to look with."""
        database = SqliteDatabase(self._folder, writes=False)
        database.connect()
        return database

    def close(self) -> None:
        """Let go of it, if it was got hold of."""
        if self._connection is not None:
            self._connection.close()
