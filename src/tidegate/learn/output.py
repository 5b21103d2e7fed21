"""Output perturbation: the certified minimiser plus noise scaled to its sensitivity.

Proofs: docs/proofs/minimiser.md (sensitivity) and docs/proofs/noise.md (noise).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np

from tidegate.checks import MAX_COUNT, between, positive, refuse
from tidegate.data.records import Parts, Records
from tidegate.kinds import parameter
from tidegate.learn.learner import Task, Terms, Unit, Weights, register
from tidegate.learn.objective import Objective, rounding_bound
from tidegate.learn.rules import RULES, UNNUMBERED
from tidegate.learn.slot_weights import by_person, reweighed
from tidegate.learn.solver import accelerated_passes, certified_minimum, condition_of
from tidegate.privacy.budget import Allowance, down, up
from tidegate.privacy.noise import Bits, gaussian, l2_laplace, lattice
from tidegate.schedule.fit import SlotWeight, mass

MAX_PASSES = 10**6
"""Most passes over its records that a fit may take in the accelerated method's worst case."""

LARGEST_CONDITION = 2**21
"""Largest condition number of a fit with automatic lambda: any n stays within MAX_PASSES."""


@register
@dataclass(frozen=True, kw_only=True)
class OutputPerturbation:
    """Solve each fit to a certified tolerance, then add noise once; for both kinds of budget.

    Args:
        slack: How much the solver's tolerance may add to the sensitivity, as a fraction of it.
            Smaller values need more passes over the records, larger ones more noise. If float64
            cannot prove so small a tolerance, one that it can prove is used.

    >>> from tidegate.learn.loss import Softmax
    >>> task = Task(loss=Softmax(10), norm=1.0, regularization=0.01)
    >>> round(OutputPerturbation().sensitivity(task, n=8192, d=784), 6)
    0.017279
    >>> from tidegate.learn.loss import Logistic
    >>> task = Task(loss=Logistic(), norm=1.0, regularization=0.01)
    >>> round(OutputPerturbation().sensitivity(task, n=8192, d=784), 6)
    0.009197
    """

    kind: ClassVar[str] = "output"
    about: ClassVar[str] = "noise on the solution of a fit, for any budget"
    budgets: ClassVar[tuple[Unit, ...]] = ("epsilon", "mu")
    automatic: ClassVar[tuple[Unit, ...]] = ("epsilon",)
    descends: ClassVar[bool] = False
    default_regularization: ClassVar[float | None] = None

    slack: float = parameter(
        "how much the solver's tolerance may add to the sensitivity, as a fraction of it",
        partial(between, low=0, high=1),
        default=2.0**-10,
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "slack", between("slack", self.slack, 0, 1))

    def check(self, task: Task, unit: str) -> None:  # noqa: ARG002 (supports both kinds)
        """Refuse a task whose sensitivity would have no bound."""
        if not math.isfinite(task.loss.lipschitz(task.norm)):
            allowed = "one with bounded gradients for OutputPerturbation, such as huber"
            raise refuse("loss", allowed, shown=type(task.loss).__name__)
        if task.regularization is not None and task.regularization <= 0:
            raise refuse("regularization", "above 0 for OutputPerturbation", task.regularization)

    def check_size(self, task: Task, largest: int | None) -> None:
        """Refuse a lambda so small that a fit could take more than `MAX_PASSES`."""

        def few_passes(pull: float) -> bool:
            return self.passes(replace(task, regularization=pull), largest) <= MAX_PASSES

        if not task.regularization or few_passes(task.regularization):
            return
        low, high = task.regularization, task.loss.smoothness(task.norm)
        while high > 1.01 * low:
            middle = math.sqrt(low) * math.sqrt(high)
            low, high = (low, middle) if few_passes(middle) else (middle, high)
        while not few_passes(float(_two_digits_up(high))):  # a larger lambda can take more of them
            high *= 1.01
        allowed = f"at least {_two_digits_up(high)} for a norm of {task.norm:g}"
        why = f"or a fit could take more than {MAX_PASSES:,} passes over its records"
        raise refuse("regularization", f"{allowed}, {why}", task.regularization)

    def passes(self, task: Task, n: int | None) -> float:
        """Most passes of the accelerated method from the center, wherever that is.

        They follow from public numbers, whatever the number of features. The result is infinite if
        float64 cannot prove the tolerance, or if there are far more than `MAX_PASSES`.

        Args:
            task: A task with a lambda.
            n: Number of slots; None for the worst case over all n.
        """
        pull, bound = _given_regularization(task), task.loss.lipschitz(task.norm)
        condition = condition_of(task.loss, task.norm, pull)
        if condition > MAX_PASSES**2:  # to halve the gradient takes more passes than its root
            return math.inf
        # With more features or another center, the tolerance is no smaller.
        tolerance = self.tolerance(task, MAX_COUNT if n is None else n, d=1)
        proved = _provable(task, 1, tolerance)
        if tolerance < 2 * proved:
            return math.inf
        # As n grows, the tolerance falls until it is 2.5 times the rounding bound.
        reached = 1.5 * proved if n is None else 0.6 * tolerance
        return accelerated_passes(condition, bound / reached)

    def pull(self, task: Task, n: float, d: int, allowance: Allowance) -> float:
        """Lambda: the task's, or one that keeps the deviation of noise in a margin below 1/8.

        That deviation is at most R Delta/mu, or R Delta sqrt(p + 1)/epsilon for p coordinates, with
        Delta at most G/(lambda n), G being the bound on gradients everywhere. Lambda is at least
        what `LARGEST_CONDITION` requires. All these numbers are public.
        """
        if task.regularization is not None:
            return task.regularization
        allowed = allowance.amount / _coordinate_deviation(task, d, allowance)
        least = task.loss.smoothness(task.norm) / (2 * (LARGEST_CONDITION - 1))
        return max(8 * task.norm * task.loss.lipschitz(task.norm) / (n * allowed), least)

    def tolerance(
        self, task: Task, n: float, d: int, prior: Weights | None = None, rules: int = RULES
    ) -> float:
        """The gradient norm tau that the solver must reach: public, and provable in float64."""
        tolerance = self.slack * _steepest(task, prior, rules) / n
        for _ in range(8):  # the bound grows with the tolerance, but only slightly
            bound = _provable(task, d, tolerance, prior)
            if tolerance >= 2.5 * bound:
                break
            tolerance = 3 * bound
        return tolerance

    def sensitivity(
        self, task: Task, n: float, d: int, prior: Weights | None = None, rules: int = RULES
    ) -> float:
        """Delta = G/(lambda n) + tau/lambda, rounded up: how far one record can move the result.

        G bounds gradients at the minimiser; see `Loss.lipschitz_at_minimum`.

        Args:
            task: With a lambda.
            n: The sum of the slot weights, rounded up; without any, the number of slots.
            d: Number of features.
            prior: The point towards which the solution is pulled.
            rules: The number of the public rules; under rules 1, G bounds gradients everywhere.
        """
        tolerance = self.tolerance(task, n, d, prior, rules)
        exact = Fraction(_steepest(task, prior, rules)) / Fraction(n) + Fraction(tolerance)
        return up(exact / Fraction(_given_regularization(task)))

    def settings(self, task: Task, terms: Terms, *, n: int, d: int) -> Mapping[str, float]:
        """The public numbers of a fit; `noise_scale` is Delta/epsilon or Delta/mu, rounded up."""
        total = up(mass(terms.slot_weights, n))
        task = replace(task, regularization=self.pull(task, total, d, terms.allowance))
        tolerance = self.tolerance(task, total, d, terms.prior, terms.rules)
        sensitivity = self.sensitivity(task, total, d, terms.prior, terms.rules)
        stated = _settings(task, terms.allowance, d, tolerance, sensitivity)
        if terms.prior is None or terms.rules == UNNUMBERED:
            return stated
        return {**stated, "prior_norm": _length(terms.prior)}

    def restated(
        self, task: Task, terms: Terms, stated: Mapping[str, float], *, n: int, d: int
    ) -> Mapping[str, float]:
        """The settings for the norm of a prior that a card states, or under rules 1 the tolerance.

        Both sensitivity and tolerance depend on that norm.
        """
        if terms.prior is not None and terms.rules > UNNUMBERED:
            norm = np.array([between("prior_norm", stated["prior_norm"], 0, 2.0**512)])
            return self.settings(task, replace(terms, prior=norm), n=n, d=d)
        least = self.settings(task, terms, n=n, d=d)
        tolerance = positive("tolerance", stated["tolerance"])
        if terms.prior is None or tolerance <= least["tolerance"]:
            return least
        task = replace(task, regularization=least["regularization"])
        total = Fraction(up(mass(terms.slot_weights, n)))
        exact = Fraction(task.loss.lipschitz(task.norm)) / total + Fraction(tolerance)
        sensitivity = up(exact / Fraction(_given_regularization(task)))
        return _settings(task, terms.allowance, d, tolerance, sensitivity)

    def person_factors(
        self, task: Task, terms: Terms, *, n: int, d: int
    ) -> Mapping[float, float] | None:
        """See `PersonLearner`."""
        if not terms.slot_weights:
            return None
        return _factors(task, terms, self.settings(task, terms, n=n, d=d), up(terms.mass(n)))

    def fit(self, task: Task, terms: Terms, records: Parts[Records], bits: Bits) -> Weights:
        """Private weights for mean(loss) + lambda ||w - prior||^2, over all slots."""
        settings = self.settings(task, terms, n=records.n, d=records.d)
        total = up(mass(terms.slot_weights, records.n))
        parts = records
        if terms.persons:  # their weights are made of the factors already
            parts = parts.map(partial(by_person, expected=bool(terms.slot_weights)))
        elif terms.slot_weights:  # else nothing is mapped: a cluster would copy every part
            factors = _factors(task, terms, settings, total)
            parts = parts.map(partial(reweighed, factors=factors))
        objective = Objective(
            parts,
            task.loss,
            regularization=settings["regularization"],
            center=terms.prior,
            norm=task.norm,
            mass=total,
        )
        solution = certified_minimum(objective, settings["tolerance"])
        add_noise = l2_laplace if terms.allowance.unit == "epsilon" else gaussian
        return add_noise(solution.weights, settings["noise_scale"], bits)


