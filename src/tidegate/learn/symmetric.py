"""Powers of symmetric matrices and their equations, the same numbers on every machine.

A library's routines may add in another order on another machine, and `verify` computes transforms
again. Here every entry is made by single IEEE operations or by `math.fsum`.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SWEEPS = 12
"""Rounds over all pairs of coordinates; after about six, nothing changes any more."""


def eigen(matrix: Floats) -> tuple[Floats, Floats]:
    """The eigenvalues of a symmetric matrix and its eigenvectors, as columns (Jacobi's method).

    >>> values, vectors = eigen(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> sorted(values.round(9).tolist())
    [1.0, 3.0]
    """
    left, vectors = matrix.astype(np.float64), np.eye(len(matrix))
    for _ in range(SWEEPS):
        for i in range(len(left)):
            for j in range(i + 1, len(left)):
                _turn(left, vectors, i, j)
    return left.diagonal().copy(), vectors


def _turn(left: Floats, vectors: Floats, i: int, j: int) -> None:
    """Rotate coordinates i and j, so that the entry (i, j) becomes 0."""
    between = float(left[i, j])
    first, last = float(left[i, i]), float(left[j, j])
    if abs(between) <= 2.0**-60 * math.sqrt(abs(first * last)):
        return
    ratio = (last - first) / (2 * between)
    if abs(ratio) > 2.0**500:
        return
    tangent = math.copysign(1 / (abs(ratio) + math.sqrt(1 + ratio * ratio)), ratio)
    cosine = 1 / math.sqrt(1 + tangent * tangent)
    sine = tangent * cosine
    for turned in (left.T, left, vectors.T):
        one, other = turned[i].copy(), turned[j].copy()
        turned[i], turned[j] = cosine * one - sine * other, sine * one + cosine * other


def product(left: Floats, right: Floats) -> Floats:
    """A matrix product, each entry rounded once."""
    columns = right.T
    return np.array([[math.fsum((row * each).tolist()) for each in columns] for row in left])


def solved(matrix: Floats, right: Floats) -> Floats:
    """The x with matrix x = right, for a symmetric matrix of positive eigenvalues.

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
