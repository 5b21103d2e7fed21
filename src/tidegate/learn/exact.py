"""Records and weights on lattices: margins and sums are exact in any order and on any BLAS.

Proof: lemmas 2 and 4 of docs/proofs/gradient.md.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.data.records import Records, zeroed
from tidegate.data.rows import Rows, chunks, entries_of, lane_sum, with_entries
from tidegate.learn.slot_weights import weighing

Floats = NDArray[np.float64]
Labels = NDArray[Any]
Perturb = Callable[[Floats, float], Floats]
"""Adds N(0, sigma^2) to each coordinate: (center, sigma) -> noisy center."""

MAX_WEIGHT = 2.0**400
"""Weights are clipped to this size, so that everything computed from them is finite."""


class Exact(NamedTuple):
    """A part whose features are truncated to their lattice, with the norms of its rows.

    Attributes:
        rows: The features.
        lengths: The norm of each row.
        y: The class index of each slot.
        slot_weights: The weight of each slot; None if all are 1.
        person_weights: What each slot counts for in its person; None if records are protected.
    """

    rows: Rows
    lengths: Floats
    y: Labels
    slot_weights: Floats | None
    person_weights: Floats | None = None

    @classmethod
    def of(
        cls, records: Records, *, bits: int, weighted: bool = False, persons: bool = False
    ) -> "Exact":
        """Convert records; an unusable slot becomes zeros, so its gradient is 0."""
        records = weighing(records, expected=weighted, persons=persons)
        kept = zeroed(records.X, ~records.usable)
        rows = on_lattice(kept, bits)
        lengths, more = row_lengths(rows), (records.slot_weights, records.person_weights)
        return cls(rows, lengths, records.y, *more)

    @property
    def limits(self) -> Floats | None:
        """By how much the clip of each slot is lowered: person weight over slot weight."""
        if self.person_weights is None or self.slot_weights is None:
            return self.person_weights
        none = np.zeros_like(self.person_weights)
        return np.divide(
            self.person_weights, self.slot_weights, out=none, where=self.slot_weights > 0
        )


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