def _steepest(task: Task, prior: Weights | None, rules: int) -> float:
    """G: half of how far apart the gradients of two records can be where it matters."""
    if rules == UNNUMBERED:
        return task.loss.lipschitz(task.norm)
    center = _length(prior) * (1 + 1e-6)
    return task.loss.lipschitz_at_minimum(
        task.norm, center_norm=center, regularization=_given_regularization(task)
    )


def _length(prior: Weights | None) -> float:
    """The norm of a prior; 0 for the origin."""
    return 0.0 if prior is None else math.hypot(*prior.flat)


def _factors(
    task: Task, terms: Terms, settings: Mapping[str, float], total: float
) -> Mapping[float, float]:
    """The factor of each slot weight; `total` is their sum, rounded up."""
    task = replace(task, regularization=settings["regularization"])
    steepest = Fraction(_steepest(task, terms.prior, terms.rules))
    theta = Fraction(settings["tolerance"]) * Fraction(total) / steepest
    return discounted(terms.slot_weights, theta)


def _settings(
    task: Task, allowance: Allowance, d: int, tolerance: float, sensitivity: float
) -> Mapping[str, float]:
    """The public numbers of a fit."""
    noise_scale = up(Fraction(sensitivity) / Fraction(allowance.amount))
    return {
        "regularization": _given_regularization(task),
        "sensitivity": sensitivity,
        "tolerance": tolerance,
        "noise_scale": noise_scale,
        "lattice": lattice(noise_scale * _coordinate_deviation(task, d, allowance)),
    }


