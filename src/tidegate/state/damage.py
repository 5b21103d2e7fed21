"""Damage to a state: how it is reported, and the digests that reveal edits of the database.

There are two kinds of digests. Each table has a sum of its rows' digests, in any order, which
changes with every row that is added, removed or changed. Steps and fits are only ever added and
form a history: each digest covers all before it. Every card contains the digest of the history
before its fit. So the hash of a release covers everything that was charged, evaluated and made
before it.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from tidegate.checks import InvalidValueError, StoreError, json_of
from tidegate.release.card import canonical

RESTORE = "restore it from a copy, see docs/store.md"
DAMAGED = f"checksum mismatch; {RESTORE}"

UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that parsing damaged data can raise."""


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Report errors of parsing stored data as damage, in one line."""
    try:
        yield
    except InvalidValueError:  # parsed, and its own message is better
        raise
    except UNREADABLE as error:
        raise StoreError(f"{what} is damaged: {RESTORE}") from error


@dataclass(frozen=True)
class Problem:
    """A problem that `verify` found."""

    where: str  # the file, fit or stream
    what: str  # what is wrong, and what to do


def damage(where: str, what: str) -> Problem:
    """A problem whose repair is to restore a copy."""
    return Problem(where, f"{what}: {RESTORE}")


def reported(
    where: str,
    problems: Iterator[Problem],
    explained: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Iterator[Problem]:
    """Yield problems; end with one more if reading fails on the way."""
    try:
        with readable(where), explained():
            yield from problems
    except StoreError as error:
        yield Problem(where, str(error))


BEGINNING = "0" * 64
"""The digest of the history before the first step."""

HISTORY = "history_sha256"
"""The card key of the digest of the history before the fit."""

SETTINGS = "privacy_settings_sha256"
"""The card key of the digest of the settings that affect privacy."""

COLUMNS = {
    "segments": "stream, start, stop, size, checksum, file",  # the checksum covers the data
    "quarantine": "stream, slot, reason, payload",
    "offsets": "source, stream, records, place, seal",
    "arrivals": "stream, start, stop, source",
    "keys": "stream, name",
    "published": "release, files",
    "dropped": "number, norm",
    "stopped": (
        "number, settings, stream, start, stop, sources, survey_share, survey, history, persons"
    ),
    "person_key": "digest",
    "persons": "level, part, first, last, entries, digest",  # the digest covers the data
    "admitted": "stream, start, stop, digest",
    "erasures": "number, time, kind, place, slots, segments, salt, history",
}
"""The columns of each table that has a sum."""


class Sums:
    """The sums of all tables, 32 bytes each.

    Args:
        text: Sums in the form of `text()`; a table without rows may be missing.

    >>> sums = Sums()
    >>> sums.add("keys", [("records", "monday"), ("records", "tuesday")])
    >>> sums.remove("keys", [("records", "monday")])
    >>> sums == Sums.of({"keys": [("records", "tuesday")]})
    True
    """

    def __init__(self, text: str = "{}") -> None:
        self._sums = {table: int(total, 16) for table, total in json_of(text).items()}

    @classmethod
    def of(cls, tables: Mapping[str, Iterable[Sequence[Any]]]) -> "Sums":
        """The sums of tables with these rows."""
        sums = cls()
        for table, rows in tables.items():
            sums.add(table, rows)
        return sums

    def add(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows of a table, with the columns that `COLUMNS` lists."""
        self._sums[table] = (self[table] + sum(map(_number, rows))) % 2**256

    def remove(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Subtract rows of a table."""
        self._sums[table] = (self[table] - sum(map(_number, rows))) % 2**256

    def __getitem__(self, table: str) -> int:
        return self._sums.get(table, 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sums) and all(self[each] == other[each] for each in COLUMNS)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def text(self) -> str:
        """The sums as JSON, as the state stores them."""
        return canonical({table: f"{total:064x}" for table, total in self._sums.items() if total})


def _number(row: Sequence[Any]) -> int:
    return int(digest(list(row)), 16)


def digest(value: object) -> str:
    """The SHA-256 of a JSON value, as hexadecimal text."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def text_digest(text: str) -> str:
    """The SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def after(history: str, row: Sequence[Any]) -> str:
    """The digest of the history after one more fit, or one more step.

    Args:
        history: The digest before it.
        row: The columns `store.FIT` of a fit, with slot weights written out, or the columns
            `store.STEP` of a step, after all of its fits.
    """
    return digest([history, *row])
