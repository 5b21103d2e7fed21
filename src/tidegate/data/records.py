"""Records as a fit reads them: clipped, coded, each in its slot.

A learner sees the records of a fit only as `Parts`: it gives a function of one part and a function
that merges two results. There may be one part in memory (`Records`), many on disk or many on other
machines. A store may keep records packed: a few numbers for each, from which features are made when
a fit reads them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tidegate.data.rows import Rows, clip_in_place

if TYPE_CHECKING:
    from tidegate.data.columns.table import TableColumns
    from tidegate.schedule.fit import Span


Part = TypeVar("Part", covariant=True)
Result = TypeVar("Result")

MERGES = 96
"""Most merges that any one result of a pass goes through; rounding bounds depend on it."""


class Parts(Protocol[Part]):
    """The slots of a fit, cut into runs.

    A function of a part must be picklable and depend on nothing but its part.
    """

    @property
    def n(self) -> int:
        """How many slots there are, usable or not: public."""

    @property
    def d(self) -> int:
        """How many features there are."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many slots each part has: public."""

    @property
    def form(self) -> Rows:
        """An empty array of the width, dtype and kind (dense or sparse) of all parts."""

    def map(self, make: Callable[[Part], Any]) -> "Parts[Any]":
        """Apply a function to each part: once if the results fit in memory, else at each pass."""

    def fold(
        self, work: Callable[[Part], Result], merge: Callable[[Result, Result], Result]
    ) -> Result:
        """One pass: apply `work` to each part and merge the results in order, in any tree.

        No result goes through more than `MERGES` merges.
        """


def merged(results: Iterable[Result], merge: Callable[[Result, Result], Result]) -> Result:
    """Merge results in order as they arrive, in a balanced tree.

    Of k results none goes through more than 2 log2(k) + 1 merges, and about log2(k) wait at a time.

    >>> merged("abcde", lambda one, other: f"({one}{other})")
    '(((ab)(cd))e)'
    """
    waiting: list[tuple[int, Result]] = []  # each with its number of doublings
    for result in results:
        doublings = 0
        while waiting and waiting[-1][0] == doublings:
            result = merge(waiting.pop()[1], result)  # noqa: PLW2901
            doublings += 1
        waiting.append((doublings, result))
    while len(waiting) > 1:
        (_, late), (doublings, early) = waiting.pop(), waiting.pop()
        waiting.append((doublings, merge(early, late)))
    return waiting[0][1]


