"""Applies a transformer to each record by itself, whatever it does with a whole batch.

Each class here takes the place of a transformer inside a `ColumnTransformer`, a `FeatureUnion` or
a `Pipeline`. The result for a record depends on that record and on public settings alone, bit for
bit, and no record makes it raise: what a transformer cannot map becomes NaN.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack
from sklearn.base import BaseEstimator, TransformerMixin, clone

from tidegate.checks import InvalidValueError, refuse
from tidegate.features.made_up import filled, is_frame, others
from tidegate.features.numbers import as_numbers
from tidegate.features.rows import Rows, as_rows, owners_of, row_exponents, with_entries


class OneByOne(TransformerMixin, BaseEstimator):
    """The base class: holds a transformer, which is fitted on a made-up record or not at all."""

    def __init__(self, part: Any) -> None:
        self.part = part

    def __sklearn_clone__(self) -> Self:
        return deepcopy(self)

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002 (scikit-learn passes y)
        """Prepare for records with the columns of X, which is made up."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True


class Numbers(OneByOne):
    """Reads numbers, and maps them by arithmetic that treats every row alike, or not at all.

    Anything but a number becomes NaN, and a record with a NaN is mapped to NaN.

    >>> from sklearn.preprocessing import Binarizer
    >>> Numbers(Binarizer(threshold=2.0)).fit([[0.0, 0.0]]).transform([[1, 3], [4, "x"]])
    array([[ 0.,  1.],
           [nan, nan]])
    """

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002
        """Fit the part on zeros."""
        if self.part is not None:
            self.part = fitted(self.part, np.zeros((1, as_rows(as_numbers(X)).shape[1])))
        return self

    def transform(self, X: Any) -> Rows:
        """Map the rows; those with an entry that is not finite become NaN."""
        rows = as_rows(as_numbers(X)).astype(np.float64)
        if self.part is None:
            return rows
        finite = row_exponents(rows)[1]
        entries = rows if isinstance(rows, np.ndarray) else rows.data
        usable = with_entries(rows, np.where(finite[owners_of(rows)], entries, 0.0))
        return with_nan(as_rows(self._mapped(usable)), ~finite)

    def _mapped(self, rows: Rows) -> Any:
        return self.part.transform(rows)


class Elementwise(Numbers):
    """Applies a function of numpy to numbers, one record at a time.

    Its vectorised loops may round a number differently beside others.

    >>> from sklearn.preprocessing import FunctionTransformer
    >>> Elementwise(FunctionTransformer(np.sqrt)).fit([[0.0]]).transform([[4.0], [-1.0], [None]])
    array([[ 2.],
           [nan],
           [nan]])
    """

    @np.errstate(all="ignore")
    def _mapped(self, rows: Rows) -> Any:
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        result = np.empty(dense.shape)
        for i in range(len(dense)):
            result[i] = self.part.func(dense[i].copy())
        return result


class RowByRow(Numbers):
    """Maps numbers by sums over a row, which a batch would add up in another order.

    >>> from sklearn.preprocessing import Normalizer
    >>> RowByRow(Normalizer()).fit([[0.0, 0.0]]).transform([[3.0, 4.0], [np.inf, 1.0]])
    array([[0.6, 0.8],
           [nan, nan]])
    """

    def _mapped(self, rows: Rows) -> Any:
        made = [self.part.transform(rows[[i]]) for i in range(rows.shape[0])]
        return np.concatenate(made) if isinstance(rows, np.ndarray) else csr_array(vstack(made))


class Entries(OneByOne):
    """Looks entries up in a table, such as an encoder with public categories.

    >>> from sklearn.preprocessing import OneHotEncoder
    >>> table = OneHotEncoder(categories=[["AA", "UA"]], handle_unknown="ignore")
    >>> Entries(table).fit([["AA"]]).transform([["UA"], [None], [["AA"]]]).toarray()
    array([[0., 1.],
           [0., 0.],
           [0., 0.]])
    """

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002
        """Fit the part on a made-up record."""
        self.part = fitted(self.part, cells_of(X))
        return self

    def transform(self, X: Any) -> Any:
        """Map the entries."""
        return self.part.transform(cells_of(X))


class Texts(OneByOne):
    """Hashes texts; anything but a text becomes NaN.

    >>> from sklearn.feature_extraction.text import HashingVectorizer
    >>> Texts(HashingVectorizer(n_features=2, norm=None)).transform(["tide", None]).toarray()
    array([[ 1.,  0.],
           [nan,  0.]])
    """

    def transform(self, X: Any) -> Rows:
        """Hash the texts."""
        if isinstance(X, str) or getattr(X, "ndim", 1) != 1:
            raise refuse("the records", "a sequence of texts", shown=type(X).__name__)
        records = list(X)
        texts = [value if isinstance(value, str) else "" for value in records]
        # A lone surrogate cannot be hashed.
        hashed = self.part.transform(each.encode(errors="replace").decode() for each in texts)
        return with_nan(
            csr_array(hashed), np.array([not isinstance(each, str) for each in records])
        )


