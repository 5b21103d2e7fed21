"""Calls a transformer with one record at a time, so that it cannot see the others.

The result for a record depends on that record and on public settings alone, bit for bit, and no
record makes it raise: what the transformer cannot map becomes NaN. It is fitted on a made-up record
with the columns of the first batch, never on records.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack
from sklearn.base import BaseEstimator, TransformerMixin

from tidegate.checks import InvalidValueError, refuse
from tidegate.data.rows import Rows
from tidegate.data.values import as_numbers


class NeverFitted(TransformerMixin, BaseEstimator):
    """A transformer of the user's own among those of scikit-learn: it is trusted as it is."""

    def __init__(self, part: Any = None) -> None:
        self.part = part

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002 (scikit-learn passes y)
        """Do nothing."""
        return self

    def transform(self, X: Any) -> Any:
        """What the user's transformer makes of X."""
        return self.part.transform(X)

    def __sklearn_is_fitted__(self) -> bool:
        return True


# Maps that earlier versions pickled name these; what they held is fitted again when it is used.
Numbers = Elementwise = RowByRow = Entries = Texts = Alone = NeverFitted


@dataclass(frozen=True, eq=False)
class OneByOne:
    """A transformer that was fitted on a made-up record, and is called with one at a time.

    Attributes:
        part: The transformer.
        lost: The row of a record that it cannot map: NaN throughout, or a NaN in a sparse row.

    >>> from sklearn.preprocessing import FunctionTransformer
    >>> shares = FunctionTransformer(lambda X: X / X.sum())
    >>> batch = np.array([[1.0, 3.0], [2.0, 2.0], [1.0, "x"]], object)
    >>> OneByOne.fitted(shares, batch).rows(batch)
    array([[0.25, 0.75],
           [0.5 , 0.5 ],
           [ nan,  nan]])
    """

    part: Any
    lost: Rows

    @classmethod
    def fitted(cls, part: Any, batch: Any) -> Self:
        """Fit copies on made-up records in the form of a batch, until one can be mapped."""
        errors = []
        for record in made_up(batch):
            try:
                own = deepcopy(part).fit(record, None)
                return cls(own, _lost(_row(own, record)))
            except Exception as error:  # the record is made up: its error may be shown
                errors.append(str(error) or type(error).__name__)
        line = errors[0].splitlines()[0]
        raise InvalidValueError(f"features failed on a made-up record with these columns: {line}")

    def rows(self, batch: Any) -> Rows:
        """Map the records, one after the other."""
        made = [self._made(take) for take in records_of(batch)]
        if issparse(self.lost):
            return csr_array(vstack([self.lost[:0], *made], format="csr"))
        return np.asarray(as_numbers(np.concatenate([self.lost[:0], *made])), np.float64)

    def _made(self, take: Callable[[], Any]) -> Any:
        try:
            row = _row(self.part, take())  # pandas refuses half a surrogate pair, for example
        except Exception:  # about this record alone, and its text may quote it
            return self.lost
        fits = issparse(row) == issparse(self.lost) and row.shape == self.lost.shape
        return row if fits else self.lost


def _row(part: Any, record: Any) -> Any:
    """What a transformer makes of one record: a row, dense or sparse."""
    result = part.transform(record)
    row = csr_array(result) if issparse(result) else np.asarray(result).astype(object)
    if row.shape == (1,):
        row = row[:, None]  # a column of one entry
    if row.ndim != 2 or row.shape[0] != 1:
        raise refuse("the result for one record", "one row", shown=f"shape {row.shape}")
    return row


def _lost(row: Any) -> Rows:
    if issparse(row):
        return csr_array(([np.nan], ([0], [0])), row.shape)
    return np.full(row.shape, np.nan, object)


def records_of(X: Any) -> Iterator[Callable[[], Any]]:
    """For each record of a batch, a function that returns it in the form of the batch."""
    if issparse(X):
        rows = csr_array(X)
        yield from (partial(rows.__getitem__, [i]) for i in range(X.shape[0]))
    elif hasattr(X, "ndim"):
        yield from (partial(filled, X, cells) for cells in _cells(X))
    else:
        yield from (partial(list, (value,)) for value in X)


def _cells(X: Any) -> Iterator[list[Any]]:
    """The entries of each record, each converted by itself."""
    if is_frame(X):
        columns = [X.iloc[:, place].astype(object).tolist() for place in range(X.shape[1])]
        rows: Any = zip(*columns, strict=True)
    else:
        values: NDArray[Any] = np.asarray(X, object)
        rows = values.reshape(len(values), -1).tolist()
    return ([cell(value) for value in row] for row in rows)


def cell(value: Any) -> Any:
    """An entry as it is mapped, whatever the dtype of its column.

    A number becomes a float, because an integer in a column with a gap is one. A gap (None, NaN,
    NaT) and what cannot be looked up become NaN.

    >>> cell(3), cell("a"), cell(None), cell([1])
    (3.0, 'a', nan, nan)
    """
    if value is None:
        return np.nan
    try:
        if isinstance(value, bool | int | float | np.number | np.bool_):
            return float(value)
        hash(value)
        return value if bool(value == value) else np.nan  # noqa: PLR0124 (NaN)
    except Exception:  # about this entry alone
        return np.nan


# --- made-up records


NUMBER, TEXT, TIME = 1.0, "text", np.datetime64("2000-01-01", "s")


def is_frame(X: Any) -> bool:
    """Whether a batch is a DataFrame of pandas."""
    return hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2


def made_up(X: Any) -> Iterator[Any]:
    """Made-up records in the form of a batch, of which only names and dtypes are read.

    The first is what the dtypes suggest. One odd record may have changed them, so that others
    follow: all numbers, all texts, all times.

    >>> next(made_up(np.array([[5.0, 7.0], [6.0, 8.0]]))), list(made_up(["a b", "c"]))[-1]
    (array([[1., 1.]]), [{'text': 1.0}])
    """
    columns = X.shape[1] if getattr(X, "ndim", 1) == 2 else 1
    dtypes = X.dtypes if is_frame(X) else [getattr(X, "dtype", np.dtype(object))] * columns
    yield filled(X, [_example(dtype) for dtype in dtypes])
    yield from (filled(X, [value] * columns) for value in (NUMBER, TEXT, TIME))
    if isinstance(X, list):  # a record may be anything that can be hashed
        yield from ([value] for value in ([TEXT], [(TEXT, NUMBER)], {TEXT: NUMBER}))


def filled(X: Any, cells: list[Any]) -> Any:
    """One record in the form of a batch, with the given entries.

    >>> filled(np.zeros((3, 2)), ["a", 1.0])
    array([['a', 1.0]], dtype=object)
    """
    if is_frame(X):
        return type(X)([cells], columns=X.columns)
    if hasattr(X, "iloc"):
        return type(X)(cells, name=X.name)
    if issparse(X):
        return csr_array(np.array([[NUMBER] * len(cells)]))
    if not hasattr(X, "ndim"):
        return cells[:1]
    numbers = all(isinstance(cell, float) for cell in cells)
    record = np.empty((1, len(cells)), float if numbers else object)
    record[0] = cells
    return record if X.ndim == 2 else record[0]


def _example(dtype: Any) -> Any:
    """A value that a column of this dtype could hold."""
    kind = getattr(dtype, "kind", "O")
    return NUMBER if kind in "biuf" else TIME if kind == "M" else TEXT
