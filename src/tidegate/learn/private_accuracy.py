"""The private accuracy of a model on records it has not seen.

Proof: docs/proofs/quality.md.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tidegate.data.predicted import predicted_codes
from tidegate.data.records import Records
from tidegate.learn.exact import exact_bits, exact_margins, exact_weights, on_lattice, truncate
from tidegate.learn.learner import Weights
from tidegate.learn.slot_weights import without_owners
from tidegate.learn.transform import UNTRANSFORMED, Prepared
from tidegate.privacy.budget import Allowance, up
from tidegate.privacy.noise import Bits, gaussian, laplace

Floats = NDArray[np.float64]

ROW_BITS = 24
"""Bits of features relative to the norm: as many as float32 has. Weights keep 29 or more."""


def margins_of(
    weights: Weights, records: Records, transform: Prepared = UNTRANSFORMED, *, norm: float
) -> Floats:
    """The margins of each slot, shape (n,) or (n, K); those of records are secret.

    Rows and weights are truncated to lattices first, so the margins of a row are exact: they depend
    on that row and the weights alone, wherever the row lies.

    Args:
        weights: A released model.
        records: The slots.
        transform: What the release does to rows.
        norm: The public bound on the norm of every record.
    """
    records, norm = transform.records(records), transform.norm(norm)
    bits = ROW_BITS - math.frexp(norm)[1]
    rows = on_lattice(records.X, bits)
    return exact_margins(exact_weights(weights, norm=norm, bits=bits), rows).T


def correct(
    weights: Weights, records: Records, transform: Prepared = UNTRANSFORMED, *, norm: float
) -> float:
    """How many slots the model classifies correctly; an unusable slot counts as wrong.

    If persons are protected, each slot counts as much as its person weight says. This number is
    secret; `private_accuracy` makes a private one of it.
    """
    codes = predicted_codes(margins_of(weights, without_owners(records), transform, norm=norm))
    right = (codes == records.y) & records.usable
    if records.person_weights is None:
        return int(np.count_nonzero(right))
    return float(truncate(records.person_weights, exact_bits(records.n, 1.0))[right].sum())


def deviation(slots: int, allowance: Allowance) -> float:
    """The standard deviation of the noise in a private accuracy."""
    return allowance.deviation(1 / allowance.amount / slots)


def private_accuracy(  # noqa: PLR0913 - the model, the records and public numbers
    weights: Weights,
    records: Records,
    transform: Prepared = UNTRANSFORMED,
    *,
    norm: float,
    allowance: Allowance,
    bits: Bits,
) -> float:
    """The fraction of all slots that the model classifies correctly, plus noise.

    If persons are protected, a person's slots count for one slot together, so it is smaller.

    Args:
        weights: A model trained without these records.
        records: The records of the next step.
        transform: What the release does to rows.
        norm: The public bound on the norm of every record.
        allowance: What each of these records pays.
        bits: Source of randomness.

    >>> from tidegate.privacy.noise import NotPrivateBits
    >>> records = Records(np.ones((1000, 1)), np.ones(1000, np.intp), np.ones(1000, bool))
    >>> round(private_accuracy(np.ones(1), records, norm=1.0, bits=NotPrivateBits(7),
    ...                        allowance=Allowance("epsilon", 1.0)), 2)
    1.0
    """
    count = np.array([float(correct(weights, records, transform, norm=norm))])
    scale = up(1 / Fraction(allowance.amount))  # replacing a record moves the count by one
    add_noise = laplace if allowance.unit == "epsilon" else gaussian
    return float(add_noise(count, scale, bits)[0]) / records.n
