"""Means and histograms: the closed form of the squared distance, with noise on an exact sum.

With F(w) = mean ||x - w||^2 + lambda ||w - c||^2 the minimiser is (mean + lambda c)/(1 + lambda). The
noise goes to the *sum* of the records, which is exact; the rest is post-processing. Proof:
docs/proofs/mean.md.
"""

from fractions import Fraction

import numpy as np

from tidegate.features.rows import Rows
from tidegate.learn.gradient import lattice_bits, truncate
from tidegate.learn.learner import Weights
from tidegate.privacy.bits import Bits
from tidegate.privacy.budget import Allowance
from tidegate.privacy.noise import gaussian, l2_laplace, laplace
from tidegate.privacy.rounding import up

SQRT2_UP = 1.4142135623730951  # the float just above the square root of 2
"""The diameter of the one-hot vectors and the origin."""


def noisy_mean(rows: Rows, norm: float, allowance: Allowance, bits: Bits) -> Weights:
    """The private mean of rows of norm at most `norm`, over all slots.

    Args:
        rows: One row a slot; an unusable one holds zeros, the public stand-in, with weight 1.
        norm: The public bound; replacing a record moves the sum by at most twice that.
        allowance: What the mean may cost.
        bits: Where the randomness comes from.

    >>> from tidegate.privacy.bits import NotPrivateBits
    >>> rows = np.full((10_000, 2), 0.5)
    >>> noisy_mean(rows, 1.0, Allowance("mu", 1.0), NotPrivateBits(7)).round(3)
    array([0.5, 0.5])
    """
    n = rows.shape[0]
    lattice, _ = lattice_bits(n, norm, norm)
    total = np.asarray(truncate(rows, lattice).sum(axis=0), np.float64)
    add_noise = l2_laplace if allowance.unit == "epsilon" else gaussian
    scale = up(2 * Fraction(norm) / Fraction(allowance.amount))
    return add_noise(total, scale, bits) / n


def noisy_histogram(counts: Weights, n: int, allowance: Allowance, bits: Bits) -> Weights:
    """The private fractions of n slots that fall in each category.

    Args:
        counts: How many slots do; those in none count in none.
        n: The number of slots.
        allowance: What the histogram may cost.
        bits: Where the randomness comes from.

    >>> from tidegate.privacy.bits import NotPrivateBits
    >>> counts = np.array([2500.0, 7500.0])
    >>> noisy_histogram(counts, 10_000, Allowance("epsilon", 1.0), NotPrivateBits(7)).round(3)
    array([0.25, 0.75])
    """
    if allowance.unit == "epsilon":  # replacing a record moves two counts by one: 2 in the L1 norm
        return laplace(counts, up(2 / Fraction(allowance.amount)), bits) / n
    return gaussian(counts, up(Fraction(SQRT2_UP) / Fraction(allowance.amount)), bits) / n


def drawn_to(mean: Weights, prior: Weights | None, regularization: float) -> Weights:
    """The minimiser (mean + lambda c)/(1 + lambda) for a prior c; the mean itself without one.

    >>> drawn_to(np.array([1.0]), np.array([0.0]), 1.0)
    array([0.5])
    """
    if prior is None:
        return mean
    return (mean + regularization * prior) / (1 + regularization)
