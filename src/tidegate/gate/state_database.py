"""The database of an open state, with its locking, transactions and digests."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tidegate.checks import StoreError
from tidegate.gate.database import Database
from tidegate.gate.failpoints import failpoint
from tidegate.gate.integrity import COLUMNS, Sums, digest
from tidegate.gate.lock import Lock, Witness, witness_of
from tidegate.gate.scrubbing import Scrubbing
from tidegate.gate.store import RESTORE, readable


class StateDatabase:
    """All access to a state's database goes through this class."""

    def __init__(self, folder: Path, db: Database) -> None:
        self.folder, self.db = folder, db
        self.lock: Lock | None = None  # held while the state is open for writing
        self.ready = False  # whether its tables have the newest layout
        self.sums = Sums()  # of the current transaction
        self.witness: Witness | None = None  # read from the file `lock` before the last snapshot
        self._mutex = threading.RLock()
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
                self.db.begin()
                self.sums = self.kept_sums() if self.ready else Sums()
                yield
                values = (self.sums.text(),)
                self.db.execute("UPDATE state SET committed = committed + 1, sums = ?", values)
                self.db.execute("UPDATE state SET seal = ?", (self.seal(),))
                committed = self.one("SELECT committed FROM state")[0]
                failpoint(f"{name}.commit")
                self.db.commit()
            except self.db.errors:
                self.close()
                raise
            except BaseException:
                self.db.rollback()
                raise
            with suppress(OSError):  # only a second record; the commit is durable
                lock.witness(committed)
        failpoint(f"{name}.done")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A context in which all reads see one moment, whatever another process writes."""
        self.witness = witness_of(self.folder)  # first: a gate may commit more meanwhile
        with self.explained():
            self.db.begin_reading()
        try:
            yield
        finally:
            with suppress(self.db.errors):
                self.db.rollback()

    def seal(self) -> str:
        """The digest of the rows of `state` and `streams`, computed now."""
        state = self.one("SELECT config, settings, committed, arrived, sums FROM state")
        with self.explained():
            streams = self.db.execute("SELECT * FROM streams ORDER BY stream").fetchall()
        return digest([list(state), [list(row) for row in streams]])

    def kept_sums(self) -> Sums:
        """The stored sums of the tables, as of the last transaction."""
        with readable("the sums of the tables"):
            return Sums(self.one("SELECT sums FROM state")[0])

    def one(self, query: str, *values: Any) -> Any:
        """The first row of a result; None if it is empty."""
        with self.explained():
            return self.db.execute(query, values).fetchone()

    def of_stream(self, column: str, stream: str) -> int:
        """A number of the table `streams`; 0 before the stream's first record."""
        row = self.one(f"SELECT {column} FROM streams WHERE stream = ?", stream)  # noqa: S608
        return 0 if row is None else int(row[0])

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
