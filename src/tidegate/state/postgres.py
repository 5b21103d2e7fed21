"""The database of a state on a PostgreSQL server, with a schema for each state."""

import hashlib
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from tidegate.checks import InvalidValueError, StoreError
from tidegate.state.database import Database

# psycopg logs and raises a lost connection; without a handler Python would print the log line
logging.getLogger("psycopg").addHandler(logging.NullHandler())

PATIENCE = 2
"""Seconds to wait for the session of a killed gate to end."""

SETTINGS = {
    "synchronous_commit": "on",
    "client_encoding": "UTF8",
    # no timeout of the server may end a gate that waits for records
    "statement_timeout": "0",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    # the server notices an unreachable gate after a minute and releases its lock
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
"""The same for the client; the URL can override them."""

TYPES = {
    "INTEGER": "BIGINT",
    "BLOB": "BYTEA",
    "REAL": "DOUBLE PRECISION",
    "TEXT": 'TEXT COLLATE "C"',
    " WITHOUT ROWID": "",
}
"""SQLite types and syntax, with their PostgreSQL equivalents."""


class PostgresDatabase(Database):
    """See `Database`.

    The server's operator decides when deleted rows are erased, and it can verify its pages itself
    (`initdb --data-checksums`). It does not store CREATE statements.

    Args:
        url: The server and its database, without a password; libpq finds that elsewhere.
        schema: The schema that holds the tables; one for each state.
        writes: Open for writing, which locks out every other writer, on any machine.
    """

    errors: type[Exception] = psycopg.Error
    pad = b""
    _connection: psycopg.Connection[Any]

    def __init__(self, url: str, schema: str, *, writes: bool) -> None:
        self._url, self._schema, self._writes = url, schema, writes
        self.name, self.where = f"schema {schema}", f"{url} (schema {schema})"

    def connect(self) -> None:
        """Connect."""
        named = {"application_name": "tidegate"}
        options: dict[str, Any] = {**KEEPALIVES, **named, **conninfo_to_dict(self._url)}
        self._connection = psycopg.connect(**options, autocommit=True)
        self._set(SETTINGS | {"search_path": self._schema})
        if self._writes:
            self._check_durable()
            self._lock()
        else:
            self._set({"default_transaction_read_only": "on"})

    def _set(self, settings: dict[str, str]) -> None:
        """Set options of this session, except those that an older server does not have."""
        query = "SELECT set_config(name, ?, false) FROM pg_settings WHERE name = ?"
        self.executemany(query, [(value, name) for name, value in settings.items()])

    def _check_durable(self) -> None:
        if self.execute("SELECT pg_is_in_recovery()").fetchone()[0]:
            lags = "is a standby, which may lag behind the primary"
            raise StoreError(f"{self.where} {lags}: name the server that can be written to")
        for name in ("fsync", "full_page_writes"):
            if self.execute("SELECT current_setting(?)", (name,)).fetchone()[0] == "off":
                unsafe = "could lose committed transactions: set its server's"
                raise StoreError(f"{self.where} {unsafe} {name} to on")

    def _lock(self) -> None:
        """Take an advisory lock, held by this session until it ends on the server."""
        name = f"tidegate {self._schema}".encode()
        key = int.from_bytes(hashlib.sha256(name).digest()[:8], signed=True)
        self._set({"lock_timeout": f"{PATIENCE}s"})
        try:
            self.execute("SELECT pg_advisory_lock(?::bigint)", (key,))
        except psycopg.errors.LockNotAvailable:
            raise StoreError(f"{self.where} is in use by another gate: stop it first") from None
        self._set({"lock_timeout": "0"})

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        """Execute a statement."""
        _check_texts(values)
        return self._connection.execute(_ours(query), values or None, binary=True)

    def executemany(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement once for each row of values."""
        rows = list(rows)
        for row in rows:
            _check_texts(row)
        with self._connection.cursor() as cursor:
            cursor.executemany(_ours(query), rows)

    def layout(self) -> int:
        """The version of the layout; 0 before `create`."""
        exists = "SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = 'layout'"
        if self.execute(exists, (self._schema,)).fetchone() is None:
            return 0
        return int(self.execute("SELECT version FROM layout").fetchone()[0])

    def create(self, schema: str, layout: int) -> None:
        """Within a transaction, create all tables."""
        (encoding,) = self.execute("SELECT current_setting('server_encoding')").fetchone()
        if encoding != "UTF8":
            raise StoreError(f"{self.where} has the encoding {encoding}: create a database in UTF8")
        self.execute(f"CREATE SCHEMA {self._schema}")
        self.execute("CREATE TABLE layout (version BIGINT NOT NULL)")
        self.execute("INSERT INTO layout VALUES (?)", (layout,))
        self.define(schema)

    def define(self, schema: str) -> None:
        """Within a transaction, execute CREATE statements."""
        for theirs, ours in TYPES.items():
            schema = schema.replace(theirs, ours)
        super().define(schema)

    def set_layout(self, layout: int) -> None:
        """Within a transaction, store a new version of the layout."""
        self.execute("UPDATE layout SET version = ?", (layout,))

    def begin(self) -> None:
        """Begin a read-write transaction."""
        self._begin("READ COMMITTED READ WRITE")

    def begin_reading(self) -> None:
        """Begin a read-only transaction on a snapshot taken now."""
        self._begin("REPEATABLE READ READ ONLY")
        self.layout()  # the first read takes the snapshot

    def _begin(self, mode: str) -> None:
        if self._connection.info.transaction_status == TransactionStatus.INTRANS:
            raise psycopg.ProgrammingError("a transaction is under way")  # it would be joined
        self.execute(f"BEGIN ISOLATION LEVEL {mode}")

    def commit(self) -> None:
        """Make a transaction durable."""
        status = self.execute("COMMIT").statusmessage
        if status != "COMMIT":  # the server rolls a failed transaction back without an error
            raise psycopg.InternalError("the transaction had failed before")

    def message(self, error: Exception) -> str:
        """The text of an error in one line, without the server's details, which quote rows."""
        primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
        return " ".join((primary or str(error)).split())

    def damaged(self, error: Exception) -> bool:
        """Whether an error means that stored data is corrupt."""
        return isinstance(error, psycopg.errors.DataCorrupted | psycopg.errors.IndexCorrupted)

    @property
    def lost(self) -> bool:
        """Whether the connection was lost."""
        return not hasattr(self, "_connection") or self._connection.closed

    def open_reader(self) -> Database:
        """A second, read-only connection."""
        database = PostgresDatabase(self._url, self._schema, writes=False)
        database.connect()
        return database

    def rollback(self) -> None:
        """Undo the transaction, if there is one."""
        self._connection.rollback()

    def close(self) -> None:
        """Close the connection, if there is one."""
        if hasattr(self, "_connection"):
            self._connection.close()


def _ours(query: str) -> bytes:
    """A query with psycopg's placeholders."""
    return query.replace("?", "%s").encode()


def _check_texts(values: Sequence[Any]) -> None:
    """Refuse text that PostgreSQL cannot store, before its error ends the transaction."""
    if any(isinstance(value, str) and "\0" in value for value in values):
        raise InvalidValueError("PostgreSQL cannot store a NUL character: use a name without one")
