"""Arithmetic that gives the same numbers in any order, on any BLAS and on every machine.

- Records and weights on lattices, so that margins and sums are exact: lemmas 2 and 4 of
  docs/proofs/gradient.md.
- exp, log and the logistic function, from a fixed sequence of IEEE operations. A library's exp may
  round a number differently by its place in an array, by the array's length or by the processor.
  These use nothing but elementwise + - * /, comparisons, table look-ups and shifts of bits, each
  of which IEEE 754 defines: every number gives the same result in every lane of every array.
  Proof of their errors: docs/proofs/elementary.md.
- Powers of symmetric matrices and their equations. A library's routines may add in another order
  on another machine, and `verify` computes transforms again; here every entry is made by single
  IEEE operations in a fixed order.
"""

import math
from collections.abc import Callable
from functools import cache
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.data.rows import Rows, chunks, entries_of, lane_sum, with_entries

Floats = NDArray[np.float64]
Labels = NDArray[Any]
Perturb = Callable[[Floats, float], Floats]
"""Adds N(0, sigma^2) to each coordinate: (center, sigma) -> noisy center."""

MAX_SLOTS = 2**29
"""Most slots of a fit. With more, features and residuals would keep fewer than about 11 bits."""

MAX_FEATURES = 2**26
"""Most features. With more, rounding errors of a norm could exceed the slack in `clipped`."""

MAX_WEIGHT = 2.0**400
"""Weights are clipped to this size, so that everything computed from them is finite."""


def on_lattice(rows: Rows, bits: int) -> Rows:
    """Rows as float64, truncated a few at a time, while they are in the cache."""
    if not isinstance(rows, np.ndarray) or not rows.size:
        return truncate(rows.astype(np.float64, copy=False), bits)
    made = np.empty(rows.shape)
    for part in chunks(rows):
        made[part] = truncate(rows[part].astype(np.float64, copy=False), bits)
    return made


def row_lengths(rows: Rows) -> Floats:
    """The norm of each row, rounded once if the squares are exact: see `lattice_bits`."""
    if isinstance(rows, np.ndarray):
        squares = np.einsum("ij,ij->i", rows, rows)
    else:
        squares = np.asarray(rows.multiply(rows).sum(axis=1)).reshape(-1)
    lengths: Floats = np.sqrt(squares)
    return lengths


def exact_weights(weights: Floats, *, norm: float, bits: int) -> Floats:
    """Weights rounded towards zero, to a lattice on which all margins are exact.

    Weights are private already, so this is post-processing. Of each column, 53 - bits - log2(norm)
    bits are kept relative to the longest column (or to 1/norm, if that is longer).

    Args:
        weights: One column, or one for each class.
        norm: The bound on the norm of the rows that they are multiplied with.
        bits: Those rows are on the lattice of multiples of 2**-bits.

    >>> exact_weights(np.array([0.1, -3.0]), norm=1.0, bits=45)
    array([ 0.09375, -3.     ])
    """
    kept = np.clip(weights, -MAX_WEIGHT, MAX_WEIGHT)
    longest = math.sqrt(lane_sum((kept * kept).reshape(len(kept), -1)).max())
    # No margin, nor any part of its sum, is larger; with room for the rounding of the norms.
    reach = max(1.0, longest * norm * (1 + 2.0**-20))
    return np.asarray(truncate(kept, 53 - bits - math.frexp(reach)[1]))


def exact_margins(weights: Floats, rows: Rows) -> Floats:
    """The margins of rows on a lattice at `exact_weights`, classes first."""
    margins = np.asarray(weights.T @ rows.T)
    margins += 0.0  # the sign of a zero is the only thing that could depend on the order
    return margins


def exact_bits(slots: int, bound: float) -> int:
    """The number of fractional bits that makes a sum of numbers of size at most `bound` exact.

    >>> exact_bits(2**20, 1.0), exact_bits(2**20 - 1, 1.0)
    (32, 33)
    """
    return 53 - math.frexp(slots * bound)[1]


def lattice_bits(slots: int, norm: float, clip: float) -> tuple[int, int]:
    """The numbers of fractional bits (a, b) of features and residuals that make every sum exact.

    slots * clip * 2**(a + b) stays below 2**53; the bits are divided so that features and residuals
    have the same relative precision.

    >>> lattice_bits(60_000, 1.0, 1.0)
    (18, 19)
    >>> lattice_bits(10**7, 1.0, 1.0)
    (14, 15)
    """
    both = exact_bits(slots, clip)
    features = (53 - (slots - 1).bit_length()) // 2 - math.ceil(math.log2(norm))
    return features, both - features


