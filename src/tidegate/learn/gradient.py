"""Gradient perturbation: descend along noisy sums of clipped gradients.

Every sum of gradients is exact, in any order and on any BLAS, so the proved sensitivity holds for
the computed sums. Proofs: docs/proofs/gradient.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np

from tidegate.checks import between, positive, refuse, whole
from tidegate.data.predicted import middle_of
from tidegate.data.records import Parts, Records, total
from tidegate.data.rows import lane_sum
from tidegate.kinds import Check, parameter, values_of
from tidegate.learn import refit
from tidegate.learn.descent import MAX_STEPS, Course, Descent, fastest_rate, travel
from tidegate.learn.exact import (
    MAX_FEATURES,
    MAX_SLOTS,
    MAX_WEIGHT,
    Floats,
    Perturb,
    exact_margins,
    exact_weights,
    lattice_bits,
    truncate,
)
from tidegate.learn.learner import Fitted, Task, Terms, Unit, Weights, register
from tidegate.learn.loss import Loss
from tidegate.learn.refit import Exact
from tidegate.learn.rules import UNNUMBERED
from tidegate.learn.transform import Transform
from tidegate.privacy.budget import up
from tidegate.privacy.noise import Bits, gaussian, lattice
from tidegate.schedule.fit import mass


@register
@dataclass(frozen=True, kw_only=True)
class GradientPerturbation:
    """Accelerated descent along noisy gradients; for ApproxDP budgets.

    An argument left None is computed from public numbers, so that the noise in a margin has a
    deviation of about 1 (0.6 for two classes with surveys, 1/16 for a target, whose range is 2
    wide). If the descent starts at an earlier model, the deviation is about n / (n + behind) of
    that: the new records as a fraction of all learnt from. See `descent`.

    Args:
        steps: number of gradients released.
        rate: learning rate.
        clip: largest norm of one record's gradient.
        spread: the deviation of the noise in a margin that steps and rate aim at, if left None. A
            smaller one moves less far.
        lead: how far a model that continues the release before it goes on in the direction in
            which it moved, as a fraction of that move; None for not at all. 0.4 helps where the mix
            of classes changes all the time.
    """

    kind: ClassVar[str] = "gradient"
    about: ClassVar[str] = "noise on every gradient of a descent, for a budget with a delta"
    budgets: ClassVar[tuple[Unit, ...]] = ("mu",)
    automatic: ClassVar[tuple[Unit, ...]] = ("mu",)
    descends: ClassVar[bool] = True
    default_regularization: ClassVar[float | None] = 0.0

    steps: int | None = parameter("number of gradients released", whole, default=None)
    rate: float | None = parameter("learning rate", positive, default=None)
    clip: float | None = parameter("largest norm of one record's gradient", positive, default=None)
    spread: float | None = parameter(
        "deviation of the noise in a margin that settings left out aim at", positive, default=None
    )
    lead: float | None = parameter(
        "how far a model goes on in the direction in which it moved from the release before, as a "
        "fraction of that move; none if left out",
        partial(between, low=0, high=1),
        default=None,
    )

    def __post_init__(self) -> None:
        checks: dict[str, Check] = {
            "steps": partial(whole, most=2**20),
            "lead": partial(between, low=0, high=1),
        }
        for name, value in values_of(self).items():
            object.__setattr__(self, name, checks.get(name, positive)(name, value))

    def descent(self, course: Course) -> Descent:
        """The settings of one fit, with those left None filled in.

        >>> d = GradientPerturbation().descent(Course(
        ...     slots=60_000, mu=0.268, norm=1.0, lipschitz=1.5, smoothness=0.5, features=784))
        >>> d.steps, round(d.rate, 1), round(d.clip, 3), round(d.sigma, 1)
        (85, 15.7, 0.525, 36.1)
        """
        slots, mu, norm = course.slots, course.mu, course.norm
        usual = min(self.clip or course.usual_clip, course.lipschitz)
        clip = between("clip", usual, norm * 2.0**-64, math.inf)
        # The noise of a mean gradient has deviation 2 C sqrt(J) / (n mu), so that of a margin has
        # about 2 C R horizon / (n mu), whatever the number of steps.
        new = slots / (slots + course.behind)
        spread = self.spread or course.usual_spread
        horizon = spread * new * slots * mu / (2 * clip * norm)
        steps, rate = course.pace(horizon, steps=self.steps, rate=self.rate)
        # Scale the starting model so that its noise and the new noise together have this deviation.
        own = 2 * clip * norm * rate * travel(steps) / (slots * mu * spread)
        keep = math.sqrt(1 - min(own, 1.0) ** 2) if course.continues else 1.0
        sigma = deviation(clip, steps, mu)
        lead = (self.lead or 0.0) if course.continues else 0.0
        return Descent(steps=steps, rate=rate, clip=clip, sigma=sigma, keep=keep, lead=lead)

    def check(self, task: Task, unit: str) -> None:
        """Refuse a pure budget: the noise is Gaussian."""
        del task
        if unit != "mu":
            allowed = "ApproxDP for GradientPerturbation (OutputPerturbation takes PureDP too)"
            raise refuse("budget", allowed, shown="PureDP")

    def check_size(self, task: Task, largest: int | None) -> None:
        """Accept every task: the number of steps is always bounded."""

    def settings(self, task: Task, terms: Terms, *, n: int, d: int) -> Mapping[str, float]:
        """The public numbers of a fit; noise and sensitivity are those of a mean gradient."""
        descent, of_refit = self.descent_of(task, terms, n, d), refit_divisor(terms, n)
        more = refit.settings(task.loss, terms.allowance.amount, of_refit) if task.surveyed else {}
        n = counted(terms, n)
        return {
            "steps": descent.steps,
            "rate": descent.rate,
            "clip": descent.clip,
            "noise_scale": descent.sigma / n,
            "sensitivity": up(Fraction(descent.sensitivity) / n),
            "lattice": lattice(descent.sigma) / n,
            **more,
        }

    def restated(
        self, task: Task, terms: Terms, stated: Mapping[str, float], *, n: int, d: int
    ) -> Mapping[str, float]:
        """The settings for the steps, rate and clip that a card states, where none were given.

        Those depend on what the fits before have read, which a card does not tell. But no default
        rate is above the fastest, and no default number of steps above the most.
        """
        if terms.rules != UNNUMBERED:
            fastest = fastest_rate(
                smoothness=task.loss.smoothness(task.norm),
                regularization=task.regularization or 0.0,
                features=d,
                target=task.predicts_target,
            )
            between("rate", stated["rate"], 0, self.rate or fastest * (1 + 2.0**-40))
            whole("steps", stated["steps"], most=self.steps or MAX_STEPS)
        given = replace(
            self,
            steps=self.steps or whole("steps", stated["steps"]),
            rate=self.rate or positive("rate", stated["rate"]),
            clip=self.clip or positive("clip", stated["clip"]),
        )
        return given.settings(task, terms, n=n, d=d)

    def descent_of(self, task: Task, terms: Terms, n: int, d: int) -> Descent:
        """The public numbers of one fit that reads n slots of d features."""
        mu = terms.allowance.amount
        course = Course(
            slots=sized(terms, counted(terms, n)),
            mu=refit.left_for_descent(mu) if refits(task) else mu,
            norm=task.norm,
            lipschitz=task.loss.lipschitz(task.norm),
            smoothness=task.loss.smoothness(task.norm),
            regularization=task.regularization or 0.0,
            behind=sized(terms, behind(terms, n), least=0),
            continues=again(terms),
            surveyed=task.surveyed,
            target=task.predicts_target,
            features=d,
            rules=terms.rules,
        )
        return self.descent(course)

    def earlier(self, task: Task) -> tuple["GradientPerturbation", ...]:
        """See `Changed`: the noise in a margin of two classes had a deviation of 1 before."""
        return () if self.spread or task.predicts_target else (replace(self, spread=1.0),)

    def person_factors(self, task: Task, terms: Terms, *, n: int, d: int) -> None:
        """See `PersonLearner`: gradients are weighed by the slot weights themselves."""

    def fit(self, task: Task, terms: Terms, records: Parts[Records], bits: Bits) -> Weights:
        """Private weights for mean(loss) + lambda ||w - prior||^2, over all slots."""
        return self.fitted(task, terms, records, bits).weights

    def fitted(self, task: Task, terms: Terms, records: Parts[Records], bits: Bits) -> Fitted:
        """What `fit` returns, and the fold of the refit that it contains."""
        descent = self.descent_of(task, terms, records.n, records.d)
        return descend(task, terms, records, descent, partial(gaussian, bits=bits))


def descend(
    task: Task, terms: Terms, records: Parts[Records], descent: Descent, perturb: Perturb
) -> Fitted:
    """Accelerated descent along noisy gradients.

    Args:
        task: The loss and the regularisation.
        terms: The settings of the fit. The descent starts at the prior, and the regulariser pulls
            towards it; without a prior, it starts at `terms.start` or at the `origin`.
        records: The slots.
        descent: The public numbers.
        perturb: The function that adds noise.
    """
    n, d = whole("slots", records.n, most=MAX_SLOTS), records.d
    whole("features", d, most=MAX_FEATURES)
    x_bits, e_bits = lattice_bits(n, task.norm, descent.clip)
    weighted = bool(terms.slot_weights)
    parts = records.map(partial(Exact.of, bits=x_bits, weighted=weighted, persons=terms.persons))
    slopes = partial(clipped_sum, loss=task.loss, clip=descent.clip, bits=e_bits)
    with_exact_margins = partial(exact_weights, norm=task.norm, bits=x_bits)
    divisor = counted(terms, n)
    first = origin(task, terms, d)
    center = first if terms.prior is None else terms.prior
    weights = center if terms.start is None else first + descent.keep * (terms.start - first)
    velocity = np.zeros_like(center)
    for j in range(descent.steps):
        momentum = j / (j + 3)
        # A rate that diverges must not raise an error: nobody has paid for that output.
        ahead = with_exact_margins(weights + momentum * velocity)
        slope = perturb(total(parts, partial(slopes, w=ahead)), descent.sigma) / divisor
        slope = slope + 2 * (task.regularization or 0.0) * (ahead - center)
        with np.errstate(over="ignore"):
            velocity = np.clip(momentum * velocity - descent.rate * slope, -MAX_WEIGHT, MAX_WEIGHT)
        weights = np.clip(weights + velocity, -MAX_WEIGHT, MAX_WEIGHT)
    if descent.lead and terms.start is not None:
        ahead = weights + descent.lead * (weights - terms.start)
        weights = np.clip(ahead, -MAX_WEIGHT, MAX_WEIGHT)
    if not refits(task):
        return Fitted(weights)
    weights = with_exact_margins(weights)
    fold = refit.fold_for(
        weights,
        parts,
        loss=task.loss,
        mu=terms.allowance.amount,
        divisor=float(refit_divisor(terms, n)),
        class_shares=terms.class_shares,
        new=1.0 if terms.prior is None else divisor / (divisor + behind(terms, n)),
        perturb=perturb,
    )
    return Fitted(fold.into(weights), fold)


def origin(task: Task, terms: Terms, d: int) -> Weights:
    """The model that knows no features: 0, or for a target the mean that surveys tell.

    Surveys are private, so this is post-processing. The mean is the weight of the constant column.
    """
    weights = np.zeros(task.loss.shape(d))
    if task.predicts_target and task.surveyed and terms.class_shares:
        weights[-1] = middle_of(terms.class_shares) / Transform.CONSTANT
    return weights


def again(terms: Terms) -> bool:
    """Whether a fit reads records with slot weights and starts at the release before."""
    return bool(terms.slot_weights and terms.behind)


def behind(terms: Terms, slots: int) -> int:
    """The number of records that the prior or start has learnt from; if unknown, as many as new."""
    return terms.behind or (0 if terms.prior is None else counted(terms, slots))


def refits(task: Task) -> bool:
    """Whether fits of a task have a refit: on transformed rows, by a loss with probabilities."""
    return task.surveyed and refit.classes_of(task.loss) > 0


def counted(terms: Terms, slots: int) -> int:
    """The sum of a fit's slot weights, rounded down: noisy sums of gradients are divided by it."""
    return max(1, int(mass(terms.slot_weights, slots)))


