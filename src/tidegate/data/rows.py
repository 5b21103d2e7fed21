"""Records as the rows of a dense or sparse matrix, and what is done to them: each by itself.

Norms, clipping, centring, mixing and exact products depend on a row alone, bit for bit: on no other
row of a batch, nor on its place in it. Proofs: docs/proofs/clipping.md, survey.md and
exact-products.md.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from tidegate.checks import InvalidValueError, between, refuse, whole

Rows: TypeAlias = NDArray[Any] | csr_array
"""One row per record: an array of floats or a CSR matrix without duplicate entries."""

CHUNK = 2**16
"""Number of entries processed at a time: few enough to stay in a core's own cache."""


def as_rows(X: Any) -> Rows:
    """The records as float32 or float64 rows; NaN and infinity are allowed.

    A batch is refused for its shape or dtype, never for the values of a record, and the error
    quotes no record.

    >>> as_rows([[1, 2], [3, float("inf")]])
    array([[ 1.,  2.],
           [ 3., inf]])
    >>> as_rows([["Ann", "Bo"]])
    Traceback (most recent call last):
    tidegate.checks.InvalidValueError: the records' dtype must be real, of at most 64 bits, got <U3
    """
    batch: Any = X if issparse(X) else np.asarray(X)
    if batch.ndim != 2:
        shape = "two-dimensional (Reshape your data: one row per record)"
        raise refuse("the records' array", shape, shown=f"{batch.ndim} dimension(s)")
    if batch.dtype.kind not in "biuf" or batch.dtype.itemsize > 8:
        raise refuse("the records' dtype", "real, of at most 64 bits", shown=str(batch.dtype))
    for size, what in zip(batch.shape, ("sample(s)", "feature(s)"), strict=True):
        if not size:  # in the words of scikit-learn
            found = f"Found array with 0 {what} (shape={batch.shape})"
            raise InvalidValueError(f"{found} while a minimum of 1 is required.")
    rows: Any = batch.tocsr() if issparse(batch) else batch
    if rows.dtype not in [np.float64, np.float32]:
        rows = rows.astype(np.float64)
    if issparse(rows) and not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    kept: Rows = rows
    return kept


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


# --- clipping


SELECT_BELOW = 0.25
"""Below this share of rows, it is faster to select those to be scaled than to scale all."""


LEAST_NORM, MOST_NORM, MOST_COLUMNS = 2**-64, 2**64, 2**31
"""For which norms and widths the constants are proved."""


def clip_rows(X: Any, norm: float) -> Rows:
    """Scale every row longer than `norm` back onto the ball, in its own dtype.

    The exact Euclidean norm of the stored floats, taken as real numbers, is at most `norm`. A row
    well inside the ball is unchanged. A row within a few roundings of the sphere, or beyond it, is
    scaled to lie those few roundings inside, so clipping it again changes nothing. The constants
    are proved in docs/proofs/clipping.md. A row that is not finite becomes NaN.

    >>> clip_rows([[3.0, 4.0], [0.3, 0.4]], norm=1.0).round(12)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    >>> clip_rows(np.full((1, 4), 1e300), norm=1.0).round(12)
    array([[0.5, 0.5, 0.5, 0.5]])
    """
    return clipped_and_finite(X, norm)[0]


@np.errstate(all="ignore")
def clipped_and_finite(X: Any, norm: float) -> tuple[Rows, NDArray[np.bool_]]:
    """The rows that `clip_rows` returns, never sharing memory with X, and which are finite.

    >>> rows, finite = clipped_and_finite([[3.0, 4.0], [0.0, np.inf]], norm=1.0)
    >>> rows.round(12), finite
    (array([[0.6, 0.8],
           [nan, nan]]), array([ True, False]))
    """
    rows = as_rows(X)
    copy = with_entries(rows, entries_of(rows).copy())
    return copy, clip_in_place(copy, norm)


