"""The database interface of the store: everything in which SQLite and PostgreSQL differ."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol


class Database(Protocol):
    """A connection. A writer has exclusive write access from `connect` to `close`.

    Queries use the SQL that SQLite and PostgreSQL share, with a ? for each value.
    """

    name: str  # shown by `verify`
    where: str  # shown in errors
    errors: type[Exception]  # the base class of the errors that it raises
    pad: bytes  # stored before the records in a row, so that deleting the row erases them

    def connect(self) -> None:
        """Connect."""

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        """Execute a statement and return a cursor over its rows."""

    def executemany(self, query: str, rows: Iterable[Sequence[Any]]) -> object:
        """Execute a statement once for each row of values."""

    def layout(self) -> int:
        """The version of the layout; 0 before `create`."""

    def create(self, schema: str, layout: int) -> None:
        """Within a transaction, create all tables and store the version of their layout."""

    def define(self, schema: str) -> None:
        """Within a transaction, execute CREATE statements, written with the types of SQLite."""

    def set_layout(self, layout: int) -> None:
        """Within a transaction, store a new version of the layout."""

    def schema(self) -> list[str] | None:
        """The CREATE statements of its tables; None if the database does not store them."""

    def begin(self) -> None:
        """Begin a read-write transaction."""

    def begin_reading(self) -> None:
        """Begin a read-only transaction on a snapshot taken now."""

    def commit(self) -> None:
        """Make a transaction durable. If this raises, it may or may not be durable."""

    def rollback(self) -> None:
        """Undo the transaction, if there is one."""

    def scrub(self) -> bool:
        """Erase deleted rows from the files; False if that must be tried again."""

    def problems(self) -> Iterator[str]:
        """The results of the database's own integrity check."""

    @property
    def lost(self) -> bool:
        """Whether the connection was lost."""

    def message(self, error: Exception) -> str:
        """The text of an error in one line, without quoting any row."""

    def damaged(self, error: Exception) -> bool:
        """Whether an error means that stored data is corrupt."""

    def open_reader(self) -> "Database":
        """A second, read-only connection, outside any snapshot of this one."""

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
