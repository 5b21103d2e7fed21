"""Turns the batches of a stream into records: maps and clips features, codes labels and targets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import config_context

from tidegate.checks import InvalidValueError, refuse
from tidegate.features import clip_rows
from tidegate.features.arrow_values import as_objects
from tidegate.features.clip import clipped_and_finite
from tidegate.features.columns import Columns
from tidegate.features.composed import record_map
from tidegate.features.feature_map import FeatureMap, first_map
from tidegate.features.numbers import as_numbers, is_arrow_array
from tidegate.features.rows import Rows, as_rows
from tidegate.features.spelling import NEWEST, as_texts
from tidegate.learn.labels import as_labels, check_kind, class_codes, codes_of, cut_codes
from tidegate.learn.records import Records, zeroed
from tidegate.learn.target import Target


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
        classes: The public labels, in the order of their indices; None if records have no label.
        target: The public range of the number to predict, in place of classes.
        cuts: Where one class ends and the next begins, if labels are numbers; public.
        packed: The columns of records that are packed, instead of `features`; see `Packing`.
        features: Feature map, applied first if given; scikit-learn's own are refused if they learn
            from records.
        form: Empty array of the width, dtype and kind of all stored rows; None before the first
            batch.
        spelling: The rule by which labels, flags and texts are read, see
            `tidegate.features.spelling`.

    >>> intake = Intake(norm=1.0, classes=["a", "b"])
    >>> records = intake.records([[3.0, 4.0], [np.nan, 0.0]], ["b", "a"])
    >>> records.X.round(9), records.y, records.usable
    (array([[0.6, 0.8],
           [0. , 0. ]]), array([1, 0]), array([ True, False]))
    """

    norm: float
    classes: Sequence[Any] | None = None
    target: Target | None = None
    features: FeatureMap | None = None
    form: Rows | None = None
    cuts: Sequence[float] | None = None
    packed: Columns | None = None
    spelling: int = NEWEST

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Keep rule 1 in a stream that an earlier version has pickled."""
        self.__dict__.update({"spelling": 1, **state})

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", record_map(self.features))
        if self.classes is not None and self.target is not None:
            raise refuse("classes", "None if there is a target", shown="both")

    def records(self, X: Any, y: Any) -> Records:
        """The records of a batch.

        Args:
            X: An array, sparse matrix, or table of numbers, one row per record.
            y: A label or target for each record; not read if there are no classes and no target.
        """
        rows, usable = self._rows(X)
        codes, known = self._codes(y, rows.shape[0])
        if codes.size != rows.shape[0]:
            raise refuse("y", f"as long as X ({rows.shape[0]})", codes.size)
        usable &= known
        return Records(zeroed(rows, ~usable), np.where(usable, codes, 0), usable)

    def _codes(self, y: Any, count: int) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """What is stored of each label or target, and whether it can be used."""
        if self.target is not None:
            return self.target.codes(y, self.spelling)
        if self.classes is None:
            return np.zeros(count, np.intp), np.ones(count, np.bool_)
        if self.cuts is None:
            if self.spelling == 1:
                check_kind(y, self.classes)
            codes = codes_of(y, self.classes, self.spelling)
        else:
            codes = cut_codes(y, self.cuts, self.spelling)
        return codes, codes >= 0

    def rows(self, X: Any, width: int) -> Rows:
        """The clipped features of each record; a row that cannot be used is NaN.

        Args:
            X: As in `records`.
            width: How many features every record must have.
        """
        rows = self._rows(X)[0]
        _check_width(rows, width)
        return rows

    def _rows(self, X: Any) -> tuple[Rows, NDArray[np.bool_]]:
        """A copy of the rows, and which of them are finite."""
        if self.packed is not None:
            packed = self.packed.pack(X)
            return packed, ~np.isnan(packed[:, 0])
        if self.features is None:
            rows = as_numbers(X, self.spelling)
        else:
            X = as_objects(X) if is_arrow_array(X) else X
            if getattr(first_map(self.features), "takes_text", False):
                X = as_texts(X, self.spelling)
            with config_context(transform_output="default"):
                rows = self.features.transform(X)
        form = self.form
        if form is not None and sparse.issparse(rows) != sparse.issparse(form):
            rows = rows.toarray() if sparse.issparse(rows) else sparse.csr_array(as_rows(rows))
        rows, finite = clipped_and_finite(rows, self.norm)
        _check_width(rows, None if form is None else form.shape[1])
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
    intake = Intake(norm=norm, classes=classes, target=target, features=features)
    return intake.records(X, y)


@dataclass(frozen=True)
class CategoryIntake:
    """Turns the batches of a stream of categories into records without features.

    Args:
        categories: The public values, in the order of their indices.
        spelling: The rule by which values are read, see `tidegate.features.spelling`.

    >>> CategoryIntake(["mild", "severe"]).records(["severe", "none"]).usable
    array([ True, False])
    """

    categories: Sequence[Any]
    spelling: int = NEWEST

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Keep rule 1 in a stream that an earlier version has pickled."""
        self.__dict__.update({"spelling": 1, **state})

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


def _check_width(rows: Rows, width: int | None) -> None:
    if width is not None and rows.shape[1] != width:
        raise InvalidValueError(
            f"X has {rows.shape[1]} features, but {width} were expected: "
            "give the same columns as in the first batch"
        )
