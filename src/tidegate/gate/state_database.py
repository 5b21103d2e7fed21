"""The database of an open state: used in turns, changed in transactions, covered by digests."""

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
    """The one way in and out of a state's database."""

    def __init__(self, folder: Path, db: Database) -> None:
        self.folder, self.db = folder, db
        self.lock: Lock | None = None  # held while the state is open for writing
        self.ready = False  # whether its tables are those of the newest layout
        self.sums = Sums()  # those of the transaction under way
        self.witness: Witness | None = None  # what the lock said when the last snapshot began
        self._turn = threading.RLock()
        self.scrubbing = Scrubbing(self._turn, self._scrub)

    def _scrub(self) -> bool:
        return self.db.scrub()

    def close(self) -> None:
        """Let go of the state, when who has a turn at the database is done with it."""
        with self._turn:
            self.scrubbing.close()
            self.db.close()
            if self.lock is not None:
                self.lock.close()
                self.lock = None

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Have a turn at the database; say in one line what it or the disk refused."""
        try:
            with self._turn:
                yield
        except OSError as error:
            if self.folder.is_file():
                raise StoreError(f"{self.folder} is a file: name the folder of a state") from error
            if self.lock is not None and not self.folder.exists():
                told = f"{self.folder} is gone, and with it what its records have paid"
                raise StoreError(f"{told}: {RESTORE}") from error
            where = error.filename or self.folder
            raise StoreError(
                f"{where}: {error.strerror or error}; the state is intact: "
                "see that the disk has room and the folder can be written, then do it again"
            ) from error
        except self.db.errors as error:
            again = "see to the cause, then open the state again"
            advice = RESTORE if self.db.damaged(error) else again
            told = self.db.told(error)
            if self.db.lost:
                self.close()
            raise StoreError(f"{self.db.where}: {told}; {advice}") from error

    @contextmanager
    def transaction(self, name: str) -> Iterator[None]:
        """All or nothing, durable at the end.

        After an error of the database the state is closed: whether a failed commit has reached the
        disk is known only to the recovery that the next opening does.
        """
        with self.explained():
            if self.lock is None:
                told = "is closed, or open for reading only: open it again"
                raise StoreError(f"{self.folder} {told}")
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
            with suppress(OSError):  # only a witness: what it would say is true without it
                self.lock.witness(committed)
        failpoint(f"{name}.done")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Within it all that is read is of one moment, whatever another process writes."""
        self.witness = witness_of(self.folder)  # before: a gate may go on
        with self.explained():
            self.db.begin_looking()
        try:
            yield
        finally:
            with suppress(self.db.errors):
                self.db.rollback()

    def seal(self) -> str:
        """A digest of the rows on which all else depends, beside what the database keeps."""
        state = self.one("SELECT config, settings, committed, arrived, sums FROM state")
        with self.explained():
            streams = self.db.execute("SELECT * FROM streams ORDER BY stream").fetchall()
        return digest([list(state), [list(row) for row in streams]])

    def kept_sums(self) -> Sums:
        """The sums of the tables, as the last transaction has left them."""
        with readable("the sums of the tables"):
            return Sums(self.one("SELECT sums FROM state")[0])

    def one(self, query: str, *values: Any) -> Any:
        """The first row of an answer, None if it has none."""
        with self.explained():
            return self.db.execute(query, values).fetchone()

    def of_stream(self, column: str, stream: str) -> int:
        """A number that is kept for each stream, 0 before its first record."""
        row = self.one(f"SELECT {column} FROM streams WHERE stream = ?", stream)  # noqa: S608
        return 0 if row is None else int(row[0])

    def rows(self, table: str, where: str, *values: Any) -> list[Any]:
        """Some rows of a table that has a sum."""
        query = f"SELECT {COLUMNS[table]} FROM {table} WHERE {where}"  # noqa: S608
        with self.explained():
            rows: list[Any] = self.db.execute(query, values).fetchall()
            return rows

    def delete(self, table: str, where: str, *values: Any) -> list[Any]:
        """Within a transaction, delete some rows of a table that has a sum; what they were."""
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
