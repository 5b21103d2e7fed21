"""Converts batches of any type to numbers, entry by entry."""

from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tidegate.checks import refuse


def as_numbers(X: Any) -> Any:
    """A batch as an array or a sparse matrix of numbers; any other entry becomes NaN.

    An array or a sparse matrix of numbers is returned unchanged; anything else is converted to
    float64, entry by entry, so that no entry depends on the others.

    >>> as_numbers([[1, "2.5"], ["x", None]])
    array([[1. , 2.5],
           [nan, nan]])
    """
    if sparse.issparse(X):
        return X
    if isinstance(X, list | tuple):
        return _from_rows(X)
    if hasattr(X, "column_names"):
        return _from_arrow(X)
    batch = np.asarray(X)
    if batch.dtype.kind in "OUST" and batch.ndim == 2:
        batch = _from_rows(batch.tolist())
    elif batch.dtype.kind in "mM" and hasattr(X, "iloc"):  # pandas infers it from the values
        batch = np.full(batch.shape, np.nan)
    elif batch.dtype.kind not in "OUSTbiuf":
        raise refuse("X", "of real numbers (Complex data not supported)", shown=str(batch.dtype))
    elif not isinstance(X, np.ndarray) and _plain(batch):
        batch = batch.astype(np.float64)
    if isinstance(X, np.ma.MaskedArray) and _plain(batch):
        batch = np.where(np.ma.getmaskarray(X), np.nan, batch)
    return batch


def is_arrow_array(values: Any) -> bool:
    """Whether this is an Arrow column and not a table."""
    return hasattr(values, "to_pylist") and not hasattr(values, "column_names")


def _plain(batch: NDArray[Any]) -> bool:
    """Whether float64 can hold the entries, up to rounding."""
    return batch.dtype.kind in "biuf" and batch.dtype.itemsize <= 8


def _from_rows(rows: Sequence[Any]) -> NDArray[np.float64]:
    try:
        batch = np.asarray(rows)
    except Exception:  # rows of different lengths, or an entry that is not a value
        batch = np.empty(0)
    if batch.ndim == 2 and _plain(batch):
        return batch.astype(np.float64)
    cells = [row if isinstance(row, list | tuple) else _row(row) for row in rows]
    if len({len(row) for row in cells}) > 1:
        raise refuse("X", "two-dimensional", shown="rows of different lengths")
    return np.array([[_number(value) for value in row] for row in cells], np.float64)


def _row(row: object) -> list[Any]:
    values = np.asarray(row)
    if values.ndim != 1:
        raise refuse(
            "X", "two-dimensional (Reshape your data: one row per record)", shown="no rows"
        )
    return list(values.tolist())


def _from_arrow(table: Any) -> NDArray[np.float64]:
    columns = [np.asarray(column) for column in table.columns]
    if all(map(_plain, columns)):
        return np.column_stack(columns).astype(np.float64)
    return _from_rows(list(zip(*(column.to_pylist() for column in table.columns), strict=True)))


def _number(value: object) -> float:
    """One entry as a float; NaN if it is not a real number."""
    try:
        if isinstance(value, float | int | str | bytes | Real | Decimal):
            return float(value)
        scalar = np.asarray(value)
        return float(scalar) if scalar.ndim == 0 and _plain(scalar) else np.nan
    except Exception:  # an entry that raises affects its own slot only
        return np.nan
