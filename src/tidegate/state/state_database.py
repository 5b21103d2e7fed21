"""The database of an open state, with its locking, transactions and digests."""

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tidegate.checks import StoreError
from tidegate.failpoints import failpoint
from tidegate.state.damage import COLUMNS, RESTORE, Sums, digest, readable
from tidegate.state.database import Database
from tidegate.state.lock import Lock, NotLocked, Witness, witness_of

SCRUB_INTERVAL = 0.25
"""Seconds between two attempts, so that many small steps are not slowed down."""


class Scrubbing:
    """Scrubs a database at once, or a little later on its own thread.

    It waits if the last attempt was less than `SCRUB_INTERVAL` seconds ago or a reader blocked it.

    Args:
        mutex: Held while the database is used.
        attempt: Scrubs the database; returns False if that must be tried again.
    """

    def __init__(self, mutex: threading.RLock, attempt: Callable[[], bool]) -> None:
        self._mutex, self._attempt = mutex, attempt
        self._last = -SCRUB_INTERVAL
        self._waiting = False  # a thread will try again
        self._closed = threading.Event()

    def scrub(self, *, now: bool = False) -> None:
        """Scrub the database soon: within a second, unless a reader takes longer.

        Args:
            now: Try it before returning, however short ago the last attempt was.
        """
        with self._mutex:
            if now and self._scrubbed():
                return
            too_soon = time.monotonic() < self._last + SCRUB_INTERVAL
            if not self._waiting and (too_soon or not self._scrubbed()):
                self._waiting = True
                threading.Thread(target=self._try_again, name="scrubbing", daemon=True).start()

    def _scrubbed(self) -> bool:
        done, self._last = self._attempt(), time.monotonic()
        return done

    def _try_again(self) -> None:
        while not self._closed.wait(SCRUB_INTERVAL):
            with self._mutex:
                if not self._closed.is_set():
                    self._finish()
                if not self._waiting:
                    return

    def _finish(self) -> None:
        with suppress(Exception):  # the next use of the database raises it
            self._waiting = not self._scrubbed()

    def close(self) -> None:
        """Make a last attempt if one is due, and stop."""
        with self._mutex:
            self._closed.set()
            if self._waiting:
                self._finish()


Row = tuple[Any, ...]
Answer = TypeVar("Answer")


class StreamRow(NamedTuple):
    """What the table `streams` says about a stream."""

    kind: str = ""  # of its rows; empty before the first record
    records: int = 0
    done: int = 0


class Head(NamedTuple):
    """The only row of the table `state`, and the table `streams`, as they are stored."""

    config: str
    settings: str
    committed: int
    arrived: str | None
    sums: str
    seal: str  # covers all the rest
    streams: tuple[Row, ...]  # in the order of their names

    def digest(self) -> str:
        """The seal that it should have."""
        return digest([list(self[:5]), [list(row) for row in self.streams]])

    def table_sums(self) -> Sums:
        """The sums of the tables, as of the last transaction."""
        with readable("the sums of the tables"):
            return Sums(self.sums)

    def of_stream(self, stream: str) -> StreamRow:
        """The row of a stream, parsed."""
        for name, kind, records, done in self.streams:
            if name == stream:
                if not kind:
                    raise ValueError(stream)
                return StreamRow(str(kind), int(records), int(done))
        return StreamRow()


class Totals(NamedTuple):
    """How much the tables have that only grow."""

    steps: int  # the number of the newest step; 0 before the first
    newest_fit: int  # its number; -1 before the first
    releases: int
    erasures: int
    stopped: int  # steps that stopped the state before its settings were corrected


TOTALS = """SELECT
    (SELECT coalesce(max(number), 0) FROM steps), (SELECT coalesce(max(number), -1) FROM fits),
    (SELECT coalesce(max(release), -1) + 1 FROM fits), (SELECT count(*) FROM erasures),
    (SELECT count(*) FROM stopped)"""

SET_STATE = (
    "UPDATE state SET config = ?, settings = ?, committed = ?, arrived = ?, sums = ?, seal = ?"
)

SET_STREAM = """
INSERT INTO streams VALUES (?, ?, ?, ?) ON CONFLICT (stream) DO UPDATE
SET kind = excluded.kind, count = excluded.count, done = excluded.done
"""


