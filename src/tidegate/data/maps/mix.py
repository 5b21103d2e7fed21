"""Multiplies rows by a matrix, exactly: a row's result is the same anywhere in a batch.

Proof: docs/proofs/survey.md.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.data.maps.feature_map import Graph

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


def mixed_in_onnx(graph: Graph, rows: str, matrix: NDArray[Any]) -> str:
    """Add what `mixed` computes, of rows of doubles; return the name of its result."""
    most, finer, coarser = (
        graph.constant(each) for each in (LARGEST_ENTRY, 2.0**ENTRY_BITS, 2.0**-ENTRY_BITS)
    )
    size, sign = graph.op("Abs", rows), graph.op("Sign", rows)
    beyond = graph.op("Greater", size, most)  # false for NaN, which stays NaN
    bounded = graph.op("Where", beyond, most, size)
    kept = graph.op("Add", bounded, graph.op("Mul", rows, 0.0))  # NaN if infinite
    whole = graph.op("Floor", graph.op("Mul", kept, finer))
    cut = graph.op("Mul", graph.op("Mul", whole, coarser), sign)
    return graph.op("MatMul", cut, matrix.astype(np.float64))
