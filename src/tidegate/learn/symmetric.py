"""Powers of symmetric matrices and their equations, the same numbers on every machine.

A library's routines may add in another order on another machine, and `verify` computes transforms
again. Here every entry is made by single IEEE operations in a fixed order.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
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