def discounted(slot_weights: Sequence[SlotWeight], theta: Fraction) -> dict[float, float]:
    """The factor of each slot weight e in the objective: max(0, (1 + theta) e - theta).

    The solver's tolerance can move the solution by tau/lambda however small e is. With
    theta = tau M/G these factors make up for it: a slot of weight e moves the solution by at most
    e (G/M + tau)/lambda, which is what it is charged for. All numbers are rounded down.

    >>> from tidegate.schedule import Span
    >>> half = SlotWeight(Span(0, 9), Fraction(1, 2))
    >>> discounted([half], Fraction(1, 4)), discounted([half], Fraction(2))
    ({0.5: 0.375}, {0.5: 0.0})
    """
    factors: dict[float, float] = {}
    for _, weight in sorted(slot_weights, key=lambda each: each.part, reverse=True):
        # if two weights round to one float, the smaller decides
        factors[down(weight)] = down(max(Fraction(0), (1 + theta) * weight - theta))
    return factors


def _provable(task: Task, d: int, tolerance: float, prior: Weights | None = None) -> float:
    """The `rounding_bound` of a fit: how accurately float64 can prove its gradient norm."""
    return rounding_bound(
        task.loss,
        d=d,
        norm=task.norm,
        regularization=_given_regularization(task),
        center_norm=_length(prior) * (1 + 1e-6),
        tolerance=tolerance,
    )


def _coordinate_deviation(task: Task, d: int, allowance: Allowance) -> float:
    """The deviation of one released coordinate, in units of the noise scale."""
    return 1.0 if allowance.unit == "mu" else math.sqrt(math.prod(task.loss.shape(d)) + 1)


def _two_digits_up(value: float) -> str:
    """A positive number in two digits, rounded up.

    >>> _two_digits_up(5.41e-5), _two_digits_up(0.0998)
    ('5.5e-05', '0.1')
    """
    two_digits = Context(prec=2, rounding=ROUND_CEILING).create_decimal(value)
    return f"{float(two_digits):.2g}"


def _given_regularization(task: Task) -> float:
    """The task's lambda, which must be set."""
    if task.regularization is None:
        raise refuse("regularization", "a number above 0 in this task", None)
    return task.regularization
