"""What the Store asks of a database: all in which SQLite and PostgreSQL differ."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol


class Database(Protocol):
    """A connection. Whoever writes is the only one to, from `connect` to `close`.

    Queries are in the SQL that both have in common, with a ? for each value.
    """

    name: str  # what `verify` calls it
    where: str  # what errors call it
    errors: type[Exception]  # what it raises when something is wrong with it
    pad: bytes  # is put before records in a row, so that nothing of them outlives the row

    def connect(self) -> None:
        """Connect."""

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        """Execute a statement; a cursor over the rows that it gives."""

    def executemany(self, query: str, rows: Iterable[Sequence[Any]]) -> object:
        """Execute a statement for each of many rows."""

    def layout(self) -> int:
        """The version of the layout, 0 before `create`."""

    def create(self, schema: str, layout: int) -> None:
        """Within a transaction, make all tables, and keep the version of their layout."""

    def define(self, schema: str) -> None:
        """Within a transaction, make some tables; their types are those of SQLite."""

    def keep_layout(self, layout: int) -> None:
        """Within a transaction, keep another version of the layout."""

    def schema(self) -> list[str] | None:
        """The statements that its tables were made with; None if it does not keep them."""

    def begin(self) -> None:
        """Begin a transaction that writes."""

    def begin_looking(self) -> None:
        """Begin one that only reads, and sees what there was at its start."""

    def commit(self) -> None:
        """Make a transaction durable; if this raises, it may have become so or not."""

    def rollback(self) -> None:
        """Undo a transaction, if one is begun."""

    def scrub(self) -> bool:
        """Leave nothing of deleted rows in its files; False if that must be tried again."""

    def problems(self) -> Iterator[str]:
        """What the database itself finds wrong with what it holds."""

    @property
    def lost(self) -> bool:
        """Whether the connection has come to an end by itself."""

    def told(self, error: Exception) -> str:
        """What an error says, in one line that quotes no row."""

    def damaged(self, error: Exception) -> bool:
        """Whether an error says that what was written can no longer be read."""

    def beside(self) -> "Database":
        """Another connection to look with, which sees what there is now."""

    def close(self) -> None:
        """Close the connection, if there is one."""
