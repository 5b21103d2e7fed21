"""Clip records onto a ball so that the exact norm of what is stored keeps the bound."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin

from tidegate.checks import between, whole
from tidegate.features.record_map import RecordMap
from tidegate.features.rows import (
    Rows,
    as_rows,
    entries_of,
    owners_of,
    row_exponents,
    with_entries,
)


def clip_rows(X: Any, norm: float) -> Rows:
    """Scale every row longer than `norm` back onto the ball, in the dtype it came in.

    The promise is on the exact Euclidean norm of the stored floats, taken as real numbers: it is
    at most `norm`. A row well inside comes back as it is, one within a few roundings of the
    sphere or beyond is scaled to lie those few roundings inside, so clipping twice is clipping
    once. The constants are proved in docs/proofs/clipping.md. A row that is not finite
    becomes not-a-number.

    >>> clip_rows([[3.0, 4.0], [0.3, 0.4]], norm=1.0).round(12)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    >>> clip_rows(np.full((1, 4), 1e300), norm=1.0).round(12)
    array([[0.5, 0.5, 0.5, 0.5]])
    """
    norm = between("norm", norm, 2**-64, 2**64)
    rows = as_rows(X)
    margin = _margin(rows.shape[1], rows.dtype)
    exponents, finite = row_exponents(rows)
    # Bring the largest entry of a row near 2^32, so that no square overflows and the power of two
    # is never subnormal. Not-a-number as this power makes an unusable row not-a-number throughout.
    power = np.where(finite, np.ldexp(1.0, 32 - exponents), np.nan)
    owners, entries = owners_of(rows), entries_of(rows)
    scaled = entries * power[owners]
    if isinstance(rows, np.ndarray):
        norms = np.sqrt(_row_sums(scaled**2))
    else:
        norms = np.sqrt(np.bincount(owners, scaled**2, minlength=rows.shape[0]))
    outside = ~(norms <= norm * (1 - margin) * power)
    factors = np.divide(norm * (1 - 2 * margin), norms, out=np.ones_like(norms), where=outside)
    clipped = np.where(outside[owners], scaled * factors[owners], entries)
    return with_entries(rows, clipped.astype(rows.dtype))


class NormClip(OneToOneFeatureMixin, RecordMap):
    """Clip each record onto the ball of radius `norm`.

    Args:
        norm: the public bound on the Euclidean norm of every record, from 2^-64 to 2^64.

    >>> NormClip(norm=5.0).transform([[6.0, 8.0], [0.0, 0.0]]).round(12)
    array([[3., 4.],
           [0., 0.]])
    """

    def __init__(self, norm: float = 1.0) -> None:
        self.norm = norm

    def _map(self, rows: Rows) -> Rows:
        return clip_rows(rows, self.norm)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _margin(columns: int, dtype: np.dtype[Any]) -> float:
    """What the roundings of a norm and of a scaling may add up to, relative to the norm."""
    whole("the number of columns", columns, most=2**31)
    return (2 * columns + 16) * 2.0**-53 + float(np.finfo(dtype).eps)


def _row_sums(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of each row, overwriting the terms.

    Adding the right half to the left until one column remains fixes the order of the additions,
    where `sum` is free to choose it by the shape and memory layout of the whole batch.
    """
    width = terms.shape[1]
    while width > 1:
        left = (width + 1) // 2
        terms[:, : width - left] += terms[:, left:width]
        width = left
    return terms[:, 0]
