"""Records as a fit reads them: clipped, coded, each in its slot."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tidegate.checks import InvalidValueError, refuse
from tidegate.features import clip_rows
from tidegate.features.rows import Rows, row_exponents
from tidegate.schedule import Span


class FeatureMap(Protocol):
    """A transformer that maps each record by itself and has learnt nothing from records."""

    def transform(self, X: Any) -> Any:
        """The features of each record, one row each."""


@dataclass(frozen=True)
class Records:
    """A run of slots.

    Attributes:
        X: The features, one row a slot, each of exact norm at most the public bound; a slot that
            cannot be used holds zeros, for 0 times not-a-number is not 0.
        y: The class index of each slot; 0 where it cannot be used.
        usable: Whether the slot's weight is 1.
    """

    X: Rows
    y: NDArray[np.intp]
    usable: NDArray[np.bool_]

    @property
    def n(self) -> int:
        """How many slots there are, usable or not: public."""
        return int(self.X.shape[0])

    def take(self, slots: Any) -> "Records":
        """Some of the slots."""
        return Records(self.X[slots], self.y[slots], self.usable[slots])


def join(parts: Sequence[Records]) -> Records:
    """Runs of slots one after the other."""
    rows = [part.X for part in parts]
    stacked = sparse.vstack(rows, format="csr") if sparse.issparse(rows[0]) else np.vstack(rows)
    return Records(
        stacked,
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.usable for part in parts]),
    )


def clean(  # noqa: PLR0913 (a batch, and what is public about its records)
    X: Any,
    y: Any,
    *,
    classes: Sequence[Any],
    norm: float,
    features: FeatureMap | None = None,
    width: int | None = None,
) -> Records:
    """Make a batch into records; each slot depends on its own record alone.

    A record that cannot be used (not finite, text where a number belongs, an unknown label) keeps
    its slot with weight 0. A batch is refused only for facts of the whole: shape, dtype, length.

    Args:
        X: An array, CSR matrix, or table of numbers, one record a row.
        y: A label for each record.
        classes: The public labels, in the order of their indices.
        norm: The public bound on the norm of every record.
        features: Applied first, if given.
        width: How many features every record must have; None for the first batch.

    >>> records = clean([[3.0, 4.0], [np.nan, 0.0]], ["b", "a"], classes=["a", "b"], norm=1.0)
    >>> records.X.round(9), records.y, records.usable
    (array([[0.6, 0.8],
           [0. , 0. ]]), array([1, 0]), array([ True, False]))
    """
    rows = featurize(X, norm=norm, features=features, width=width)
    labels = as_column(y)
    if len(labels) != rows.shape[0]:
        raise refuse("y", f"as long as X ({rows.shape[0]})", len(labels))
    codes = class_codes(labels, classes)
    usable = row_exponents(rows)[1] & (codes >= 0)
    return Records(zeroed(rows, ~usable), np.where(usable, codes, 0), usable)


def featurize(
    X: Any, *, norm: float, features: FeatureMap | None = None, width: int | None = None
) -> Rows:
    """The clipped features of each record; a row that cannot be used is not-a-number."""
    rows = clip_rows(as_numbers(X) if features is None else features.transform(X), norm)
    if width is not None and rows.shape[1] != width:
        raise InvalidValueError(
            f"X has {rows.shape[1]} features, but {width} were expected as before"
        )
    return rows


def as_numbers(X: Any) -> Any:
    """A table or an array of objects as numbers; what is none becomes not-a-number.

    >>> as_numbers(np.array([[1, "2.5"], ["x", None]], dtype=object))
    array([[1. , 2.5],
           [nan, nan]])
    """
    if sparse.issparse(X):
        return X
    if hasattr(X, "column_names"):  # an Arrow table is a list of columns
        X = np.column_stack([np.asarray(column, dtype=object) for column in X.columns])
    X = np.asarray(X)
    if X.dtype.kind not in "OUS":
        return X
    return np.array([[_number(value) for value in row] for row in X.tolist()], np.float64)


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return np.nan


def as_column(y: Any) -> NDArray[Any]:
    """Labels as a one-dimensional array."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise refuse("y", "one label a record", f"shape {labels.shape}")
    return labels


def class_codes(labels: NDArray[Any], classes: Sequence[Any]) -> NDArray[np.intp]:
    """The index of each label among the classes, -1 for one that is not among them.

    >>> class_codes(np.array([3, 5, 4]), [5, 3])
    array([ 1,  0, -1])
    """
    index = {label: code for code, label in enumerate(classes)}
    return np.array([_code(index, label) for label in labels.tolist()], np.intp)


def _code(index: dict[Any, int], label: object) -> int:
    try:
        return index.get(label, -1)
    except TypeError:  # a label that cannot be hashed is no class
        return -1


def zeroed(rows: Rows, slots: NDArray[np.bool_]) -> Rows:
    """The rows with the given slots set to zero."""
    if isinstance(rows, np.ndarray):
        return np.where(slots[:, None], rows.dtype.type(0), rows)
    kept = rows.copy()
    kept.data[np.repeat(slots, np.diff(rows.indptr))] = 0
    return kept


class Held:
    """The records a stream still needs, in memory.

    >>> held = Held()
    >>> held.append(clean([[1.0], [2.0], [3.0]], [0, 0, 0], classes=[0], norm=9.0))
    >>> held.forget(1)
    >>> held.count, held.read(Span(1, 3)).X.ravel()
    (3, array([2., 3.]))
    """

    def __init__(self) -> None:
        self.count = 0
        self.first = 0
        self._parts: list[Records] = []

    def append(self, records: Records) -> None:
        """Add records at the end of the stream."""
        if records.n:
            self._parts.append(records)
            self.count += records.n

    def read(self, span: Span) -> Records:
        """The records of a span; those before `first` are forgotten."""
        if not self.first <= span.start < span.stop <= self.count:
            raise LookupError(f"{span} is not held: [{self.first}, {self.count})")
        if len(self._parts) > 1:
            self._parts = [join(self._parts)]
        return self._parts[0].take(slice(span.start - self.first, span.stop - self.first))

    def forget(self, before: int) -> None:
        """Drop all records before this one."""
        if before > self.first:
            kept = self.read(Span(before, self.count)) if before < self.count else None
            self._parts = [] if kept is None else [_copied(kept)]
            self.first = before


def _copied(records: Records) -> Records:
    """A copy, so that a small part does not keep the memory of the whole."""
    return Records(records.X.copy(), records.y.copy(), records.usable.copy())
