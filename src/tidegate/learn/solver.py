"""Minimise an objective to a certified gradient norm, in few passes over the records.

The fast method is preconditioned L-BFGS on draft gradients; exact float64 gradients finish and
certify the result. If it does not reach the tolerance, accelerated and then plain gradient descent
take over. The passes of the last are bounded in advance, so no fit ever fails.
docs/proofs/minimiser.md proves the certificate, its rounding bound and that count.
"""

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from tidegate.checks import refuse
from tidegate.learn.loss import Loss
from tidegate.learn.objective import Bounds, Objective, Weights

FAST_PASSES = 2000
"""Passes after which the fast method gives way to those with a guarantee."""

Pairs = deque[tuple[Weights, Weights]]
"""Steps, each with the change of the gradient along it."""

MEMORY = 20
"""Number of pairs that L-BFGS keeps."""

PATIENCE = 100
"""Passes without a smaller gradient after which float32, or then float64, is given up."""

DRAFT_FLOOR = 2.0**-23
"""Gradient norm, relative to G, below which float32 drafts are mostly rounding."""


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Weights with a proof of how near they are to the minimiser.

    Attributes:
        weights: The array that was certified, float64.
        gradient_norm: Bound on the exact gradient norm at `weights`, including rounding errors. It
            depends on the records: never publish it for a private fit.
    """

    weights: Weights
    gradient_norm: float


@dataclass(frozen=True, kw_only=True)
class _Certificate:
    """The test that a point is provably close enough to the minimiser, by its exact gradient."""

    center: Weights
    tolerance: float
    bound: float
    reach: float

    def of(self, w: Weights, gradient: Weights) -> Solution | None:
        norm = float(np.linalg.norm(gradient)) + self.bound
        inside = float(np.linalg.norm(w - self.center)) <= self.reach
        return (
            Solution(weights=w, gradient_norm=norm) if norm <= self.tolerance and inside else None
        )


def certified_minimum(
    objective: Objective, tolerance: float, start: Weights | None = None
) -> Solution:
    """A point whose exact gradient norm is proved to be at most `tolerance`.

    Its distance to the exact minimiser is then at most tolerance / (2 lambda). A tolerance below
    twice the rounding bound is refused before any record is read. The search begins at `start`, or
    at the center.

    >>> from tidegate.learn.loss import Logistic
    >>> from tidegate.data.records import Records
    >>> records = Records(np.eye(2), np.array([0, 1]), np.ones(2, np.bool_))
    >>> F = Objective(records, Logistic(), regularization=0.5, norm=1.0)
    >>> certified_minimum(F, 1e-9).weights.round(6)
    array([-0.222323,  0.222323])
    """
    certificate = _certificate(objective, tolerance)
    try:
        w, gradient = _fast(objective, certificate, objective.center if start is None else start)
    except (ArithmeticError, np.linalg.LinAlgError):  # failing would be an output too
        w = objective.center
        gradient = objective.gradient(w)
    return (
        certificate.of(w, gradient)
        or _accelerated(objective, w, gradient, certificate)
        or _plain(objective, certificate)
    )


def _certificate(objective: Objective, tolerance: float) -> _Certificate:
    # math.hypot, because squares of a public center could overflow
    center_norm = math.hypot(*objective.center.flat) * (1 + 1e-9)
    bounds = Bounds(
        loss=objective.loss,
        d=objective.d,
        norm=objective.norm,
        regularization=objective.regularization,
        center_norm=center_norm,
        tolerance=tolerance,
    )
    bound = bounds.rounding_bound
    if not tolerance >= 2 * bound:
        least = f"at least {2 * bound:.3g} (float64 can prove no smaller one)"
        raise refuse("tolerance", least, tolerance)
    return _Certificate(
        center=objective.center, tolerance=tolerance, bound=bound, reach=bounds.radius
    )


def _fast(objective: Objective, certificate: _Certificate, w: Weights) -> tuple[Weights, Weights]:
    """Run L-BFGS from w and return the last point with its exact-pass gradient.

    Passes are drafts until the next step is likely to reach the tolerance. Only gradients are used:
    on a convex function the slope along a line is enough, and near the minimum it is not lost in
    rounding, as differences of values are.
    """
    floor = DRAFT_FLOOR * objective.loss.lipschitz(objective.norm)
    pairs = Pairs(maxlen=MEMORY)
    draft = max(objective.norm, certificate.reach) < 2.0**50  # within float32's range
    gradient = objective.gradient(w, draft=draft)
    direction, step = -_inverse(objective, pairs, gradient), 1.0
    smallest, rate, unimproved = float(np.linalg.norm(gradient)), 1.0, 0
    for _ in range(FAST_PASSES):
        draft = draft and smallest > floor and smallest * rate > certificate.tolerance
        if not np.vdot(gradient, direction) < 0:  # rounding has spoilt the pairs
            if not pairs:
                break
            pairs.clear()
            direction, step = -_inverse(objective, pairs, gradient), 1.0
            continue
        trial = w + step * direction
        if np.array_equal(trial, w):
            break
        trial_gradient = objective.gradient(trial, draft=draft)
        if not draft and certificate.of(trial, trial_gradient):
            return trial, trial_gradient
        norm = float(np.linalg.norm(trial_gradient))
        rate, unimproved = norm / (smallest or 1.0), 0 if norm < smallest else unimproved + 1
        smallest = min(norm, smallest)
        if unimproved == PATIENCE:
            if not draft:
                break
            draft, smallest, unimproved = False, math.inf, 0
        slope, trial_slope = (float(np.vdot(g, direction)) for g in (gradient, trial_gradient))
        if trial_slope > -0.9 * slope:  # far past the minimum on this line: step back
            step *= max(0.1, slope / (slope - trial_slope))
            continue
        pair = (trial - w, trial_gradient - gradient)
        # F is 2 lambda-strongly convex: curvature below half of that is rounding error
        if np.vdot(*pair) > objective.regularization * np.vdot(pair[0], pair[0]):
            pairs.append(pair)
        w, gradient = trial, trial_gradient
        direction, step = -_inverse(objective, pairs, gradient), 1.0
    return w, objective.gradient(w)


def _inverse(objective: Objective, pairs: Pairs, gradient: Weights) -> Weights:
    """The L-BFGS estimate of the inverse Hessian, applied to the gradient."""
    q = gradient.copy()
    factors = []
    for s, change in reversed(pairs):
        factors.append(np.vdot(s, q) / np.vdot(s, change))
        q -= factors[-1] * change
    q = objective.precondition(q)
    for (s, change), factor in zip(pairs, reversed(factors), strict=True):
        q += (factor - np.vdot(change, q) / np.vdot(s, change)) * s
    return q


def _condition(objective: Objective) -> tuple[float, float]:
    """Smoothness L of F, and its ratio to the strong convexity 2 lambda."""
    condition = condition_of(objective.loss, objective.norm, objective.regularization)
    return condition * 2 * objective.regularization, condition


def condition_of(loss: Loss, norm: float, regularization: float) -> float:
    """The ratio of smoothness to strong convexity of an objective.

    >>> from tidegate.learn.loss import Logistic
    >>> round(condition_of(Logistic(), norm=1.0, regularization=0.5), 6)
    1.25
    """
    strong = 2 * regularization
    return (loss.smoothness(norm) + strong) * (1 + 1e-12) / strong


def _accelerated(
    objective: Objective, w: Weights, gradient: Weights, certificate: _Certificate
) -> Solution | None:
    """Accelerated descent in rounds that halve the gradient norm; None if rounding prevents it."""
    smooth, condition = _condition(objective)
    root = math.sqrt(condition)
    momentum = (root - 1) / (root + 1)
    while True:
        start, ahead = float(np.linalg.norm(gradient)), w
        for _ in range(_steps_to_halve(condition)):
            if solution := certificate.of(ahead, gradient):
                return solution
            last, w = w, ahead - gradient / smooth
            ahead = w + momentum * (w - last)
            gradient = objective.gradient(ahead)
        gradient = objective.gradient(w)
        if not np.linalg.norm(gradient) <= start / 2:
            return None


def _steps_to_halve(condition: float) -> int:
    """How many steps of accelerated descent halve the gradient norm, whatever the records."""
    return math.ceil(math.sqrt(condition) * math.log(8 * condition))


def accelerated_passes(condition: float, fall: float) -> int:
    """Most passes that accelerated descent takes to reduce the gradient norm by a factor.

    Args:
        condition: The ratio of smoothness to strong convexity.
        fall: The factor: the norm at the start divided by the norm to reach.

    >>> accelerated_passes(1.5e6, fall=1e11)
    738705
    """
    return (_steps_to_halve(condition) + 1) * max(1, math.ceil(math.log2(fall)))


def worst_case_passes(objective: Objective, tolerance: float) -> int:
    """Most passes that plain gradient descent takes from the center, despite rounding errors.

    >>> from tidegate.learn.loss import Logistic
    >>> from tidegate.data.records import Records
    >>> records = Records(np.eye(2), np.array([0, 1]), np.ones(2, np.bool_))
    >>> F = Objective(records, Logistic(), regularization=0.5, norm=1.0)
    >>> worst_case_passes(F, 1e-6)
    119
    """
    _, condition = _condition(objective)
    ratio = objective.loss.lipschitz(objective.norm) / tolerance
    logarithm = math.log(8 * condition) + 2 * math.log(max(1.0, ratio))
    return math.ceil(3.125 * condition * logarithm) + 2


def _plain(objective: Objective, certificate: _Certificate) -> Solution:
    """Gradient descent from the center, which reaches the tolerance despite rounding errors."""
    smooth, _ = _condition(objective)
    w = certificate.center
    for _ in range(worst_case_passes(objective, certificate.tolerance)):
        gradient = objective.gradient(w)
        if solution := certificate.of(w, gradient):
            return solution
        if not np.isfinite(gradient).all():
            break
        w = w - gradient / smooth
    raise RuntimeError("a record is not finite or exceeds the norm: clip all rows with clip_rows")
