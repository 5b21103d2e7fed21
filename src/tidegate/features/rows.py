"""Records as the rows of a matrix, dense or sparse, whatever numbers they hold."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import check_array

from tidegate.checks import refuse

Rows: TypeAlias = NDArray[Any] | csr_array
"""One record a row: an array of floats or a CSR matrix without duplicate entries."""


def as_rows(X: Any) -> Rows:
    """The records as float32 or float64 rows; not-a-number and infinity pass.

    A batch is refused for its shape or dtype, never for what a record holds, and the message
    quotes no record. That is why scikit-learn sees the batch last: its own messages on shape and
    dtype print the array.

    >>> as_rows([[1, 2], [3, float("inf")]])
    array([[ 1.,  2.],
           [ 3., inf]])
    >>> as_rows([["Ann", "Bo"]])
    Traceback (most recent call last):
    tidegate.checks.InvalidValueError: the records' dtype must be real, of at most 64 bits, got <U3
    """
    batch = X if issparse(X) else np.asarray(X)
    if batch.ndim != 2:
        shape = "two-dimensional (Reshape your data: one record a row)"
        raise refuse("the records' array", shape, f"{batch.ndim} dimension(s)")
    if batch.dtype.kind not in "biuf" or batch.dtype.itemsize > 8:
        raise refuse("the records' dtype", "real, of at most 64 bits", str(batch.dtype))
    kinds = [np.float64, np.float32]
    rows = check_array(batch, accept_sparse="csr", dtype=kinds, ensure_all_finite=False)
    if issparse(rows) and not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def entries_of(rows: Rows) -> NDArray[Any]:
    """The stored entries: all of a dense array, those of a sparse one in the order of its rows."""
    return rows if isinstance(rows, np.ndarray) else rows.data


def owners_of(rows: Rows) -> NDArray[np.intp]:
    """The number of the row that owns each entry of `entries_of`, in a shape that broadcasts.

    >>> owners_of(csr_array([[1, 0, 2], [0, 0, 0], [0, 3, 0]])).tolist()
    [0, 0, 2]
    >>> owners_of(np.zeros((3, 2))).tolist()
    [[0], [1], [2]]
    """
    numbers = np.arange(rows.shape[0])
    if isinstance(rows, np.ndarray):
        return numbers[:, None]
    return np.repeat(numbers, np.diff(rows.indptr))


def with_entries(rows: Rows, entries: NDArray[Any]) -> Rows:
    """Rows of the same kind and shape with other entries."""
    if isinstance(rows, np.ndarray):
        return entries
    return type(rows)((entries, rows.indices, rows.indptr), rows.shape)


def row_exponents(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For each row an e with all entries below 2^e in size, and whether the row is finite.

    e is the least one, but not below -900: that keeps every later power of two in range.

    >>> row_exponents(as_rows([[3.0, -4.0], [0.5, np.nan]]))
    (array([3, 0]), array([ True, False]))
    """
    if isinstance(rows, np.ndarray):
        peaks = np.maximum(rows.max(axis=1), -rows.min(axis=1)).astype(np.float64)
    else:
        peaks = np.zeros(rows.shape[0])
        sizes = np.where(np.isnan(rows.data), np.inf, np.abs(rows.data))
        np.maximum.at(peaks, owners_of(rows), sizes)
    finite = np.isfinite(peaks)
    exponents = np.frexp(np.where(finite, peaks, 0.5))[1]
    return np.maximum(exponents, -900).astype(np.int64), finite


def nan_if_not_finite(rows: Rows) -> Rows:
    """The rows with each one that holds infinity or not-a-number made all not-a-number.

    In a sparse row only the stored entries change; at least one is stored.

    >>> nan_if_not_finite(as_rows([[3.0, 4.0], [0.0, np.inf]]))
    array([[ 3.,  4.],
           [nan, nan]])
    """
    finite = row_exponents(rows)[1]
    kept = np.where(finite[owners_of(rows)], entries_of(rows), np.nan)
    return with_entries(rows, kept.astype(rows.dtype))
