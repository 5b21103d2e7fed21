"""Records as the rows of a dense or sparse matrix, with any numbers in them."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import check_array

from tidegate.checks import refuse

Rows: TypeAlias = NDArray[Any] | csr_array
"""One row per record: an array of floats or a CSR matrix without duplicate entries."""

CHUNK = 2**16
"""Number of entries processed at a time: few enough to stay in a core's own cache."""


def as_rows(X: Any) -> Rows:
    """The records as float32 or float64 rows; NaN and infinity are allowed.

    A batch is refused for its shape or dtype, never for the values of a record, and the error
    quotes no record. That is why scikit-learn checks the batch last: its own errors about shape and
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
        shape = "two-dimensional (Reshape your data: one row per record)"
        raise refuse("the records' array", shape, shown=f"{batch.ndim} dimension(s)")
    if batch.dtype.kind not in "biuf" or batch.dtype.itemsize > 8:
        raise refuse("the records' dtype", "real, of at most 64 bits", shown=str(batch.dtype))
    kinds = [np.float64, np.float32]
    rows = check_array(batch, accept_sparse="csr", dtype=kinds, ensure_all_finite=False)
    if issparse(rows) and not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def entries_of(rows: Rows) -> NDArray[Any]:
    """The stored entries: all of a dense array, or those of a sparse one row by row."""
    return rows if isinstance(rows, np.ndarray) else rows.data


def owners_of(rows: Rows) -> NDArray[np.intp]:
    """The row number of each entry of `entries_of`, in a shape that broadcasts.

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


def chunks(rows: NDArray[Any]) -> Iterator[slice]:
    """Slices of the rows with about `CHUNK` entries each, at least one row.

    >>> list(chunks(np.zeros((5, 2**15))))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    count, columns = rows.shape
    step = max(1, CHUNK // columns)
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


@np.errstate(all="ignore")
def row_norms(rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The Euclidean norm of each row times a power of two, and that power.

    The power is 1 unless the squares of the row leave the range of float64. Both depend on the
    row alone. The relative error is bounded in docs/proofs/clipping.md; the norm of a row that
    is not finite is NaN.

    >>> row_norms(as_rows([[3.0, 4.0], [0.0, np.inf]]))[0]
    array([ 5., nan])
    >>> norms, powers = row_norms(as_rows([[3e200, 4e200], [3e-200, 4e-200]]))
    >>> norms / powers
    array([5.e+200, 5.e-200])
    """
    sums = _square_sums(rows)
    powers = np.ones_like(sums)
    odd = ~((sums >= 2.0**-900) & (sums <= 2.0**1000))
    if odd.any():
        powers[odd] = np.where(sums[odd] < 1, 2.0**600, 2.0**-600)
        few = rows[odd]
        scaled = entries_of(few) * powers[odd][owners_of(few)]
        sums[odd] = _square_sums(with_entries(few, scaled))
    return np.sqrt(np.where(np.isfinite(sums), sums, np.nan)), powers


def _square_sums(rows: Rows) -> NDArray[np.float64]:
    """The sum of the squares of each row, added in the same order in every batch.

    Dense rows are transposed, so that `lane_sum` fixes the order of the additions.
    """
    if not isinstance(rows, np.ndarray):
        squares = rows.data.astype(np.float64) ** 2
        sums = np.bincount(owners_of(rows), squares, minlength=rows.shape[0])
        return sums.astype(np.float64, copy=False)  # integers if there are no entries
    totals = np.empty(rows.shape[0])
    for part in chunks(rows):
        terms = np.array(rows[part].T, dtype=np.float64, order="C")
        terms *= terms
        totals[part] = lane_sum(terms)
    return totals


def lane_sum(terms: NDArray[Any]) -> NDArray[Any]:
    """The sum of each column, overwriting the terms: lines are added, always in the same order.

    The lower half is added to the upper half until a single line remains. `sum` would choose the
    order by the shape and memory layout of the whole array.

    >>> lane_sum(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    array([ 9., 12.])
    """
    height = len(terms)
    while height > 1:
        upper = (height + 1) // 2
        terms[: height - upper] += terms[upper:height]
        height = upper
    total: NDArray[Any] = terms[0]
    return total


def row_exponents(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For each row, an e with all entries below 2^e in size, and whether the row is finite.

    e is the smallest possible, but at least -900, which keeps later powers of two in range.

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
    """The rows, with NaN throughout each row that has an infinite or NaN entry.

    In a sparse row only the stored entries change; such a row has at least one.

    >>> nan_if_not_finite(as_rows([[3.0, 4.0], [0.0, np.inf]]))
    array([[ 3.,  4.],
           [nan, nan]])
    """
    finite = row_exponents(rows)[1]
    kept = np.where(finite[owners_of(rows)], entries_of(rows), np.nan)
    return with_entries(rows, kept.astype(rows.dtype))