def truncate(values: Rows, bits: int) -> Rows:
    """Values rounded towards zero to multiples of 2**-bits, so that none grows.

    >>> truncate(np.array([0.7, -0.7]), 1)
    array([ 0.5, -0.5])
    """
    cut = entries_of(values) * 2.0**bits
    np.trunc(cut, out=cut)
    cut *= 2.0**-bits
    return with_entries(values, cut)


def array_of(values: object) -> Floats:
    """The numbers of a JSON list; ValueError for any other value, such as the text of a number.

    A text of ten letters can be a number that no float can hold.

    >>> array_of([1, 2.5])
    array([1. , 2.5])
    """
    array = np.array(values)
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise ValueError("not a list of finite numbers")
    return array.astype(np.float64)


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

POWER_BITS = POWERS.view(np.int64) - (np.arange(PARTS) << 52 - DOUBLINGS)
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
    np.take(POWER_BITS, index, out=bits, mode="clip")
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


Indices = NDArray[np.intp]

MAX_SWEEPS = 16
"""Most rounds over all pairs of coordinates; about six are enough."""

TINY = 2.0**-50
"""An entry beside the diagonal counts as 0 if it is this small, relative to the largest of all."""


def eigen(matrix: Floats) -> tuple[Floats, Floats]:
    """The eigenvalues of a symmetric matrix and its eigenvectors, as columns (Jacobi's method).

    >>> values, vectors = eigen(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> sorted(values.round(9).tolist())
    [1.0, 3.0]
    """
    d, small = len(matrix), TINY * float(np.abs(matrix).max())
    turned = np.vstack([matrix, np.eye(d)])  # below the matrix, the product of all rotations
    for _ in range(MAX_SWEEPS):
        moved = [_turn(turned, small, *pairs) for pairs in _rounds(d)]
        if not any(moved):
            break
    return turned.diagonal().copy(), turned[d:]


@cache
def _rounds(d: int) -> list[tuple[Indices, Indices]]:
    """All pairs of coordinates, in rounds of pairs that have none in common.

    >>> [list(zip(*(each.tolist() for each in pairs))) for pairs in _rounds(3)]
    [[(1, 2)], [(0, 2)], [(0, 1)]]
    """
    seats, rounds = [*range(d + d % 2)], []
    half = len(seats) // 2
    for _ in seats[1:]:
        met = zip(seats[:half], reversed(seats[half:]), strict=True)
        pairs = sorted((min(pair), max(pair)) for pair in met if max(pair) < d)
        one, other = np.array(pairs, np.intp).reshape(-1, 2).T
        rounds.append((one, other))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return rounds


def _turn(turned: Floats, small: float, i: Indices, j: Indices) -> bool:
    """Rotate pairs of coordinates, so that the entries (i, j) become 0; whether one was not."""
    diagonal = turned.diagonal()
    between, first, last = turned[i, j], diagonal[i], diagonal[j]
    large = np.abs(between) > small
    if not large.any():
        return False
    ratio = np.where(large, last - first, 1.0) / np.where(large, 2 * between, 1.0)
    tangent = np.copysign(1.0, ratio) / (np.abs(ratio) + np.sqrt(1 + ratio * ratio))
    cosine = 1 / np.sqrt(1 + np.where(large, tangent * tangent, 0.0))
    sine = np.where(large, tangent, 0.0) * cosine
    one, other = turned[:, i], turned[:, j]
    turned[:, i], turned[:, j] = one * cosine - other * sine, one * sine + other * cosine
    one, other, cosine, sine = turned[i], turned[j], cosine[:, None], sine[:, None]
    turned[i], turned[j] = one * cosine - other * sine, one * sine + other * cosine
    return True


def product(left: Floats, right: Floats) -> Floats:
    """A matrix product, its terms added one after the other."""
    found = np.zeros((len(left), right.shape[1]))
    for column, row in zip(left.T, right, strict=True):
        found += column[:, None] * row
    return found


def solved(matrix: Floats, right: Floats) -> Floats:
    """The x with matrix x = right, for a symmetric matrix of positive eigenvalues.

    The rows of such a matrix may be divided by positive numbers, if its columns are multiplied by
    the same.

    >>> solved(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([[2.0], [2.0]]))
    array([[1. ],
           [0.5]])
    """
    left, found = matrix.astype(np.float64), right.astype(np.float64)
    for i in range(len(left)):
        below = left[i + 1 :, i] / left[i, i]
        left[i + 1 :] -= below[:, None] * left[i]
        found[i + 1 :] -= below[:, None] * found[i]
    for i in reversed(range(len(left))):
        found[i] /= left[i, i]
        found[:i] -= left[:i, i, None] * found[i]
    return found
