"""The database of an open state, with its locking, transactions and digests."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tidegate.checks import StoreError
from tidegate.failpoints import failpoint
from tidegate.state.damage import RESTORE, readable
from tidegate.state.database import Database
from tidegate.state.integrity import COLUMNS, Sums, digest
from tidegate.state.lock import Lock, Witness, witness_of
from tidegate.state.scrubbing import Scrubbing


class StreamRow(NamedTuple):
    """What the table `streams` says about a stream."""

    kind: str
    records: int = 0
    done: int = 0


class StateDatabase:
    """All access to a state's database goes through this class."""

    def __init__(self, folder: Path, db: Database) -> None:
        self.folder, self.db = folder, db
        self.lock: Lock | None = None  # held while the state is open for writing
        self.ready = False  # whether its tables have the newest layout
        self.sums = Sums()  # of the current transaction
        self.witness: Witness | None = None  # read from the file `lock` before the last snapshot
        self._mutex = threading.RLock()
        self._facts: dict[tuple[Any, ...], Any] | None = {}  # None while they may change
        self.scrubbing = Scrubbing(self._mutex, self._scrub)

    def _scrub(self) -> bool:
        return self.db.scrub()

    def close(self) -> None:
        """Close the state once the thread that uses the database has finished."""
        with self._mutex:
            self.scrubbing.close()
            self.db.close()
            if self.lock is not None:
                self.lock.close()
                self.lock = None

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Use the database exclusively; raise its errors and the disk's as one-line StoreErrors."""
        try:
            with self._mutex:
                yield
        except OSError as error:
            if self.folder.is_file():
                raise StoreError(f"{self.folder} is a file: name a state folder") from error
            if self.lock is not None and not self.folder.exists():
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

    def held_lock(self) -> Lock:
        """The lock; refuse to write to a state that is closed or open for reading only."""
        if self.lock is None:
            closed = "is closed or open for reading only: open it again for writing"
            raise StoreError(f"{self.folder} {closed}")
        return self.lock

    @contextmanager
    def transaction(self, name: str) -> Iterator[None]:
        """A transaction, durable when it ends.

        A database error closes the state: only the recovery at the next opening can tell whether a
        failed commit reached the disk.
        """
        with self.explained():
            lock = self.held_lock()
            try:
                self._facts = None
                self.db.begin()
                self.sums = self.kept_sums() if self.ready else Sums()
                yield
                config, settings, committed, arrived, _ = self._sealed()
                state = [config, settings, committed + 1, arrived, self.sums.text()]
                values = (committed + 1, state[-1], self._seal(state))
                self.db.execute("UPDATE state SET committed = ?, sums = ?, seal = ?", values)
                failpoint(f"{name}.commit")
                self.db.commit()
            except self.db.errors:
                self.close()
                raise
            except BaseException:
                self.db.rollback()
                raise
            finally:
                self._facts = {}
            with suppress(OSError):  # only a second record; the commit is durable
                lock.witness(committed + 1)
        failpoint(f"{name}.done")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A context in which all reads see one moment, whatever another process writes."""
        self.witness = witness_of(self.folder)  # first: a gate may commit more meanwhile
        with self.explained():
            self._facts = None
            self.db.begin_reading()
        try:
            yield
        finally:
            with suppress(self.db.errors):
                self.db.rollback()
            self._facts = {}

    def seal(self) -> str:
        """The digest of the rows of `state` and `streams`, computed now."""
        return self._seal(list(self._sealed()))

    def _sealed(self) -> Any:
        """The row of `state` without its seal."""
        return self.one("SELECT config, settings, committed, arrived, sums FROM state")

    def _seal(self, state: list[Any]) -> str:
        with self.explained():
            streams = self.db.execute("SELECT * FROM streams ORDER BY stream").fetchall()
        return digest([state, [list(row) for row in streams]])

    def kept_sums(self) -> Sums:
        """The stored sums of the tables, as of the last transaction."""
        with readable("the sums of the tables"):
            return Sums(self.one("SELECT sums FROM state")[0])

    def one(self, query: str, *values: Any) -> Any:
        """The first row of a result; None if it is empty."""
        with self.explained():
            return self.db.execute(query, values).fetchone()

    def fact(self, query: str, *values: Any) -> Any:
        """Like `one`, for what only the process that holds the lock changes.

        It asks once between two transactions. Other processes ask every time.
        """
        with self.explained():
            if self._facts is None or self.lock is None:
                return self.one(query, *values)
            if (query, *values) not in self._facts:
                self._facts[query, *values] = self.one(query, *values)
            return self._facts[query, *values]

    def of_stream(self, stream: str) -> StreamRow | None:
        """A row of the table `streams`; None before the stream's first record."""
        row = self.fact("SELECT kind, count, done FROM streams WHERE stream = ?", stream)
        return None if row is None else StreamRow(str(row[0]), int(row[1]), int(row[2]))

    def rows(self, table: str, where: str, *values: Any) -> list[Any]:
        """Select rows of a table that has a sum."""
        query = f"SELECT {COLUMNS[table]} FROM {table} WHERE {where}"  # noqa: S608
        with self.explained():
            rows: list[Any] = self.db.execute(query, values).fetchall()
            return rows

    def delete(self, table: str, where: str, *values: Any) -> list[Any]:
        """Within a transaction, delete and return rows of a table that has a sum."""
        rows = self.rows(table, where, *values)
        self.sums.remove(table, rows)
        self.db.execute(f"DELETE FROM {table} WHERE {where}", values)  # noqa: S608
        return rows

    def insert(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Within a transaction, add rows to a table that has a sum."""
        if rows:
            self.sums.add(table, (row[: COLUMNS[table].count(",") + 1] for row in rows))
            marks = ", ".join("?" * len(rows[0]))
            self.db.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608