@np.errstate(all="ignore")
def clip_in_place(rows: Rows, norm: float) -> NDArray[np.bool_]:
    """Clip float rows as `clip_rows` does, in their own memory; return which are finite.

    There may be none.

    >>> rows = np.array([[3.0, 4.0], [0.3, 0.4]])
    >>> clip_in_place(rows, norm=1.0)
    array([ True,  True])
    >>> rows.round(12)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """
    outside, powers, factors = _judged(rows, norm)
    if not outside.any():
        return ~outside
    if not isinstance(rows, np.ndarray):
        counts = np.diff(rows.indptr)
        few = np.repeat(outside, counts)
        times, more = (np.repeat(each[outside], counts[outside]) for each in (powers, factors))
        rows.data[few] = rows.data[few] * times * more
    elif outside.mean() < SELECT_BELOW or (powers[outside] != 1).any():
        rows[outside] = rows[outside] * powers[outside, None] * factors[outside, None]
    else:  # the others times 1, exactly
        np.multiply(rows, np.where(outside, factors, 1)[:, None], out=rows, casting="same_kind")
    return ~np.isnan(factors)


def _judged(
    rows: Rows, norm: float
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Which rows to scale, and each row's power and factor; a NaN factor if it is not finite."""
    columns = rows.shape[1]
    if type(norm) is bool or not LEAST_NORM < norm < MOST_NORM or not 1 <= columns <= MOST_COLUMNS:
        between("norm", norm, LEAST_NORM, MOST_NORM)
        whole("the number of columns", columns, most=MOST_COLUMNS)
    # Bounds the rounding errors of a norm and of a scaling, relative to the norm.
    margin = (2 * columns + 16) * 2.0**-53 + float(np.finfo(rows.dtype).eps)
    norms, powers = row_norms(rows)
    outside = ~(norms <= norm * (1 - margin) * powers)
    return outside, powers, norm * (1 - 2 * margin) / norms


# --- centring and mixing


NO_MIX = np.zeros((0, 0), np.float32)
"""The matrix of a transform that has none."""


Floats = NDArray[np.float64]


MOST_MIXED = 64
"""The most features that a matrix mixes."""


LARGEST_ENTRY, ENTRY_BITS = 32.0, 28
"""An entry of a row counts as at most this large, and is truncated to so many fractional bits."""


LARGEST_MIX, MIX_BITS = 32.0, 12
"""The largest norm of a column of the matrix, and the number of its fractional bits."""


def on_mix_lattice(matrix: NDArray[Any]) -> Floats:
    """A matrix, rounded to the lattice on which products with it are exact.

    It is only roughly what was asked for, but all that is computed with it is exact.
    """
    return np.asarray(np.rint(matrix * 2.0**MIX_BITS) * 2.0**-MIX_BITS)


def mixes(matrix: NDArray[Any], features: int) -> bool:
    """Whether a matrix can mix so many features, or is empty."""
    if matrix.shape == (0, 0):
        return True
    if matrix.shape != (features, features) or features > MOST_MIXED:
        return False
    exact = matrix.astype(np.float64)
    small = bool(((exact * exact).sum(axis=0) <= LARGEST_MIX**2).all())  # False for NaN
    return small and np.array_equal(on_mix_lattice(exact), exact)


def mixed(rows: Floats, matrix: NDArray[Any]) -> Floats:
    """The rows times a matrix.

    >>> mixed(np.array([[1.0, 2.0]]), np.array([[1.0, 0.5], [0.5, 1.0]]))
    array([[2. , 2.5]])
    """
    with np.errstate(invalid="ignore"):
        kept = np.clip(rows, -LARGEST_ENTRY, LARGEST_ENTRY) + 0 * rows  # what is infinite: NaN
    kept *= 2.0**ENTRY_BITS
    np.trunc(kept, out=kept)
    kept *= 2.0**-ENTRY_BITS
    return np.asarray(kept @ matrix.astype(np.float64)) + 0.0  # so that no zero has a sign


def centred_rows(
    X: Rows,
    center: NDArray[Any],
    scale: NDArray[Any],
    constant: float,
    mix: NDArray[Any] = NO_MIX,
) -> Rows:
    """The rows scale * (x - center), mixed, clipped to norm 1, and a constant column.

    Each depends on its own row alone. A sparse row keeps its kind, so its center must be 0. There
    may be no row.

    >>> centred_rows(np.array([[3.0, 4.0], [0.25, 0.5]]), np.zeros(2), np.ones(2), 0.15).round(3)
    array([[0.6 , 0.8 , 0.15],
           [0.25, 0.5 , 0.15]])
    """
    if X.shape[1] != center.size:
        raise refuse("X", f"of {center.size} columns", shown=f"{X.shape[1]}")
    center, scale = center.astype(np.float64), scale.astype(np.float64)
    if not isinstance(X, np.ndarray):
        if center.any() or mix.size:
            raise refuse("center", "0 for sparse rows, without mix", shown="another number")
        return _scaled(X, scale, constant)
    result = np.empty((X.shape[0], center.size + 1), X.dtype)
    for part in chunks(result):  # few enough rows to stay in a core's cache
        moved = X[part].astype(np.float64)
        moved -= center
        moved *= scale
        result[part, :-1] = mixed(moved, mix) if mix.size else moved
        clip_in_place(result[part, :-1], 1.0)
    result[:, -1] = constant
    return result


def _scaled(X: csr_array, scale: NDArray[np.float64], constant: float) -> csr_array:
    scaled = (X.data * scale[X.indices]).astype(X.dtype)
    clip_in_place(with_entries(X, scaled), 1.0)
    ends = X.indptr + np.arange(X.indptr.size, dtype=X.indptr.dtype)
    given = np.ones(X.nnz + X.shape[0], np.bool_)  # the other places are for the constant:
    given[ends[1:] - 1] = False  # after the last entry of each row
    data = np.full(given.size, constant, X.dtype)
    indices = np.full(given.size, scale.size, X.indices.dtype)
    data[given], indices[given] = scaled, X.indices
    return type(X)((data, indices, ends), (X.shape[0], scale.size + 1))


# --- exact products


def exact_product(
    rows: Rows, whole: NDArray[np.float64] | csr_array, *, bits: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Multiply without rounding: rows @ whole as whole numbers and a power of two for each row.

    A BLAS chooses the order of additions by the shape of the batch, so the last bits of a row's
    product would depend on how many other rows there are. To prevent that, each row is first
    rounded to a lattice of its own, 2^-a of the power of two above its largest entry, with
    a = 53 - bits - log2(columns) rounded down. Every product and partial sum is then a whole number
    of lattice steps of size at most 2^53, which float64 adds exactly in any order: see
    docs/proofs/exact-products.md.

    Args:
        rows: shape (records, columns).
        whole: whole numbers of size at most 2^bits, shape (columns, features).
        bits: see `whole`.

    Returns:
        The product in lattice steps, shape (records, features), and the step of each row, shape
        (records, 1); the step of a row that is not finite is NaN.

    >>> steps, step = exact_product(np.array([[1.0, 0.25]]), np.array([[3.0], [-4.0]]), bits=2)
    >>> steps * step
    array([[2.]])
    """
    width = 53 - bits - (rows.shape[1] - 1).bit_length()
    exponents, finite = row_exponents(rows)
    grow = np.ldexp(1.0, width - exponents)
    owners = owners_of(rows)
    usable = np.where(finite[owners], entries_of(rows), 0.0)
    product: Any = with_entries(rows, np.rint(usable * grow[owners])) @ whole
    step = np.where(finite, np.ldexp(1.0, exponents - width), np.nan)
    steps = product.toarray() if issparse(product) else product
    return steps + 0.0, step[:, None]  # + 0.0: zeros may sum to -0.0 in some orders only