def refit_divisor(terms: Terms, slots: int) -> Fraction:
    """What the noisy sums of a refit are divided by; of persons, whose weights sum to less."""
    return terms.people(slots) if terms.persons else Fraction(counted(terms, slots))


def sized(terms: Terms, slots: int, *, least: int = 1) -> int:
    """A number of slots in units of what a person is expected to have, for sizing a descent.

    The sum of the person weights would be nearer, but it depends on owners.
    """
    return max(least, int(slots / terms.protects.typical))


def clipped_sum(part: Exact, *, w: Weights, loss: Loss, clip: float, bits: int) -> Floats:
    """The exact sum of a part's clipped gradients at w; sums of such sums are exact too."""
    residuals = clipped_residuals(part, w=w, loss=loss, clip=clip, bits=bits)
    return np.ascontiguousarray((residuals.T @ part.rows).T)


def clipped_residuals(part: Exact, *, w: Weights, loss: Loss, clip: float, bits: int) -> Floats:
    """The clipped residual of each slot, on its lattice: a gradient is a row times its residual.

    It depends on the slot's own row and label, wherever the slot lies, if w is `exact_weights`.
    """
    # Classes first: the loss expects that, and the float64 product takes half the time.
    residuals = loss.residual(exact_margins(w, part.rows), part.y).T.astype(np.float64, copy=False)
    limits = part.limits
    residuals = clipped(residuals, part.lengths, clip if limits is None else clip * limits)
    if part.slot_weights is not None:
        residuals = (residuals.T * part.slot_weights).T
    return np.asarray(truncate(residuals, bits))