class Alone(OneByOne):
    """Calls a transformer with one record at a time, so that it cannot see the others.

    It is not fitted. A record for which it raises, or returns another number of columns than for a
    made-up record, becomes NaN.

    >>> from sklearn.preprocessing import FunctionTransformer
    >>> shares = FunctionTransformer(lambda X: X / X.sum())
    >>> batch = np.array([[1.0, 3.0], [2.0, 2.0], [1.0, "x"]], object)
    >>> Alone(shares).fit(np.ones((1, 2))).transform(batch)
    array([[0.25, 0.75],
           [0.5 , 0.5 ],
           [ nan,  nan]])
    """

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002
        """Map a made-up record, to find the form of the result."""
        failed: Exception | None = None
        for record in (X, *others(X)):
            try:
                result = self._result(record)
            except Exception as error:  # the record is made up: its error may be shown
                failed = failed or error
            else:
                self.sparse_ = issparse(result)
                self.columns_ = result.shape[1]
                self.numbers_ = self.sparse_ or result.dtype.kind in "biuf"
                return self
        raise InvalidValueError(
            f"features: {_name(self.part)} failed on a made-up record: {failed}".splitlines()[0]
        )

    def transform(self, X: Any) -> Any:
        """Map the records, one after the other."""
        made = [self._made(take) for take in records_of(X)]
        if self.sparse_:
            return csr_array(vstack(made, format="csr"))
        stacked = np.concatenate(made) if made else np.empty((0, self.columns_), object)
        return as_numbers(stacked).astype(np.float64) if self.numbers_ else stacked

    def _made(self, take: Callable[[], Any]) -> Any:
        try:
            result = self._result(take())  # pandas refuses half a surrogate pair, for example
            fits = issparse(result) == self.sparse_ and result.shape == (1, self.columns_)
        except Exception:  # about this record alone, and its text may quote it
            fits = False
        if fits:
            return result if self.sparse_ else result.astype(object)
        if self.sparse_:
            return with_nan(csr_array((1, self.columns_)), np.array([True]))
        return np.full((1, self.columns_), np.nan, object)

    def _result(self, record: Any) -> Any:
        """What the transformer makes of one record: a row, dense or sparse."""
        result = self.part.transform(record)
        row = csr_array(result) if issparse(result) else np.asarray(result)
        if row.ndim == 1 and len(row) == 1 and not issparse(row):
            row = row[:, None]  # a column of one entry
        if row.ndim != 2 or row.shape[0] != 1:
            raise refuse("the result for one record", "one row", shown=f"shape {row.shape}")
        return row


def fitted(part: Any, record: NDArray[Any]) -> Any:
    """A copy of a transformer, fitted on a made-up record, that returns arrays."""
    copy = clone(part).fit(record)
    return copy.set_output(transform="default") if hasattr(copy, "set_output") else copy


def with_nan(rows: Rows, lost: NDArray[np.bool_]) -> Rows:
    """The rows, of which those that are lost become NaN; a sparse one holds a single NaN.

    >>> with_nan(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([False, True]))
    array([[ 1.,  2.],
           [nan, nan]])
    """
    if not lost.any():
        return rows
    if isinstance(rows, np.ndarray):
        return np.where(lost[:, None], np.nan, rows)
    places = np.flatnonzero(lost)
    marks = (np.full(places.size, np.nan), (places, np.zeros(places.size, np.intp)))
    return csr_array(csr_array(rows) + csr_array(marks, rows.shape))


def cells_of(X: Any) -> NDArray[np.object_]:
    """The entries of a batch, each converted by itself: see `cell`.

    >>> cells_of([[1, "a"], [None, True]])
    array([[1.0, 'a'],
           [nan, 1.0]], dtype=object)
    """
    if issparse(X):
        X = X.toarray()
    rows = [[cell(value) for value in row] for row in _table(X)]
    cells = np.empty((len(rows), len(rows[0]) if rows else 0), object)
    for i, row in enumerate(rows):
        cells[i] = row
    return cells


def _table(X: Any) -> Any:
    if is_frame(X):
        columns = [X.iloc[:, place].astype(object).tolist() for place in range(X.shape[1])]
        return list(zip(*columns, strict=True))
    table = X.tolist() if isinstance(X, np.ndarray) else X
    rows = [row if isinstance(row, list | tuple) else None for row in table]
    if None in rows or len(set(map(len, filter(None, rows)))) > 1:
        raise refuse("X", "two-dimensional", shown="other records")
    return rows


def cell(value: Any) -> Any:
    """An entry as it is mapped, whatever the dtype of its column.

    A number becomes a float, because an integer in a column with a gap is one. A gap (None, NaN,
    NaT) and what cannot be looked up become NaN.

    >>> cell(3), cell("a"), cell(None), cell([1])
    (3.0, 'a', nan, nan)
    """
    if type(value) is str:
        return value
    if value is None:
        return np.nan
    try:
        if isinstance(value, bool | int | float | np.number | np.bool_):
            return float(value)
        hash(value)
        return value if bool(value == value) else np.nan  # noqa: PLR0124 (NaN)
    except Exception:  # about this entry alone
        return np.nan


def records_of(X: Any) -> Iterator[Callable[[], Any]]:
    """For each record of a batch, a function that returns it in the form of the batch."""
    if issparse(X):
        rows = csr_array(X)
        yield from (partial(rows.__getitem__, [i]) for i in range(X.shape[0]))
    elif getattr(X, "ndim", 0) == 2:
        yield from (partial(filled, X, list(row)) for row in cells_of(X))
    elif hasattr(X, "iloc"):
        yield from (partial(filled, X, [cell(value)]) for value in X.astype(object).tolist())
    elif isinstance(X, np.ndarray):
        yield from (partial(filled, X, [cell(value)]) for value in X.tolist())
    else:
        yield from (partial(list, (value,)) for value in X)


def _name(part: Any) -> str:
    function = getattr(part, "func", None)
    inner = getattr(function, "__name__", "")
    return f"{type(part).__name__}({inner})" if inner else type(part).__name__
