"""Records as a fit reads them: clipped, coded, each in its slot."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from tidegate.checks import InvalidValueError, refuse
from tidegate.features import clip_rows
from tidegate.features.clip import clipped_and_finite
from tidegate.features.numbers import as_numbers, is_arrow_array
from tidegate.features.rows import Rows, as_rows
from tidegate.learn.parts import Parts, Result, Whole
from tidegate.privacy.rounding import down
from tidegate.schedule import SlotWeight, Span


class FeatureMap(Protocol):
    """A transformer that maps each record by itself and has learnt nothing from records."""

    def transform(self, X: Any) -> Any:
        """The features of each record, one row each."""


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


@dataclass(frozen=True)
class Emphasized:
    """A piece whose slots do not all count for 1.

    Attributes:
        piece: The slots.
        runs: How many slots in a row count for how much, in order.
    """

    piece: Piece
    runs: tuple[tuple[int, float], ...]

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

    def load(self) -> Records:
        """See `Piece`."""
        sizes, parts = zip(*self.runs, strict=True)
        return replace(self.piece.load(), slot_weights=np.repeat(parts, sizes))


def weighted(pieces: Sequence[Piece], slot_weights: Sequence[SlotWeight]) -> list[Piece]:
    """The pieces of a span with what their slots count for, rounded down.

    >>> from fractions import Fraction
    >>> run = Records(np.eye(3), np.zeros(3, np.intp), np.ones(3, np.bool_))
    >>> half, one = SlotWeight(Span(0, 4), Fraction(1, 2)), SlotWeight(Span(4, 6), Fraction(1))
    >>> [piece.load().slot_weights for piece in weighted([run, run], [half, one])]
    [array([0.5, 0.5, 0.5]), array([0.5, 1. , 1. ])]
    """
    if not slot_weights:
        return list(pieces)
    told, held = sum(span.size for span, _ in slot_weights), sum(piece.n for piece in pieces)
    if told != held:
        raise refuse("emphasis", f"that of {held} slots", told=f"that of {told}")
    left = [(span.size, down(part)) for span, part in slot_weights]
    found: list[Piece] = []
    for piece in pieces:
        runs, wanted = [], piece.n
        while wanted:
            size, part = left.pop(0)
            runs.append((min(size, wanted), part))
            if size > wanted:
                left.insert(0, (size - wanted, part))
            wanted -= min(size, wanted)
        marked = Emphasized(piece, tuple(runs))
        found.append(marked.load() if isinstance(piece, Records) else marked)
    return found


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


@dataclass(frozen=True, kw_only=True)
class Intake:
    """How the batches of a stream become records: each slot depends on its own record alone.

    A record that cannot be used (not finite, text where a number belongs, an unknown label) keeps
    its slot with weight 0. A batch is refused only for facts of the whole: shape, dtype, length.

    The first batch fixes the form in which all are stored: float32 if it is an array or a sparse
    matrix of float32 and float64 otherwise, sparse or dense.

    Args:
        norm: The public bound on the norm of every record.
        classes: The public labels, in the order of their indices; None if records have no label.
        features: Applied first, if given.
        form: No rows, but of the width, dtype and kind that all get; None before the first batch.

    >>> intake = Intake(norm=1.0, classes=["a", "b"])
    >>> records = intake.records([[3.0, 4.0], [np.nan, 0.0]], ["b", "a"])
    >>> records.X.round(9), records.y, records.usable
    (array([[0.6, 0.8],
           [0. , 0. ]]), array([1, 0]), array([ True, False]))
    """

    norm: float
    classes: Sequence[Any] | None = None
    features: FeatureMap | None = None
    form: Rows | None = None

    def records(self, X: Any, y: Any) -> Records:
        """The records of a batch.

        Args:
            X: An array, sparse matrix, or table of numbers, one record a row.
            y: A label for each record; not read without classes.
        """
        rows, usable = self._rows(X)
        codes = np.zeros(rows.shape[0], np.intp)
        if self.classes is not None:
            _check_kind(y, self.classes)
            codes = codes_of(y, self.classes)
            if codes.size != rows.shape[0]:
                raise refuse("y", f"as long as X ({rows.shape[0]})", codes.size)
            usable &= codes >= 0
        return Records(zeroed(rows, ~usable), np.where(usable, codes, 0), usable)

    def rows(self, X: Any) -> Rows:
        """The clipped features of each record; a row that cannot be used is not-a-number."""
        return self._rows(X)[0]

    def _rows(self, X: Any) -> tuple[Rows, NDArray[np.bool_]]:
        """The rows, in memory of their own, and which of them are finite."""
        if self.features is None:
            rows = as_numbers(X)
        else:
            rows = self.features.transform(X.to_pylist() if is_arrow_array(X) else X)
        form = self.form
        if form is not None and sparse.issparse(rows) != sparse.issparse(form):
            rows = rows.toarray() if sparse.issparse(rows) else sparse.csr_array(as_rows(rows))
        rows, finite = clipped_and_finite(rows, self.norm)
        _check_width(rows, None if form is None else form.shape[1])
        if form is not None and rows.dtype != form.dtype:
            # Clipped before, lest the cast overflow, and after, for it rounds.
            rows = clip_rows(rows.astype(form.dtype), self.norm)
        # A sparse result may share its indices with X, which belongs to the caller.
        return sparse.csr_array(rows, copy=True) if sparse.issparse(rows) else rows, finite

    def after(self, first: Records) -> Self:
        """The intake after the first batch, whose form all later ones take."""
        return replace(self, form=first.X[:0].copy())


def clean(
    X: Any, y: Any, *, classes: Sequence[Any], norm: float, features: FeatureMap | None = None
) -> Records:
    """The records of a batch that stands alone; see `Intake`."""
    return Intake(norm=norm, classes=classes, features=features).records(X, y)


def featurize(
    X: Any, *, norm: float, features: FeatureMap | None = None, width: int | None = None
) -> Rows:
    """The clipped features of a batch that stands alone; see `Intake`.

    Args:
        X: As in `Intake.records`.
        norm: The public bound on the norm of every record.
        features: Applied first, if given.
        width: How many features every record must have, if that is known.
    """
    rows = Intake(norm=norm, features=features).rows(X)
    _check_width(rows, width)
    return rows


@dataclass(frozen=True)
class CategoryIntake:
    """How the batches of a stream of categories become records, which have no features.

    Args:
        categories: The public values, in the order of their indices.

    >>> CategoryIntake(["mild", "severe"]).records(["severe", "none"]).usable
    array([ True, False])
    """

    categories: Sequence[Any]

    def records(self, X: Any, y: Any = None) -> Records:
        """The records of a batch: X is their values, y is not read."""
        del y
        values = as_labels(X, "X")
        if not values:
            raise refuse("X", "one record or more", told="none")
        codes = class_codes(values, self.categories)
        usable = codes >= 0
        return Records(np.zeros((codes.size, 0)), np.where(usable, codes, 0), usable)

    def after(self, first: Records) -> Self:
        """The intake after the first batch: the same."""
        del first
        return self


def _check_width(rows: Rows, width: int | None) -> None:
    if width is not None and rows.shape[1] != width:
        raise InvalidValueError(
            f"X has {rows.shape[1]} features, but {width} were expected as before"
        )


def as_labels(y: Any, name: str = "y") -> list[Any]:
    """The label of each record, as a value that does not depend on what stands beside it.

    >>> as_labels([1, "a"]), as_labels(np.array([3, 4]))
    ([1, 'a'], [3, 4])
    """
    if isinstance(y, list | tuple | range):
        return list(y)
    if is_arrow_array(y):
        return list(y.to_pylist())
    native = isinstance(getattr(y, "dtype", None), np.dtype | None)
    labels = np.asarray(y, None if native else object)  # a dtype of pandas turns ints to floats
    if isinstance(y, np.ma.MaskedArray):
        labels = labels.astype(object)
        labels[np.ma.getmaskarray(y)] = object()
    if labels.ndim == 2 and labels.shape[1] == 1:
        message = f"A column-vector {name} was passed when a 1d array was expected"
        warnings.warn(message, DataConversionWarning, stacklevel=2)
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InvalidValueError(
            f"{name} should be a 1d array, one value a record, got shape {labels.shape}"
        )
    return list(labels.tolist())


def _check_kind(y: Any, classes: Sequence[Any]) -> None:
    """Refuse labels of text for classes that are numbers, or the other way round, by their dtype.

    A dtype is a fact of the whole batch; without this every record would be unusable, in silence.
    """
    kind = getattr(getattr(y, "dtype", None), "kind", None)
    texts = [isinstance(label, str) for label in classes]
    text = kind == "U" or str(getattr(y, "dtype", "")) in {"str", "string"}  # these of pandas
    if (kind in {"b", "i", "u", "f"} and all(texts)) or (text and not any(texts)):
        wanted = "text" if all(texts) else "numbers"
        raise refuse("y", f"{wanted}, as the classes are", told=f"dtype {y.dtype}")


def codes_of(y: Any, classes: Sequence[Any]) -> NDArray[np.intp]:
    """As `class_codes`; an array of numbers is looked up as a whole where that is as exact.

    >>> codes_of(np.array([3.0, 5.0, np.nan]), [5, 3])
    array([ 1,  0, -1])
    """
    plain = (
        type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "iuf" and y.dtype.itemsize <= 8
    )
    if not plain or not all(type(label) is int and abs(label) < 2**53 for label in classes):
        return class_codes(as_labels(y), classes)
    known = np.array(classes)
    order = np.argsort(known)
    places = np.searchsorted(known[order], y).clip(max=known.size - 1)
    return np.where(known[order][places] == y, order[places], -1)


def class_codes(labels: Sequence[Any], classes: Sequence[Any]) -> NDArray[np.intp]:
    """The index of each label among the classes, -1 for one that is not among them.

    >>> class_codes([3, 5, 4, [5]], [5, 3])
    array([ 1,  0, -1, -1])
    """
    index = {label: code for code, label in enumerate(classes)}
    try:
        return np.fromiter(map(index.get, labels, repeat(-1)), np.intp, len(labels))
    except Exception:  # a label that cannot be looked up is no class
        return np.fromiter((_code(index, label) for label in labels), np.intp, len(labels))


def _code(index: dict[Any, int], label: object) -> int:
    try:
        return index.get(label, -1)
    except Exception:  # as above
        return -1


def zeroed(rows: Rows, slots: NDArray[np.bool_]) -> Rows:
    """The rows with the given slots set to zero, the rows themselves if there are none."""
    if not slots.any():
        return rows
    if isinstance(rows, np.ndarray):
        return np.where(slots[:, None], rows.dtype.type(0), rows)
    kept = rows.copy()
    kept.data[np.repeat(slots, np.diff(rows.indptr))] = 0
    return kept


class Held:
    """The records a stream still needs, in memory.

    They lie in runs, each longer than the next: a new one is joined with those before it that are
    not longer. So a record is copied once for every doubling, however small the batches are.

    >>> held = Held()
    >>> held.append(Intake(norm=9.0).records([[1.0], [2.0], [3.0]], None))
    >>> held.forget(1)
    >>> held.count, held.read(Span(1, 3)).X.ravel()
    (3, array([2., 3.]))
    """

    def __init__(self) -> None:
        self.first = 0
        self._runs: tuple[tuple[int, Records], ...] = ()  # with the slot each of them starts at

    @property
    def count(self) -> int:
        """How many records there have been, those forgotten included."""
        if not self._runs:
            return self.first
        start, newest = self._runs[-1]
        return start + newest.n

    @property
    def form(self) -> Rows:
        """No rows, but of the width, dtype and kind that all have."""
        return self._runs[0][1].form

    def append(self, records: Records) -> None:
        """Add records at the end of the stream."""
        runs = [*self._runs, (self.count, records)]
        while len(runs) > 1 and runs[-2][1].n <= runs[-1][1].n:
            (_, newest), (start, older) = runs.pop(), runs.pop()
            runs.append((start, join([older, newest])))
        self._runs = tuple(runs)  # at once: an interruption leaves the stream as it was

    def read(self, span: Span, slots: Slots | None = None) -> Records:
        """The records of a span, or some of its slots; those before `first` are forgotten."""
        return join(self.pieces(span, slots))

    def pieces(self, span: Span, slots: Slots | None = None) -> list[Records]:
        """The same, run by run."""
        if not self.first <= span.start < span.stop <= self.count:
            raise LookupError(f"{span} is not held: [{self.first}, {self.count})")
        return [
            run.take(chosen(Span(start, start + run.n), span, slots))
            for start, run in self._runs
            if start < span.stop and span.start < start + run.n
        ]

    def forget(self, before: int) -> None:
        """Drop all records before this one."""
        if before > self.first:
            self.first = before
            runs = [(start, run) for start, run in self._runs if start + run.n > before]
            if runs and 2 * (before - runs[0][0]) > runs[0][1].n:  # rarely, so that it stays cheap
                runs[0] = (before, runs[0][1].take(slice(before - runs[0][0], None)).copy())
            self._runs = tuple(runs)

    def __getstate__(self) -> dict[str, Any]:
        """What is saved: nothing that is forgotten."""
        kept = self.read(Span(self.first, self.count)) if self._runs else None
        return {"first": self.first, "_runs": () if kept is None else ((self.first, kept),)}
