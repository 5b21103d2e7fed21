"""The features of packed values: within their norm for any numbers that somebody stored."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.data.rows import clip_in_place

Floats = NDArray[Any]

GAP = 2.0
"""The packed form of a missing number, flag or year, whose own lie between -1 and 1."""


def unpack_number(packed: Floats, out: Floats) -> None:
    """Write a packed number in [-1, 1], or `GAP`, as itself and the indicator, if there is one."""
    gap = packed > (1 + GAP) / 2
    out[:, 0] = np.clip(np.where(gap | np.isnan(packed), 0, packed), -1, 1)
    out[:, 1:] = gap[:, None]


def unpack_vector(packed: Floats, out: Floats, size: int) -> None:
    """Write packed features of norm 1, and the indicator after them, if there is one."""
    vectors, indicator = out[:, :size], out[:, size:]
    vectors[:] = np.nan_to_num(packed[:, :size], posinf=0, neginf=0)
    if indicator.size:
        gap = packed[:, size] > 0.5
        vectors[gap] = 0
        indicator[gap] = 1
    if len(out):
        clip_in_place(vectors, 1.0)  # changes nothing that `pack` wrote


def places_of(packed: Floats, places: int) -> NDArray[np.intp]:
    """Packed places as whole numbers from 0 to places - 1, whatever the numbers are."""
    if packed.size and not (packed.min() >= 0 and packed.max() < places):  # NaN, or not ours
        packed = np.clip(np.nan_to_num(packed), 0, places - 1)
    return packed.astype(np.intp)
