"""exp, log and the logistic function, from a fixed sequence of IEEE operations.

A library's exp may round a number differently by its place in an array, by the array's length or by
the processor. These use nothing but elementwise + - * /, comparisons, table look-ups and shifts of
bits, each of which IEEE 754 defines: every number gives the same result in every lane of every
array, on every machine. Proof of their errors: docs/proofs/elementary.md.
"""

from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEAST, MOST = -708.0, 709.0
"""`exp` takes other numbers for the nearer of these two: it neither under- nor overflows."""

DOUBLINGS = 11
PARTS = 2**DOUBLINGS
"""exp(x) = 2^(k / PARTS) exp(r), k a whole number and r at most log(2) / PARTS / 2 in size."""

PER_UNIT = float.fromhex("0x1.71547652b82fep+11")
"""PARTS / log(2), to the nearest."""

PART_HIGH = float.fromhex("0x1.62e42fecp-12")
"""log(2) / PARTS without its last bits: multiplied by a whole number up to 2^21, it is exact."""

PART_LOW = float.fromhex("0x1.d1cf79abc9e3bp-43")
"""The rest of log(2) / PARTS, to the nearest."""

MAGIC = 1.5 * 2.0**52
"""Added to a number below 2^51 in size, it leaves the nearest whole number in the last bits."""

LOG2_HIGH = float.fromhex("0x1.62e42fefa38p-1")
"""log(2) without its last bits: multiplied by a whole number up to 2^11, it is exact."""

LOG2_LOW = float.fromhex("0x1.ef35793c7673p-45")
"""The rest of log(2), to the nearest."""

ODD = tuple(1 / n for n in range(21, 2, -2))
"""The coefficients of the series of artanh(s) = s (1 + s^2/3 + s^4/5 + ...), the last first."""

CHUNK = 2**13
"""Numbers processed at a time: few enough to stay in a core's own cache."""


def _powers() -> Floats:
    """2^(j / PARTS) for each j, to the nearest: from whole numbers, alike on every machine."""
    places = 200
    root = 2 << places
    for _ in range(DOUBLINGS):
        root = isqrt(root << places)
    powers = [1 << places]
    for _ in range(PARTS - 1):
        powers.append(powers[-1] * root >> places)
    return np.array([power / (1 << places) for power in powers])


POWERS = _powers()

BITS = POWERS.view(np.int64) - (np.arange(PARTS) << 52 - DOUBLINGS)
"""The bits of each power, less j << 41: with k << 41 added, they are those of 2^(k / PARTS)."""


def exp(x: NDArray[Any]) -> NDArray[Any]:
    """The exponential of each number, with a relative error below 3 * 2**-53.

    Arrays of another type than float64, which only drafts have, go to NumPy.

    >>> exp(np.array([0.0, 1.0, -1e9]))
    array([1.00000000e+000, 2.71828183e+000, 3.30755300e-308])
    """
    if x.dtype != np.float64:
        edges = (-87.0, 88.0) if x.dtype == np.float32 else (LEAST, MOST)
        return np.asarray(np.exp(np.clip(x, *edges)))
    given = np.ascontiguousarray(x).reshape(-1)
    results = np.empty(x.shape)
    made = results.reshape(-1)
    room = np.empty((3, min(CHUNK, given.size)))
    for start in range(0, given.size, CHUNK):
        part = slice(start, start + CHUNK)
        _exp(given[part], made[part], room[:, : given[part].size])
    return results


def _exp(x: Floats, result: Floats, room: Floats) -> None:
    """Write the exponential of each number; the room is overwritten."""
    r, k, q = room
    np.clip(x, LEAST, MOST, out=r)
    np.multiply(r, PER_UNIT, out=k)
    k += MAGIC  # its last bits are those of the whole number k
    np.subtract(k, MAGIC, out=q)
    np.multiply(q, PART_HIGH, out=result)
    r -= result
    q *= PART_LOW
    r -= q
    np.multiply(r, 1 / 6, out=q)  # q = r + r^2/2 + r^3/6, close to exp(r) - 1
    q += 0.5
    q *= r
    q *= r
    q += r
    whole, index, bits = k.view(np.int64), r.view(np.int64), result.view(np.int64)
    np.bitwise_and(whole, PARTS - 1, out=index)
    np.take(BITS, index, out=bits, mode="clip")
    whole <<= 52 - DOUBLINGS
    bits += whole  # now result = 2^(k / PARTS)
    q *= result
    result += q


def logistic(x: NDArray[Any]) -> NDArray[Any]:
    """1 / (1 + exp(-x)), with a relative error below 5 * 2**-53.

    >>> logistic(np.array([0.0, 1.0, -1e9]))
    array([5.00000000e-001, 7.31058579e-001, 1.21678075e-308])
    """
    result = exp(-x)
    result += 1
    np.divide(1, result, out=result)
    return result


def log(x: Floats) -> Floats:
    """The natural logarithm of positive normal numbers, with a relative error below 8 * 2**-53.

    >>> log(np.array([1.0, 2.0, 0.001]))
    array([ 0.        ,  0.69314718, -6.90775528])
    """
    m, e = np.frexp(x)
    low = m < 0.7071067811865476
    m, e = np.where(low, 2 * m, m), np.where(low, e - 1, e).astype(np.float64)
    s = (m - 1) / (m + 1)
    square = s * s
    series = np.full_like(s, ODD[0])
    for coefficient in ODD[1:]:
        series = series * square + coefficient
    series = series * square + 1
    return np.asarray(e * LOG2_HIGH + (e * LOG2_LOW + 2 * s * series))