def clipped(residuals: Floats, lengths: Floats, clip: float | Floats) -> Floats:
    """Residuals scaled down so that each gradient (row times residual) has norm <= clip.

    Args:
        residuals: one per row, (n,) or (n, K).
        lengths: the computed norms of the rows.
        clip: largest norm of a gradient, of all rows or of each.

    >>> clipped(np.array([[3.0, 4.0], [0.3, 0.4]]), np.array([2.0, 2.0]), 1.0).round(6)
    array([[0.3, 0.4],
           [0.3, 0.4]])
    """
    lanes = residuals.reshape(len(lengths), -1).T  # every operation below is lane by lane
    bound = clip * (1 - 2.0**-24)  # more slack than this function's rounding errors can use up
    sizes = np.abs(lanes[0]) if len(lanes) == 1 else np.sqrt(lane_sum(lanes * lanes))
    reached = np.maximum(lengths * sizes, bound)
    scale = bound / reached if isinstance(bound, float) else _quotient(bound, reached)
    scaled: Floats = (lanes * scale).T.reshape(residuals.shape)
    return scaled


def _quotient(over: Floats, under: Floats) -> Floats:
    """One array by another, 0 where the first is: a slot of person weight 0 adds nothing."""
    quotient: Floats = np.divide(over, under, out=np.zeros_like(over), where=over > 0)
    return quotient


def deviation(clip: float, steps: int, mu: float) -> float:
    """The noise deviation with which releasing `steps` sums of sensitivity 2 clip costs at most mu.

    >>> deviation(0.5, 4, 0.25) >= 2 * 0.5 * 2 / 0.25
    True
    """
    # Rounded up: the quotient has three roundings of at most 2**-53 each, the product one.
    return positive("sigma", 2 * clip * math.sqrt(steps) / mu * (1 + 2.0**-50))
