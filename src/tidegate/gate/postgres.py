"""PostgreSQL: the database on a server, where a team's backups are; a schema for each state."""

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from tidegate.checks import InvalidValueError, StoreError
from tidegate.gate.database import Database

# what it logs of a lost connection is raised as well; Python would print it for want of a handler
logging.getLogger("psycopg").addHandler(logging.NullHandler())

PATIENCE = 2
"""Seconds that a session of a gate that was killed may take to end."""

SETTINGS = {
    "synchronous_commit": "on",
    "client_encoding": "UTF8",
    # nothing that an operator has set for others may end a gate that waits for records
    "statement_timeout": "0",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    # of a gate that is out of reach the server knows after a minute, and lets go of its lock
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}
KEEPALIVES = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""The same on our side, but for what the URL says."""

TYPES = {
    "INTEGER": "BIGINT",
    "BLOB": "BYTEA",
    "REAL": "DOUBLE PRECISION",
    "TEXT": 'TEXT COLLATE "C"',
    " WITHOUT ROWID": "",
}
"""The types of SQLite."""


class PostgresDatabase:
    """See `Database`.

    Args:
        url: The server and its database, without a password: libpq finds that.
        schema: What holds the tables; one for each state.
        writes: Whether it is opened to write: then nobody else can, from anywhere.
    """

    errors: type[Exception] = psycopg.Error
    pad = b""
    _connection: psycopg.Connection[Any]

    def __init__(self, url: str, schema: str, *, writes: bool) -> None:
        self._url, self._schema, self._writes = url, schema, writes
        self.name, self.where = f"schema {schema}", f"{url} (schema {schema})"

    def connect(self) -> None:
        """Get hold of it."""
        named = {"application_name": "tidegate"}
        how: dict[str, Any] = {**KEEPALIVES, **named, **conninfo_to_dict(self._url)}
        self._connection = psycopg.connect(**how, autocommit=True)
        self._set(SETTINGS | {"search_path": self._schema})
        if self._writes:
            self._check_durable()
            self._lock()
        else:
            self._set({"default_transaction_read_only": "on"})

    def _set(self, settings: dict[str, str]) -> None:
        """Settings of this session; those that an older server does not know are left out."""
        query = "SELECT set_config(name, ?, false) FROM pg_settings WHERE name = ?"
        self.executemany(query, [(value, name) for name, value in settings.items()])

    def _check_durable(self) -> None:
        if self.execute("SELECT pg_is_in_recovery()").fetchone()[0]:
            told = "is a standby, which may lag behind what was committed"
            raise StoreError(f"{self.where} {told}: name the server that can be written to")
        for name in ("fsync", "full_page_writes"):
            if self.execute("SELECT current_setting(?)", (name,)).fetchone()[0] == "off":
                told = "would lose what it has committed: set its server's"
                raise StoreError(f"{self.where} {told} {name} to on")

    def _lock(self) -> None:
        """Held by this session: also who has lost his may still be committing, until it ends."""
        name = f"tidegate {self._schema}".encode()
        key = int.from_bytes(hashlib.sha256(name).digest()[:8], signed=True)
        self._set({"lock_timeout": f"{PATIENCE}s"})
        try:
            self.execute("SELECT pg_advisory_lock(?::bigint)", (key,))
        except psycopg.errors.LockNotAvailable:
            raise StoreError(f"{self.where} is in use by another gate: stop that first") from None
        self._set({"lock_timeout": "0"})

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        """Ask or tell something."""
        _check_texts(values)
        return self._connection.execute(_ours(query), values or None, binary=True)

    def executemany(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        """Tell the same of many rows."""
        rows = list(rows)
        for row in rows:
            _check_texts(row)
        with self._connection.cursor() as cursor:
            cursor.executemany(_ours(query), rows)

    def layout(self) -> int:
        """The version of the layout, 0 before `create`."""
        known = "SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = 'layout'"
        if self.execute(known, (self._schema,)).fetchone() is None:
            return 0
        return int(self.execute("SELECT version FROM layout").fetchone()[0])

    def create(self, schema: str, layout: int) -> None:
        """Within a transaction, make all tables."""
        (encoding,) = self.execute("SELECT current_setting('server_encoding')").fetchone()
        if encoding != "UTF8":
            raise StoreError(f"{self.where} keeps text in {encoding}: make a database in UTF8")
        self.execute(f"CREATE SCHEMA {self._schema}")
        self.execute("CREATE TABLE layout (version BIGINT NOT NULL)")
        self.execute("INSERT INTO layout VALUES (?)", (layout,))
        self.define(schema)

    def define(self, schema: str) -> None:
        """Within a transaction, make some tables."""
        for theirs, ours in TYPES.items():
            schema = schema.replace(theirs, ours)
        for statement in schema.split(";"):
            self.execute(statement)

    def keep_layout(self, layout: int) -> None:
        """Within a transaction, keep another version of the layout."""
        self.execute("UPDATE layout SET version = ?", (layout,))

    def schema(self) -> list[str] | None:
        """Nothing: the server keeps tables, not how they were made."""
        return None

    def begin(self) -> None:
        """Begin a transaction that writes."""
        self._begin("READ COMMITTED READ WRITE")

    def begin_looking(self) -> None:
        """Begin one that only reads, and sees what there was at its start."""
        self._begin("REPEATABLE READ READ ONLY")
        self.layout()  # it begins when it first reads

    def _begin(self, how: str) -> None:
        if self._connection.info.transaction_status == TransactionStatus.INTRANS:
            raise psycopg.ProgrammingError("a transaction is under way")  # or it would join that
        self.execute(f"BEGIN ISOLATION LEVEL {how}")

    def commit(self) -> None:
        """Make a transaction durable."""
        told = self.execute("COMMIT").statusmessage
        if told != "COMMIT":  # what had failed is undone then, which is no error to the server
            raise psycopg.InternalError("the transaction had failed before")

    def scrub(self) -> bool:
        """Nothing: what a server keeps of deleted rows, and until when, its operator decides."""
        return True

    def problems(self) -> Iterator[str]:
        """Nothing: the server verifies its pages as they are read, if it was set up to."""
        yield from ()

    def told(self, error: Exception) -> str:
        """What an error says, in one line: the server's details would quote a row."""
        known = error.diag.message_primary if isinstance(error, psycopg.Error) else None
        return " ".join((known or str(error)).split())

    def damaged(self, error: Exception) -> bool:
        """Whether an error says that what was written can no longer be read."""
        return isinstance(error, psycopg.errors.DataCorrupted | psycopg.errors.IndexCorrupted)

    @property
    def lost(self) -> bool:
        """Whether the server can no longer be asked by this connection."""
        return not hasattr(self, "_connection") or self._connection.closed

    def beside(self) -> Database:
        """Another connection to look with."""
        database = PostgresDatabase(self._url, self._schema, writes=False)
        database.connect()
        return database

    def rollback(self) -> None:
        """Undo a transaction, if one is begun."""
        self._connection.rollback()

    def close(self) -> None:
        """Let go of it, if it was got hold of."""
        if hasattr(self, "_connection"):
            self._connection.close()


def _ours(query: str) -> bytes:
    """A query with the marks for values that psycopg has."""
    return query.replace("?", "%s").encode()


def _check_texts(values: Sequence[Any]) -> None:
    """Refuse what PostgreSQL cannot keep before it does, which would end the transaction."""
    if any(isinstance(value, str) and "\0" in value for value in values):
        raise InvalidValueError("PostgreSQL keeps no text with a NUL character: send another name")
