"""Erasures: what is to be erased, and records without it.

Erasing destroys what the state holds of a record, or of all records of a person. The slots stay, as
unusable ones, with their owners and charges.
"""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tidegate.checks import InvalidValueError, whole
from tidegate.data.records import Owners, Records, zeroed
from tidegate.data.rows import Rows
from tidegate.schedule import Span

ERASED = ""
"""The reason of an erased slot in the quarantine; shorter than any other, see `SqliteDatabase`."""

Chosen = NDArray[np.bool_]


class Target(Protocol):
    """What an erasure is about."""

    @property
    def kind(self) -> str:
        """What it is called in the line of the erasure."""

    def touches(self, stream: str, span: Span) -> bool:
        """Whether a segment has to be read."""

    def chosen(self, span: Span, records: Records) -> Chosen:
        """Which slots of a segment are to be erased."""

    @property
    def slot(self) -> tuple[str, int] | None:
        """The stream and the slot, if it is only one."""


@dataclass(frozen=True)
class OneRecord:
    """One record, by its slot. See `Target`."""

    stream: str
    number: int
    kind = "record"

    def touches(self, stream: str, span: Span) -> bool:
        """See `Target`."""
        return stream == self.stream and span.start <= self.number < span.stop

    def chosen(self, span: Span, records: Records) -> Chosen:
        """See `Target`."""
        slots: Chosen = np.arange(records.n) == self.number - span.start
        return slots

    @property
    def slot(self) -> tuple[str, int]:
        """See `Target`."""
        return self.stream, self.number


def one_record(stream: str, number: object, count: int) -> OneRecord:
    """One of the records that a stream has so far; refuse a number that it does not have."""
    if not count:
        raise InvalidValueError(f"{stream} has no record yet: there is nothing to erase")
    return OneRecord(stream, whole("record", number, least=0, most=count - 1))


@dataclass(frozen=True, eq=False)
class OnePerson:
    """All records of one person, by the keyed id, of shape (1, 2). See `Target`."""

    owner: Owners
    kind = "person"
    slot = None

    def touches(self, stream: str, span: Span) -> bool:
        """See `Target`: any segment may hold some."""
        del stream
        return span.size > 0

    def chosen(self, span: Span, records: Records) -> Chosen:
        """See `Target`."""
        if records.owners is None or not self.owner.any():  # nobody's
            return np.zeros(span.size, np.bool_)
        slots: Chosen = (records.owners == self.owner).all(axis=1)
        return slots


def erased(records: Records, slots: Chosen) -> Records:
    """Records without the content of some slots: zeros, the first class, unusable.

    >>> one = Records(np.ones((3, 1)), np.ones(3, np.intp), np.ones(3, np.bool_))
    >>> less = erased(one, np.array([False, True, False]))
    >>> less.X.tolist(), less.y.tolist(), less.usable.tolist()
    ([[1.0], [0.0], [1.0]], [1, 0, 1], [True, False, True])
    """
    return replace(
        records,
        X=_without(records.X, slots),
        y=np.where(slots, 0, records.y),
        usable=records.usable & ~slots,
    )


def _without(rows: Rows, slots: Chosen) -> Rows:
    """Rows with some of them empty: of sparse ones not even the columns are kept."""
    if isinstance(rows, np.ndarray):
        return zeroed(rows, slots)
    lengths = np.diff(rows.indptr)
    kept = np.repeat(~slots, lengths)
    indptr = np.concatenate([[0], np.cumsum(np.where(slots, 0, lengths))])
    parts = rows.data[kept], rows.indices[kept], indptr.astype(rows.indptr.dtype)
    return csr_array(parts, shape=rows.shape)


def has_content(records: Records, slots: NDArray[np.intp]) -> bool:
    """Whether anything is left of slots that were erased."""
    some = records.take(slots)
    values = some.X if isinstance(some.X, np.ndarray) else some.X.indices
    stored = values.size if values is not some.X else np.count_nonzero(some.X)
    return bool(stored or some.y.any() or some.usable.any())


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """A finished erasure.

    Attributes:
        number: Its number, from 1.
        time: When it was made.
        kind: "record" or "person".
        slots: How many slots were erased. It is private: only the state holds it.
        hash: The digest of the history up to it, which the next release covers.
    """

    number: int
    time: str
    kind: str
    slots: int
    hash: str

    def receipt(self) -> dict[str, Any]:
        """What may be handed out: it says neither who nor how many."""
        return {"erasure": self.number, "time": self.time, "kind": self.kind, "hash": self.hash}
