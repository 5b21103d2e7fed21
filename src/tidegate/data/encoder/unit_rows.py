"""Scales rows to norm 1, so that the exact norm of no stored row exceeds it."""

import numpy as np
from numpy.typing import NDArray

from tidegate.data.rows import clip_in_place, row_norms

Vectors = NDArray[np.float32]

MAX_WIDTH = 2**16
"""The most features that an encoder may make of a record."""


@np.errstate(all="ignore")
def unit_rows(rows: NDArray[np.float64]) -> Vectors:
    """Each row divided by its norm, in float32; the exact norm of the result is at most 1.

    Every row is scaled by itself, bit for bit. A row of zeros stays one; a row that is not finite
    becomes NaN.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0], [1.0, np.inf]])).round(6)
    array([[0.6, 0.8],
           [0. , 0. ],
           [nan, nan]], dtype=float32)
    """
    norms, powers = row_norms(rows)
    scaled = rows * powers[:, None] / np.where(norms == 0, 1, norms)[:, None]
    stored: Vectors = scaled.astype(np.float32)
    clip_in_place(stored, 1.0)
    return stored
