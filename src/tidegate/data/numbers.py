"""Converts batches of any type to numbers, entry by entry."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tidegate.checks import refuse
from tidegate.data.arrow_values import as_objects
from tidegate.data.spelling import NEWEST, as_read, truths_of


def as_numbers(X: Any, rule: int = NEWEST) -> Any:
    """A batch as an array or a sparse matrix of numbers; any other entry becomes NaN.

    An array or a sparse matrix of numbers is returned unchanged; anything else is converted to
    float64, entry by entry, so that no entry depends on the others. By rule 2 the texts true and
    false are 1 and 0, as they are where a library takes them for flags.

    >>> as_numbers([[1, "2.5"], ["x", None]])
    array([[1. , 2.5],
           [nan, nan]])
    """
    if sparse.issparse(X):
        return X if _plain(X) else _real_sparse(X)
    if isinstance(X, list | tuple):
        return _from_rows(X, rule)
    if hasattr(X, "column_names"):
        return _from_columns(X.columns, rule)
    if hasattr(X, "get_column"):  # polars
        return _from_columns([X.get_column(name) for name in X.columns], rule)
    if isinstance(columns := getattr(X, "columns", None), Mapping):  # of a `Table`
        return _from_columns([*columns.values()], rule)
    batch = np.asarray(X)
    if batch.dtype.kind in "OUST" and batch.ndim == 2:
        batch = _from_rows(batch.tolist(), rule)
    elif batch.dtype.kind not in "OUST":
        batch = as_real(batch)
        if not isinstance(X, np.ndarray):
            batch = batch.astype(np.float64, copy=False)
    if isinstance(X, np.ma.MaskedArray) and _plain(batch):
        batch = np.where(np.ma.getmaskarray(X), np.nan, batch)
    return batch


def as_real(batch: NDArray[Any]) -> NDArray[Any]:
    """An array of real numbers of at most 64 bits; NaN for what is none.

    One entry can make a whole array complex, or one of long numbers or of times, so none of these
    is refused.

    >>> as_real(np.array([1.5, 2j]))
    array([1.5, nan])
    """
    if _plain(batch):
        return batch
    if batch.dtype.kind == "c":
        return np.where(batch.imag == 0, batch.real, np.nan).astype(np.float64)
    if batch.dtype.kind in "mM":
        return np.full(batch.shape, np.nan)
    if batch.dtype.kind == "f":
        with np.errstate(over="ignore"):  # an infinite record is unusable
            return batch.astype(np.float64)
    raise refuse("X", "of numbers", shown=str(batch.dtype))


def _real_sparse(X: Any) -> Any:
    made = X.tocsr(copy=True)
    entries = [number_of(each) for each in made.data] if made.dtype == object else made.data
    made.data = as_real(np.asarray(entries))
    return made


def is_arrow_array(values: Any) -> bool:
    """Whether this is an Arrow column and not a table."""
    return hasattr(values, "to_pylist") and not hasattr(values, "column_names")


def _plain(batch: Any) -> bool:
    """Whether float64 can hold the entries, up to rounding."""
    return bool(batch.dtype.kind in "biuf" and batch.dtype.itemsize <= 8)


def _from_rows(rows: Sequence[Any], rule: int) -> NDArray[np.float64]:
    try:
        batch = np.asarray(rows if all(map(_only_numbers, rows)) else ())
    except Exception:  # rows of different lengths
        batch = np.empty(0)
    if batch.ndim == 2 and _plain(batch):
        return batch.astype(np.float64)
    cells = [row if isinstance(row, list | tuple) else _row(row) for row in rows]
    if len({len(row) for row in cells}) > 1:
        raise refuse("X", "two-dimensional", shown="rows of different lengths")
    return np.array([[number_of(value, rule) for value in row] for row in cells], np.float64)


def _only_numbers(row: object) -> bool:
    """Whether a row has numbers alone: beside a text, an array has its length in every entry."""
    if isinstance(row, np.ndarray):
        return _plain(row)
    return isinstance(row, list | tuple) and all(
        issubclass(kind, int | float | np.number | np.bool_) for kind in set(map(type, row))
    )


def _row(row: object) -> list[Any]:
    values = np.asarray(row)
    if values.ndim != 1:
        raise refuse(
            "X", "two-dimensional (Reshape your data: one row per record)", shown="no rows"
        )
    return list(values.tolist())


def _from_columns(columns: Sequence[Any], rule: int) -> NDArray[np.float64]:
    """Columns of any library, each by itself."""
    return np.column_stack([_from_column(each, rule) for each in columns])


def _from_column(column: Any, rule: int) -> NDArray[np.float64]:
    if not isinstance(column, list):
        try:
            values = np.asarray(column)
        except Exception:  # Polars has numbers that NumPy does not
            values = np.empty(0, object)
        if _plain(values) and values.ndim == 1:
            return values.astype(np.float64)
        column = as_objects(column) if is_arrow_array(column) else column.to_list()
    return np.array([number_of(value, rule) for value in column], np.float64)


def number_of(value: object, rule: int = NEWEST) -> float:
    """One entry as a float; NaN if it is not a real number."""
    try:
        value = as_read(value, rule)  # a text that is not UTF-8 makes bytes of a column of texts
        if isinstance(value, str):
            return float(truths_of(rule).get(value, value))
        if isinstance(value, float | int | bytes | Real | Decimal):
            return float(value)
        if isinstance(value, list | tuple):
            return np.nan
        return float(as_real(scalar)) if (scalar := np.asarray(value)).ndim == 0 else np.nan
    except Exception:  # an entry that raises affects its own slot only
        return np.nan
