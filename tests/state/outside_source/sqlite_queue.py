"""A source that no file of Tidegate knows: the rows of an SQLite table, each a JSON object."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tidegate.checks import place
from tidegate.kinds import parameter
from tidegate.sources import ConfiguredSource, RawBatch, SourceError
from tidegate.sources.broker import raw_batch_of
from tidegate.sources.configured import SourceIdentity, of_path

ROWS = "SELECT number, stamp, body FROM queue WHERE number >= ? ORDER BY number LIMIT ?"


@dataclass(frozen=True, kw_only=True)
class Queue(ConfiguredSource):
    """The rows of the table `queue`, in the order of their numbers."""

    type = "sqlite"
    about = "rows of an SQLite table"

    database: str = parameter("the file of the database", place)
    most: int = 20

    @property
    def identity(self) -> SourceIdentity:
        return of_path(Path(self.database))

    def batches(self, offset: str | None) -> Iterator[RawBatch]:
        try:
            with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as database:
                yield from self._batches(database, offset)
        except sqlite3.Error:
            raise SourceError(f"{self.database} cannot be read: check source.database") from None

    def _batches(self, database: sqlite3.Connection, offset: str | None) -> Iterator[RawBatch]:
        last, stamp = (0, None) if offset is None else json.loads(offset)
        while True:
            rows = database.execute(ROWS, (last, self.most + bool(last))).fetchall()
            if last and (not rows or rows[0][:2] != (last, stamp)):
                raise SourceError(f"row {last} of the queue is not the one that was taken")
            rows = rows[1:] if last else rows
            if not rows:
                return
            last, stamp, _ = rows[-1]
            bodies = [body.encode() for _, _, body in rows]
            yield raw_batch_of(bodies, self.columns, json.dumps([last, stamp]))
