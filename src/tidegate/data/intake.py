"""Turns the batches of a stream into records: maps and clips features, codes labels and targets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tidegate.checks import InvalidValueError, Later, refuse
from tidegate.data.feature_map import FeatureChain, FeatureMap, record_map
from tidegate.data.predicted import (
    NOTHING,
    Classes,
    Predicted,
    Target,
    class_codes,
    predicted_of,
    with_predicted,
)
from tidegate.data.records import Records, zeroed
from tidegate.data.rows import Rows, as_rows, clip_rows, clipped_and_finite
from tidegate.data.values import NEWEST, as_labels, as_numbers, as_objects, is_arrow_array

if TYPE_CHECKING:
    from tidegate.data.columns import TableColumns
    from tidegate.data.maps import composed
else:
    composed = Later("tidegate.data.maps.composed")


@dataclass(frozen=True, kw_only=True)
class Intake:
    """Turns the batches of a stream into records; each slot depends on its own record alone.

    A record that cannot be used (not finite, text where a number belongs, an unknown label, a
    target that is no number) keeps its slot with weight 0. A batch is refused only for its shape
    and length, never for a dtype, which one record can change.

    The first batch fixes how all batches are stored: sparse or dense, and as float32 if it is a
    float32 array or sparse matrix, otherwise as float64.

    Args:
        norm: The public bound on the norm of every record.
        predicted: What is predicted: `Classes`, a `Target`, or `NOTHING`.
        packed: The columns of records that are packed, instead of `features`; see `Packing`.
        features: Feature map, applied first if given; scikit-learn's own are refused if they learn
            from records.
        form: Empty array of the width, dtype and kind of all stored rows; None before the first
            batch.
        spelling: The rule by which labels, flags and texts are read, see
            `tidegate.data.values`.

    >>> intake = Intake(norm=1.0, predicted=Classes(["a", "b"]))
    >>> records = intake.records([[3.0, 4.0], [np.nan, 0.0]], ["b", "a"])
    >>> records.X.round(9), records.y, records.usable
    (array([[0.6, 0.8],
           [0. , 0. ]]), array([1, 0]), array([ True, False]))
    """

    norm: float
    predicted: Predicted = NOTHING
    features: FeatureMap | None = None
    form: Rows | None = None
    packed: "TableColumns | None" = None
    spelling: int = NEWEST

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Keep rule 1 in a stream that an earlier version has pickled."""
        self.__dict__.update({"spelling": 1, **with_predicted(state)})

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", record_map(self.features))

    def records(self, X: Any, y: Any) -> Records:
        """The records of a batch.

        Args:
            X: An array, sparse matrix, or table of numbers, one row per record.
            y: A label or target for each record; not read if nothing is predicted.
        """
        rows, usable = self._rows(X)
        self.predicted.check(y, self.spelling)
        codes, known = self.predicted.read(y, rows.shape[0], self.spelling)
        if codes.size != rows.shape[0]:
            raise refuse("y", f"as long as X ({rows.shape[0]})", codes.size)
        usable &= known
        return Records(zeroed(rows, ~usable), np.where(usable, codes, 0), usable)

    def _rows(self, X: Any) -> tuple[Rows, NDArray[np.bool_]]:
        """A copy of the rows, and which of them are finite."""
        if self.packed is not None:
            packed = self.packed.pack(X)
            return packed, ~np.isnan(packed[:, 0])
        return self.clipped(self.mapped(X))

    def mapped(self, X: Any) -> Any:
        """The features of each record, as numbers."""
        if self.features is None:
            return as_numbers(X, self.spelling)
        X = as_objects(X) if is_arrow_array(X) else X
        if isinstance(self.features, FeatureChain):
            return self.features.transform(X)
        return composed.transformed(self.features, X, self.spelling)

    def clipped(self, rows: Any) -> tuple[Rows, NDArray[np.bool_]]:
        """A copy of the features in the stored form, clipped, and which records are finite.

        A row that cannot be used is NaN.
        """
        form = self.form
        if form is not None and sparse.issparse(rows) != sparse.issparse(form):
            rows = rows.toarray() if sparse.issparse(rows) else sparse.csr_array(as_rows(rows))
        rows, finite = clipped_and_finite(rows, self.norm)
        check_width(rows, rows.shape[1] if form is None else form.shape[1])
        if form is not None and rows.dtype != form.dtype:
            # Clip before the cast, which could overflow, and after it, because it rounds.
            rows = clip_rows(rows.astype(form.dtype), self.norm)
        # Copy, because a sparse result may share index arrays with the caller's X.
        return sparse.csr_array(rows, copy=True) if sparse.issparse(rows) else rows, finite

    def after(self, first: Records) -> Self:
        """The intake for later batches, which are stored in the form of the first."""
        return replace(self, form=first.X[:0].copy())


def clean(  # noqa: PLR0913 - the fields of an intake
    X: Any,
    y: Any,
    *,
    norm: float,
    classes: Sequence[Any] | None = None,
    target: Target | None = None,
    features: FeatureMap | None = None,
) -> Records:
    """The records of a single batch, outside a stream; see `Intake`."""
    intake = Intake(norm=norm, predicted=predicted_of(classes, target), features=features)
    return intake.records(X, y)


@dataclass(frozen=True)
class CategoryIntake:
    """Turns the batches of a stream of categories into records without features.

    Args:
        categories: The public values, in the order of their indices.
        spelling: The rule by which values are read, see `tidegate.data.values`.

    >>> CategoryIntake(["mild", "severe"]).records(["severe", "none"]).usable
    array([ True, False])
    """

    categories: Sequence[Any]
    spelling: int = NEWEST

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Keep rule 1 in a stream that an earlier version has pickled."""
        self.__dict__.update({"spelling": 1, **state})

    @property
    def predicted(self) -> Predicted:
        """The categories, in the place of classes."""
        return Classes(self.categories)

    def records(self, X: Any, y: Any = None) -> Records:
        """The records of a batch: X holds their categories, y is not read."""
        del y
        values = as_labels(X, "X")
        if not values:
            raise refuse("X", "one record or more", shown="none")
        codes = class_codes(values, self.categories, self.spelling)
        usable = codes >= 0
        return Records(np.zeros((codes.size, 0)), np.where(usable, codes, 0), usable)

    def after(self, first: Records) -> Self:
        """The intake for later batches: this one."""
        del first
        return self


def check_width(rows: Rows, width: int) -> None:
    """Refuse rows that have another number of features."""
    if rows.shape[1] != width:
        raise InvalidValueError(
            f"X has {rows.shape[1]} features, but {width} were expected: "
            "give the same columns as in the first batch"
        )
