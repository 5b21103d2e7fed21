"""The protocol of a source, and the batches that it yields."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError
from tidegate.features.columns import Table
from tidegate.gate.sources.absent import Absent

OTHER_SOURCE = "earlier records came from another kind of source; use that one"
"""What to do about an offset that a source cannot read."""


class SourceError(InvalidValueError):
    """A source as a whole cannot be read; the message is one line and quotes no record."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RawBatch:
    """Records as they arrived, each in its slot, ready for `tidegate.learn.intake.clean`.

    Attributes:
        X: One row per slot: numbers of shape (n, d) with NaN for missing values, texts of shape
            (n,) with None for missing ones, or a `Table` of columns of any kind.
        y: One label per slot; None or NaN if it is missing.
        arrived: Returns what arrived in a slot, as JSON text. Only the operator may see it.
        persons: The id of each slot's person as it arrived, of any type, None if it is missing;
            None if no ids are read.
        reasons: Why a slot cannot be used, for slots that could not even be parsed.
        absent: Columns that none of its records has, if they are JSON objects and some are missing.
        offset: The position after this batch; `batches(offset)` continues from there. Empty if
            the records do not come from a source.
    """

    X: Any
    y: NDArray[Any]
    arrived: Callable[[int], str]
    persons: Sequence[Any] | None = None
    reasons: Mapping[int, str] = field(default_factory=dict)
    absent: Absent | None = None
    offset: str = ""

    @property
    def n(self) -> int:
        """The number of slots."""
        return int(self.X.shape[0])


def check_columns(raw: RawBatch, where: str) -> None:
    """Refuse a first batch that lacks a column in every record, before any record is taken."""
    if raw.absent is not None:
        raise SourceError(raw.absent.in_words(where))


def checked_first(batches: Iterable[RawBatch], where: str) -> Iterator[RawBatch]:
    """The batches; refused before the first if that lacks a column in every record."""
    for index, raw in enumerate(batches):
        if index == 0:
            check_columns(raw, where)
        yield raw


def check_ids(raw: RawBatch, *, protected: bool) -> None:
    """Refuse a batch without ids if persons are protected, or with ids if records are."""
    if protected and raw.persons is None:
        wrong = "persons is missing: the configuration has [person]"
        raise InvalidValueError(f"{wrong}, so give the id of each record's person")
    if not protected and raw.persons is not None:
        wrong = "persons must not be given: the configuration has no [person]"
        raise InvalidValueError(f"{wrong}, so records are protected, not persons")


class Source(Protocol):
    """A stream of records that can be resumed at an offset."""

    @property
    def name(self) -> str:
        """The name under which its offset is kept."""

    def batches(self, offset: str | None) -> Iterator[RawBatch]:
        """The records after an offset, or all of them if it is None.

        Where a batch ends depends only on counts or on when records arrive, never on their length
        or content. The store and the fits divide records again, by counts.
        """


def joined(parts: Sequence[Any]) -> Any:
    """The records of several parts, one after the other: arrays, or tables of lists."""
    if not isinstance(parts[0], Table):
        return np.concatenate(parts)
    names = parts[0].columns
    columns = {name: [v for part in parts for v in part.columns[name]] for name in names}
    return Table(columns, sum(part.n for part in parts))


def objects(values: list[Any]) -> NDArray[np.object_]:
    """Values of any kind as a one-dimensional array.

    >>> objects([[1, 2], [3, 4]]).shape
    (2,)
    """
    return np.fromiter(values, object, len(values))  # np.array would unpack lists
