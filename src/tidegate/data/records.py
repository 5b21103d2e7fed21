"""Records as a fit reads them: clipped, coded, each in its slot."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tidegate.data.parts import Parts, Result, Whole
from tidegate.data.rows import Rows
from tidegate.schedule.fit import Span

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


def chosen(run: Span, span: Span, slots: Slots | None = None) -> slice | Slots:
    """The slots of a run that are in a span (or among some slots of it), from the run's start.

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