def total(parts: Parts[Part], work: Callable[[Part], NDArray[Any]]) -> NDArray[Any]:
    """One pass: the sum of `work` over all parts."""
    return parts.fold(work, np.add)


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How slots are cut into parts.

    Attributes:
        sizes: How many slots each part has.
        form: An empty array of the width, dtype and kind (dense or sparse) of all parts.
    """

    sizes: tuple[int, ...]
    form: Rows

    @property
    def n(self) -> int:
        """How many slots there are, usable or not: public."""
        return sum(self.sizes)

    @property
    def d(self) -> int:
        """How many features there are."""
        return int(self.form.shape[1])


@dataclass(frozen=True, kw_only=True)
class Whole(Cut, Generic[Part]):
    """One part, in memory."""

    part: Part

    def map(self, make: Callable[[Part], Any]) -> Parts[Any]:
        """See `Parts`."""
        return Whole(part=make(self.part), sizes=self.sizes, form=self.form)

    def fold(
        self, work: Callable[[Part], Result], merge: Callable[[Result, Result], Result]
    ) -> Result:
        """See `Parts`."""
        del merge
        return work(self.part)


Slots = NDArray[np.intp]
Owners = NDArray[np.uint64]
"""Keyed ids of persons, shape (n, 2)."""


@dataclass(frozen=True)
class Records:
    """A run of slots in memory; as `Parts`, it has one part: itself.

    Attributes:
        X: The features, one row per slot, each of exact norm at most the public bound. An unusable
            slot holds zeros, because 0 * NaN is not 0.
        y: The class index of each slot, or its target in units of 2^-24 of half the public range
            (`Target`); 0 if it is unusable.
        usable: Whether each slot can be used: its weight in a mean is 1, otherwise 0.
        slot_weights: The weight of each slot by its place; None if all are 1.
        owners: Whose each slot is, a keyed id of two words; (0, 0) is nobody, whose slots are
            unusable. None if records are protected, not persons.
        person_weights: What each slot counts for so that a person counts like one record; None
            if records are protected, not persons. See docs/proofs/persons.md.
    """

    X: Rows
    y: NDArray[np.intp]
    usable: NDArray[np.bool_]
    slot_weights: NDArray[np.float64] | None = None
    owners: Owners | None = None
    person_weights: NDArray[np.float64] | None = None

    @property
    def n(self) -> int:
        """How many slots there are, usable or not: public."""
        return int(self.X.shape[0])

    @property
    def sizes(self) -> tuple[int, ...]:
        """See `Parts`."""
        return (self.n,)

    @property
    def form(self) -> Rows:
        """See `Parts`."""
        return self.X[:0]

    @property
    def d(self) -> int:
        """How many features there are."""
        return int(self.X.shape[1])

    def map(self, make: Callable[["Records"], Any]) -> Parts[Any]:
        """See `Parts`."""
        return Whole(part=make(self), sizes=self.sizes, form=self.form)

    def fold(
        self, work: Callable[["Records"], Result], merge: Callable[[Result, Result], Result]
    ) -> Result:
        """See `Parts`."""
        del merge
        return work(self)

    place = None
    """See `Piece`."""

    def ahead(self) -> None:
        """See `Piece`."""

    def load(self) -> "Records":
        """See `Piece`."""
        return self

    def take(self, slots: slice | Slots) -> "Records":
        """Some of the slots."""
        more = (None if each is None else each[slots] for each in self._more)
        return Records(self.X[slots], self.y[slots], self.usable[slots], *more)

    def copy(self) -> "Records":
        """A copy of the slots in their own memory."""
        more = (None if each is None else each.copy() for each in self._more)
        return Records(self.X.copy(), self.y.copy(), self.usable.copy(), *more)

    @property
    def _more(self) -> tuple[NDArray[Any] | None, ...]:
        """What only some records have."""
        return self.slot_weights, self.owners, self.person_weights


class Piece(Protocol):
    """A run of slots that can be sent to another process and loaded there."""

    @property
    def n(self) -> int:
        """How many slots there are."""

    @property
    def place(self) -> Path | None:
        """The file that `load` reads; None if it needs no file."""

    def ahead(self) -> None:
        """Start fetching the data for `load`, without waiting."""

    def load(self) -> Records:
        """The slots."""


@dataclass(frozen=True)
class PieceOf:
    """A piece made of another one; subclasses say what `load` does."""

    piece: Piece

    @property
    def n(self) -> int:
        """See `Piece`."""
        return self.piece.n

    @property
    def place(self) -> Path | None:
        """See `Piece`."""
        return self.piece.place

    def ahead(self) -> None:
        """See `Piece`."""
        self.piece.ahead()


def chosen(run: "Span", span: "Span", slots: Slots | None = None) -> slice | Slots:
    """The slots of a run that are in a span (or among some slots of it), from the run's start.

    >>> from tidegate.schedule import Span
    >>> chosen(Span(10, 14), Span(12, 20))
    slice(2, 4, None)
    >>> chosen(Span(10, 14), Span(12, 20), np.array([1, 5]))
    array([3])
    """
    if slots is None:
        return slice(max(span.start - run.start, 0), min(span.stop, run.stop) - run.start)
    first, last = np.searchsorted(slots, [run.start - span.start, run.stop - span.start])
    return slots[first:last] + (span.start - run.start)


def join(parts: Sequence[Records]) -> Records:
    """Concatenate runs of slots; a single run is not copied."""
    if len(parts) == 1:
        return parts[0]
    rows = [part.X for part in parts]
    stacked = sparse.vstack(rows, format="csr") if sparse.issparse(rows[0]) else np.vstack(rows)
    more = zip(*(part._more for part in parts), strict=True)
    return Records(
        stacked,
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.usable for part in parts]),
        *(None if all(x is None for x in each) else np.concatenate(each) for each in more),
    )


def zeroed(rows: Rows, slots: NDArray[np.bool_]) -> Rows:
    """A copy of the rows with the given slots set to zero; without slots, the rows themselves."""
    if not slots.any():
        return rows
    if isinstance(rows, np.ndarray):
        return np.where(slots[:, None], rows.dtype.type(0), rows)
    kept = rows.copy()
    kept.data[np.repeat(slots, np.diff(rows.indptr))] = 0
    return kept


# --- packed records


class NotPacked:
    """Records that a store keeps as they are read: nothing is packed."""

    columns = None
    """The columns of packed records: none."""

    def rows(self, rows: Rows) -> Rows:
        """The features of stored rows: the rows."""
        return rows

    def records(self, records: Records) -> Records:
        """The records of stored ones: the same."""
        return records

    def pieces(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """The pieces of stored ones: the same."""
        return pieces


NOT_PACKED = NotPacked()


@dataclass(frozen=True, kw_only=True, eq=False)
class Packing:
    """How packed records become records: those that a store keeps take far less space.

    Attributes:
        columns: Their columns, all of whose features together are dense.
        norm: The public bound on the norm of every record.
        dtype: The dtype of features.
    """

    columns: "TableColumns"
    norm: float
    dtype: str = "float32"

    def rows(self, packed: NDArray[np.float32]) -> NDArray[np.floating]:
        """The features of packed rows, each within the norm, whatever its numbers are."""
        rows = self.columns.unpack(packed).astype(self.dtype, copy=False)
        if rows.size and self.norm < self.columns.norm:
            clip_in_place(rows, self.norm)
        return rows

    def records(self, packed: Records) -> Records:
        """The records; the features of an unusable one are zero."""
        return replace(packed, X=zeroed(self.rows(packed.X), ~packed.usable))

    def pieces(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """Pieces of records, made of pieces of packed ones."""
        return [PackedPiece(piece, self) for piece in pieces]


@dataclass(frozen=True)
class PackedPiece(PieceOf):
    """A piece of packed records, whose features are made when it is loaded."""

    packing: Packing

    def load(self) -> Records:
        """See `Piece`."""
        return self.packing.records(self.piece.load())
