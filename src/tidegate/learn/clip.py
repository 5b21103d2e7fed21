"""Clip rows onto a ball, so that the exact norm of what is stored is within it."""

from typing import Any

import numpy as np
from scipy import sparse

from tidegate.checks import between
from tidegate.learn.loss import UNIT, Floats

Matrix = Any
"""An array or a scipy CSR array, of float32 or float64 (scipy has no types to name)."""


def clip_rows(X: Matrix, norm: float) -> Matrix:
    """X with every row outside the ball of radius `norm` scaled onto it, in X's own precision.

    The exact Euclidean norm of every row that comes back, as stored, is at most `norm`: a row
    is scaled a little further in than to the sphere, by more than all roundings together can
    take back (proof: docs/proofs/minimiser.md, "Clipping"). Rows safely inside come back bit for
    bit, so clipping twice is clipping once. All entries must be finite.

    Args:
        X: Array or CSR array of shape (n, d), float32 or float64.
        norm: Radius of the ball.

    Example:
        >>> X = clip_rows(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0)
        >>> X.round(6).tolist(), bool(np.hypot(*X[0]) <= 1)
        ([[0.6, 0.8], [0.3, 0.4]], True)
    """
    between("norm", norm, 2.0**-100, 2.0**100)
    if sparse.issparse(X):
        X = sparse.csr_array(X, copy=True)
        X.sum_duplicates()
    norms = row_norms(X)
    error = _norm_error(X.shape[1])
    outside = norms * (1 + error) > norm
    if not outside.any():
        return X
    inward = 1 - 3 * error - 2 * np.finfo(X.dtype).eps
    factors = np.where(outside, norm * inward / np.where(outside, norms, 1), 1)
    if sparse.issparse(X):
        X.data = (X.data * _by_entry(X, factors)).astype(X.dtype)
        return X
    clipped = np.array(X)
    clipped[outside] = X[outside] * factors[outside, None]
    return clipped


def row_norms(X: Matrix) -> Floats:
    """Euclidean norm of each row in float64, never off by more than a factor 1 ± (d + 16) 2^-53.

    >>> row_norms(np.array([[3e300, 4e300], [0, 0]]))
    array([5.e+300, 0.e+000])
    """
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite shows in the result
        if sparse.issparse(X):
            largest = np.asarray(abs(X).max(axis=1).todense(), np.float64).reshape(-1)
            scaled = X.data / _by_entry(X, np.where(largest > 0, largest, 1))
            rows = _by_entry(X, np.arange(X.shape[0]))
            squares = np.bincount(rows, scaled * scaled, minlength=X.shape[0])
            norms: Floats = largest * np.sqrt(squares)
            return norms
        squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
        norms = np.sqrt(squares)
        extreme = ~((squares > 2.0**-900) & (squares < 2.0**900))
        if extreme.any():
            rows = X[extreme]
            largest = np.abs(rows).max(axis=1, initial=0).astype(np.float64)
            scaled = rows / np.where(largest > 0, largest, 1)[:, None]
            norms[extreme] = largest * np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    return norms


def _norm_error(features: int) -> float:
    return (features + 16) * UNIT


def _by_entry(X: Matrix, per_row: Floats | np.ndarray[Any, Any]) -> Any:
    """A number per row, repeated for each stored entry of a CSR array."""
    return np.repeat(per_row, np.diff(X.indptr))