class StateDatabase:
    """All access to a state's database goes through this class.

    The process that holds the lock remembers what it has read (`head`, `totals`, `fact`) until it
    writes to the table, or a transaction fails. Nobody else may write meanwhile. What checks a
    state (`snapshot`, `read_head`, `one`, `rows`) asks the database every time.
    """

    def __init__(self, folder: Path, db: Database) -> None:
        self.folder, self.db = folder, db
        self.lock: Lock | NotLocked = NotLocked()  # held while the state is open for writing
        self.ready = False  # whether its tables have the newest layout
        self.sums = Sums()  # of the current transaction
        self.witness: Witness | None = None  # read from the file `lock` before the last snapshot
        self._mutex = threading.RLock()
        self._facts: dict[Row, Any] = {}  # answers to queries, and the head; see `_remembered`
        self._looking = False  # whether all reads see one snapshot
        self.scrubbing = Scrubbing(self._mutex, self._scrub)

    def _scrub(self) -> bool:
        return self.db.scrub()

    def close(self) -> None:
        """Close the state once the thread that uses the database has finished."""
        with self._mutex:
            self.scrubbing.close()
            self.db.close()
            self.lock.close()
            self.lock = NotLocked()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Use the database exclusively; raise its errors and the disk's as one-line StoreErrors."""
        try:
            with self._mutex:
                yield
        except OSError as error:
            if self.folder.is_file():
                raise StoreError(f"{self.folder} is a file: name a state folder") from error
            if self.lock.held and not self.folder.exists():
                gone = f"{self.folder} is gone, and with it the record of what was paid"
                raise StoreError(f"{gone}: {RESTORE}") from error
            where = error.filename or self.folder
            raise StoreError(
                f"{where}: {error.strerror or error}; the state is intact: "
                "check free space and write permission, then try again"
            ) from error
        except UnicodeDecodeError as error:  # SQLite quotes a name that is damaged
            raise StoreError(f"{self.db.where}: its tables are damaged: {RESTORE}") from error
        except self.db.errors as error:
            reopen = "fix the cause, then open the state again"
            advice = RESTORE if self.db.damaged(error) else reopen
            message = self.db.message(error)
            if self.db.lost:
                self.close()
            raise StoreError(f"{self.db.where}: {message}; {advice}") from error

    def check_writable(self) -> None:
        """Refuse to write to a state that is closed or open for reading only."""
        if not self.lock.held:
            closed = "is closed or open for reading only: open it again for writing"
            raise StoreError(f"{self.folder} {closed}")

    @contextmanager
    def transaction(self, name: str) -> Iterator[None]:
        """A transaction, durable when it ends.

        A database error closes the state: only the recovery at the next opening can tell whether a
        failed commit reached the disk.
        """
        with self.explained():
            self.check_writable()
            try:
                self.db.begin()
                self._looking = False  # or the database would not have begun
                if not self.ready:  # a migration changes its tables
                    self._facts.clear()
                self.sums = self.head.table_sums() if self.ready else Sums()
                yield
                committed = self._seal()
                failpoint(f"{name}.commit")
                self.db.commit()
            except self.db.errors:
                self.close()
                raise
            except BaseException:
                self._facts.clear()  # what is rolled back was never there
                self.db.rollback()
                raise
            with suppress(OSError):  # only a second record; the commit is durable
                self.lock.witness(committed)
        failpoint(f"{name}.done")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A context in which all reads see one moment, whatever another process writes."""
        self.witness = witness_of(self.folder)  # first: a gate may commit more meanwhile
        with self.explained():
            self.db.begin_reading()
            self._looking = True
        try:
            yield
        finally:
            self._looking = False
            with suppress(self.db.errors):
                self.db.rollback()

    def _seal(self) -> int:
        """Within a transaction, write the head with its new seal; the number of transactions."""
        unsealed = self.head._replace(committed=self.head.committed + 1, sums=self.sums.text())
        head = unsealed._replace(seal=unsealed.digest())
        self.head = head
        self.db.execute(SET_STATE, head[:6])
        return head.committed

    def read_head(self) -> Head:
        """The head as it is stored now."""
        with self.explained():
            state = self.one("SELECT config, settings, committed, arrived, sums, seal FROM state")
            streams = self.db.execute("SELECT * FROM streams ORDER BY stream").fetchall()
        return Head(*(*state, tuple(map(tuple, streams))))

    @property
    def head(self) -> Head:
        """The head; within a transaction, as it will be stored at the end."""
        return self._remembered(("head",), self.read_head)

    @head.setter
    def head(self, head: Head) -> None:
        self._facts["head",] = head

    def set_stream(self, stream: str, row: StreamRow) -> None:
        """Within a transaction, change the row of a stream, or add it."""
        others = [each for each in self.head.streams if each[0] != stream]
        self.head = self.head._replace(streams=tuple(sorted([*others, (stream, *row)])))
        self.db.execute(SET_STREAM, (stream, *row))

    def of_stream(self, stream: str) -> StreamRow:
        """What is known about a stream."""
        with readable(f"what the database says about {stream}"):
            return self.head.of_stream(stream)

    @property
    def totals(self) -> Totals:
        """How much the tables have that only grow."""
        return Totals(*self.fact(TOTALS))

    def one(self, query: str, *values: Any) -> Any:
        """The first row of a result; None if it is empty."""
        with self.explained():
            return self.db.execute(query, values).fetchone()

    def fact(self, query: str, *values: Any) -> Any:
        """Like `one`, for what only the process that holds the lock changes."""
        return self._remembered((query, *values), partial(self.one, query, *values))

    def _remembered(self, what: Row, read: Callable[[], Answer]) -> Answer:
        """An answer of the database, which only the process that holds the lock remembers."""
        with self.explained():
            if self._looking or not self.lock.held:
                return read()
            if what not in self._facts:
                self._facts[what] = read()
            found: Answer = self._facts[what]
            return found

    def _changed(self, table: str) -> None:
        """Forget what was read from a table, because it changes."""
        named = re.compile(rf"\b{table}\b")
        for what in [each for each in self._facts if named.search(each[0])]:
            del self._facts[what]

    def rows(self, table: str, where: str, *values: Any) -> list[Any]:
        """Select rows of a table that has a sum."""
        query = f"SELECT {COLUMNS[table]} FROM {table} WHERE {where}"  # noqa: S608
        with self.explained():
            rows: list[Any] = self.db.execute(query, values).fetchall()
            return rows

    def kept(self, table: str, where: str, *values: Any) -> list[Any]:
        """Like `rows`, for what only the process that holds the lock changes."""
        select = partial(self.rows, table, where, *values)
        return self._remembered((f"{table} {where}", *values), select)

    def clear(self, table: str) -> None:
        """Within a transaction, delete all rows of a table that has no sum."""
        self._changed(table)
        self.db.execute(f"DELETE FROM {table}")  # noqa: S608

    def delete(self, table: str, where: str, *values: Any) -> list[Any]:
        """Within a transaction, delete and return rows of a table that has a sum."""
        if rows := self.rows(table, where, *values):
            self._changed(table)
            self.sums.remove(table, rows)
            self.db.execute(f"DELETE FROM {table} WHERE {where}", values)  # noqa: S608
        return rows

    def update(self, table: str, where: str, *values: Any, **changes: Any) -> list[Any]:
        """Within a transaction, change columns of a table that has a sum; return the old rows."""
        if rows := self.rows(table, where, *values):
            self._changed(table)
            columns = COLUMNS[table].split(", ")
            self.sums.remove(table, rows)
            self.sums.add(
                table,
                (
                    [changes.get(column, kept) for column, kept in zip(columns, row, strict=True)]
                    for row in rows
                ),
            )
            setting = ", ".join(f"{column} = ?" for column in changes)
            query = f"UPDATE {table} SET {setting} WHERE {where}"  # noqa: S608
            self.db.execute(query, (*changes.values(), *values))
        return rows

    def insert(self, table: str, rows: Sequence[Sequence[Any]], columns: str = "") -> None:
        """Within a transaction, add rows to a table, with all columns or those in parentheses."""
        if rows:
            self._changed(table)
            if table in COLUMNS:
                self.sums.add(table, (row[: COLUMNS[table].count(",") + 1] for row in rows))
            marks = ", ".join("?" * len(rows[0]))
            self.db.executemany(f"INSERT INTO {table} {columns} VALUES ({marks})", rows)  # noqa: S608
