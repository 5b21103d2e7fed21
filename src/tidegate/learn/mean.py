"""Private means and histograms: exact sums plus noise, by the closed form of the squared distance.

The minimiser of mean ||x - w||^2 + lambda ||w - c||^2 is (mean + lambda c)/(1 + lambda). Noise is
added to the *sum* of the records, which is exact; the rest is post-processing. Proof:
docs/proofs/mean.md.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from tidegate.checks import whole
from tidegate.data.records import Parts, Records, total
from tidegate.data.rows import entries_of, owners_of, with_entries
from tidegate.learn.exact import exact_bits, truncate
from tidegate.learn.learner import Pull, Terms, Weights
from tidegate.learn.slot_weights import by_person, by_record, weighing
from tidegate.privacy.budget import Allowance, up
from tidegate.privacy.noise import Bits, gaussian, l2_laplace, laplace

SQRT2 = 1.4142135623730951
"""The float just above the square root of 2."""


class _NoisySum(ABC):
    """An exact weighted sum over the slots plus noise, divided by the weights; for both budgets.

    A slot of weight e enters the sum e times, so replacing it moves the sum by e times as much.
    """

    def check(self, task: Pull, unit: str) -> None:
        """Accept every task and both kinds of budget."""
        del task, unit

    def check_size(self, task: Pull, largest: int | None) -> None:
        """Accept any number of slots."""
        del task, largest

    def person_factors(self, task: Pull, terms: Terms, *, n: int, d: int) -> None:
        """See `PersonLearner`: records are weighed by the slot weights themselves."""
        del task, terms, n, d

    @abstractmethod
    def scale(self, task: Pull, allowance: Allowance) -> float:
        """The scale of the sum's noise."""

    @abstractmethod
    def summed(self, task: Pull, records: Parts[Records]) -> Weights:
        """The exact sum, which is secret."""

    @abstractmethod
    def pure_noise(self, center: Weights, scale: float, bits: Bits) -> Weights:
        """Add the noise for a pure budget."""

    def settings(self, task: Pull, terms: Terms, *, n: int, d: int) -> Mapping[str, float]:
        """The public numbers of a fit."""
        del d
        divisor = float(terms.people(n))
        return {
            "noise_scale": self.scale(task, terms.allowance) / divisor / (1 + _pull(task, terms))
        }

    def fit(self, task: Pull, terms: Terms, records: Parts[Records], bits: Bits) -> Weights:
        """The private mean of all slots, pulled towards the prior."""
        add_noise = self.pure_noise if terms.allowance.unit == "epsilon" else gaussian
        expected = bool(terms.slot_weights)
        if terms.persons:
            parts = records.map(partial(by_person, expected=expected))
        else:
            parts = records.map(partial(weighing, expected=True)) if expected else records
        noisy = add_noise(self.summed(task, parts), self.scale(task, terms.allowance), bits)
        divisor = float(terms.people(records.n))
        return drawn_to(noisy / divisor, terms.prior, _pull(task, terms))


@dataclass(frozen=True)
class MeanPerturbation(_NoisySum):
    """The mean of vectors in a ball.

    A slot that cannot be used counts as the centre of the ball, with its weight: leaving it out
    would make the denominator depend on the records.
    """

    def scale(self, task: Pull, allowance: Allowance) -> float:
        """The noise scale of the sum, which one record moves by at most the ball's diameter."""
        return up(2 * Fraction(task.norm) / Fraction(allowance.amount))

    def summed(self, task: Pull, records: Parts[Records]) -> Weights:
        """The sum of the vectors."""
        return total(records, partial(exact_sum, bits=exact_bits(records.n, task.norm)))

    def pure_noise(self, center: Weights, scale: float, bits: Bits) -> Weights:
        """Add noise for an L2 sensitivity."""
        return l2_laplace(center, scale, bits)


@dataclass(frozen=True)
class HistogramPerturbation(_NoisySum):
    """The fraction of slots in each category.

    A histogram is the mean of one-hot vectors. A slot in no category counts as the zero vector.

    Args:
        categories: Number of categories.
    """

    categories: int

    def __post_init__(self) -> None:
        whole("categories", self.categories, most=2**31)

    def scale(self, task: Pull, allowance: Allowance) -> float:
        """The noise scale of the counts: a record moves two by one each, 2 in L1, sqrt 2 in L2."""
        del task
        sensitivity = Fraction(2) if allowance.unit == "epsilon" else Fraction(SQRT2)
        return up(sensitivity / Fraction(allowance.amount))

    def summed(self, task: Pull, records: Parts[Records]) -> Weights:
        """The counts."""
        del task
        bits = exact_bits(records.n, 1.0)
        return total(records, partial(counted, categories=self.categories, bits=bits))

    def pure_noise(self, center: Weights, scale: float, bits: Bits) -> Weights:
        """Add noise for an L1 sensitivity."""
        return laplace(center, scale, bits)


def exact_sum(records: Records, *, bits: int) -> Weights:
    """The sum of the rows times their slot weights, truncated to a lattice: sums are exact."""
    by_record(records)
    rows = records.X.astype(np.float64, copy=False)  # a sum in float32 would round
    if records.slot_weights is not None:
        below = records.slot_weights * (1 - 2.0**-50)  # so that no product is rounded up
        rows = with_entries(rows, entries_of(rows) * below[owners_of(rows)])
    return np.asarray(truncate(rows, bits).sum(axis=0))


def counted(records: Records, *, categories: int, bits: int) -> Weights:
    """How many usable slots are in each category, each times its weight: exactly."""
    by_record(records)
    usable, slot_weights = records.usable, records.slot_weights
    weights = None if slot_weights is None else truncate(slot_weights, bits)[usable]
    return np.bincount(records.y[usable], weights, minlength=categories).astype(np.float64)


def _pull(task: Pull, terms: Terms) -> float:
    """Lambda, or 0 without a prior: the squared distance alone is strongly convex already."""
    return 0.0 if terms.prior is None else task.regularization or 0.0


def drawn_to(mean: Weights, prior: Weights | None, pull: float) -> Weights:
    """The minimiser (mean + lambda c)/(1 + lambda) for a prior c; the mean itself without one.

    >>> drawn_to(np.array([1.0]), np.array([0.0]), 1.0)
    array([0.5])
    """
    return mean if prior is None else (mean + pull * prior) / (1 + pull)
