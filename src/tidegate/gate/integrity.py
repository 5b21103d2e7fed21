"""Digests that show whether what a database holds is what was written to it.

Two kinds. The rows of a table in any order have a sum, which changes with every row that is added,
removed or altered. Steps and fits, which are only ever added, form a history: each digest covers
all before it, and every card names the digest of the history before its fit, so that the hash of a
release vouches for all that was charged, evaluated and made before it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tidegate.release import canonical

BEGINNING = "0" * 64
"""The history before the first step."""

HISTORY = "history_sha256"
"""What cards call the digest of all that was done before their fit."""

SETTINGS = "privacy_settings_sha256"
"""What cards call the digest of the settings that shape privacy, as they were first written."""

COLUMNS = {
    "segments": "stream, start, stop, size, checksum, file",  # the checksum is that of the data
    "quarantine": "stream, slot, reason, payload",
    "offsets": "source, stream, records, place, seal",
    "arrivals": "stream, start, stop, source",
    "keys": "stream, name",
    "published": "release, files",
    "dropped": "number, norm",
}
"""The columns of each table that has a sum."""


class Sums:
    """The sums of all tables: what each should hold, in 32 bytes.

    Args:
        known: The sums as `text` has written them; none for tables without a row.

    >>> sums = Sums()
    >>> sums.add("keys", [("records", "monday"), ("records", "tuesday")])
    >>> sums.remove("keys", [("records", "monday")])
    >>> sums == Sums.of({"keys": [("records", "tuesday")]})
    True
    """

    def __init__(self, known: str = "{}") -> None:
        self._sums = {table: int(text, 16) for table, text in json.loads(known).items()}

    @classmethod
    def of(cls, tables: Mapping[str, Iterable[Sequence[Any]]]) -> "Sums":
        """The sums of tables with these rows."""
        sums = cls()
        for table, rows in tables.items():
            sums.add(table, rows)
        return sums

    def add(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Rows have come into a table; each has the columns that `COLUMNS` names."""
        self._sums[table] = (self[table] + sum(map(_number, rows))) % 2**256

    def remove(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Rows have left a table."""
        self._sums[table] = (self[table] - sum(map(_number, rows))) % 2**256

    def __getitem__(self, table: str) -> int:
        return self._sums.get(table, 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sums) and all(self[each] == other[each] for each in COLUMNS)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def text(self) -> str:
        """The sums as the state keeps them."""
        return canonical({table: f"{total:064x}" for table, total in self._sums.items() if total})


def _number(row: Sequence[Any]) -> int:
    return int(digest(list(row)), 16)


def digest(value: object) -> str:
    """The SHA-256 of a value that JSON has, as hexadecimal text."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def text_digest(text: str) -> str:
    """The SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def after(history: str, row: Sequence[Any]) -> str:
    """The history after a fit, or after a step whose fits are in it already.

    Args:
        history: The digest before it.
        row: Of a fit, what `layout.FIT` names, fit and card with their slot weights; of a step,
            what `layout.STEP` names.
    """
    return digest([history, *row])
