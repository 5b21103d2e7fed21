"""Records as a fit reads them: clipped, coded, each in its slot."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tidegate.features.rows import Rows
from tidegate.learn.parts import Parts, Result, Whole
from tidegate.schedule import Span

Slots = NDArray[np.intp]


@dataclass(frozen=True)
class Records:
    """A run of slots in memory, which is also the one part of itself.

    Attributes:
        X: The features, one row a slot, each of exact norm at most the public bound; a slot that
            cannot be used holds zeros, for 0 times not-a-number is not 0.
        y: The class index of each slot; 0 where it cannot be used.
        usable: Whether the slot's weight is 1.
        slot_weights: What each slot counts for in a fit that says so; None if all count for 1.
    """

    X: Rows
    y: NDArray[np.intp]
    usable: NDArray[np.bool_]
    slot_weights: NDArray[np.float64] | None = None

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
        slot_weights = None if self.slot_weights is None else self.slot_weights[slots]
        return Records(self.X[slots], self.y[slots], self.usable[slots], slot_weights)

    def copy(self) -> "Records":
        """The same slots in memory of their own."""
        slot_weights = None if self.slot_weights is None else self.slot_weights.copy()
        return Records(self.X.copy(), self.y.copy(), self.usable.copy(), slot_weights)


class Piece(Protocol):
    """A run of slots that can be loaded, also in another process that it is sent to."""

    @property
    def n(self) -> int:
        """How many slots there are."""

    @property
    def place(self) -> Path | None:
        """The file that it is loaded from; None if it needs none where it is sent to."""

    def ahead(self) -> None:
        """Begin to fetch what `load` will need, and do not wait for it."""

    def load(self) -> Records:
        """The slots."""


def chosen(run: Span, span: Span, slots: Slots | None = None) -> slice | Slots:
    """Which slots of a run belong to a span, or to some of its slots: counted from the run's start.

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
    """Runs of slots one after the other; one alone is not copied."""
    if len(parts) == 1:
        return parts[0]
    rows = [part.X for part in parts]
    stacked = sparse.vstack(rows, format="csr") if sparse.issparse(rows[0]) else np.vstack(rows)
    plain = all(part.slot_weights is None for part in parts)
    return Records(
        stacked,
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.usable for part in parts]),
        None if plain else np.concatenate([part.slot_weights for part in parts]),
    )


def zeroed(rows: Rows, slots: NDArray[np.bool_]) -> Rows:
    """The rows with the given slots set to zero, the rows themselves if there are none."""
    if not slots.any():
        return rows
    if isinstance(rows, np.ndarray):
        return np.where(slots[:, None], rows.dtype.type(0), rows)
    kept = rows.copy()
    kept.data[np.repeat(slots, np.diff(rows.indptr))] = 0
    return kept
