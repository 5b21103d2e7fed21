"""The refit: a few noisy sums that correct how sharp a model's probabilities are.

Clipped gradients bias a model: its probabilities are too flat or too sharp. A refit spends a small
part of a fit's allowance on one log-temperature, and for two classes one shift, and folds both into
the weights. Proof: docs/proofs/refit.md.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import ClassVar, NamedTuple

import numpy as np

from tidegate.checks import refuse
from tidegate.data.records import Parts, Records, total, zeroed
from tidegate.data.rows import Rows, lane_sum
from tidegate.learn.exact import (
    Floats,
    Labels,
    Perturb,
    exact_bits,
    exact_margins,
    exp,
    logistic,
    on_lattice,
    row_lengths,
    truncate,
)
from tidegate.learn.loss import Logistic, Loss, Softmax
from tidegate.learn.slot_weights import weighing
from tidegate.learn.transform import Transform
from tidegate.privacy.budget import sqrt_down, up


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


class Fold(NamedTuple):
    """What a refit changes: margins are multiplied by e^temperature, then shifted.

    For two classes the temperature multiplies the part of a margin that comes from the features.
    """

    temperature: float = 0.0
    shift: float = 0.0

    def into(self, weights: Floats) -> Floats:
        """The weights whose margins are those of `weights` after the fold."""
        result = weights * math.exp(self.temperature)
        if weights.ndim == 1 or weights.shape[1] == 2:
            result[-1] = weights[-1] + self._on_constant(weights)
        return result

    def out_of(self, weights: Floats) -> Floats:
        """The weights before the fold, but for rounding; `weights` are those after it.

        >>> fold = Fold(0.5, -1.0)
        >>> fold.out_of(fold.into(np.array([1.0, 2.0, 3.0]))).round(9)
        array([1., 2., 3.])
        """
        if self == Fold():
            return weights
        result = weights * math.exp(-self.temperature)
        if weights.ndim == 1 or weights.shape[1] == 2:
            result[-1] = weights[-1] - self._on_constant(weights)
        return result

    def _on_constant(self, weights: Floats) -> float | Floats:
        """What the shift adds to the weights of the constant column."""
        shift = self.shift / Transform.CONSTANT
        return shift if weights.ndim == 1 else np.array([-shift, shift]) / 2


SHARE = Fraction(1, 25)
"""The part of a fit's share that the refit spends."""

ROUNDS = (Fraction(1, 4), Fraction(3, 4))
"""How a refit divides its share among its rounds."""

LOG_TEMPERATURE_RANGES = {2: (-2.0, 1.5), 3: (-1.5, 1.5)}
"""The range of the log-temperature for two classes, and for three or more."""

MIN_NEW_WEIGHT = 0.8
"""A fit's records count for at least this much in its shift, however few they are."""

DAMPING = 12.0
"""How much the squared deviation of the noise shortens a step."""

LARGEST_SHIFT = 10.0
"""The shift is kept within this size."""


@dataclass(frozen=True)
class Box:
    """The public numbers of a refit for K classes: what a slot's vector is clipped to.

    The vector is (residual . margins, variance of the margins), and for two classes also the
    residual, and how much the temperature moves it.

    >>> box = Box(2)
    >>> round(box.lo, 3), round(box.hi, 3), round(box.h, 3), round(box.sensitivity, 2)
    (0.278, 2.386, 0.439, 3.82)
    """

    classes: int

    CROSS: ClassVar[float] = 0.3125
    """The most that the residual of one record moves with the temperature."""

    @cached_property
    def lo(self) -> float:
        """The most that the slope of a well classified record lies below 0, rounded up.

        It is the largest z (1 - p(z)), where p(z) = 1/(1 + (K - 1) e^-z): a z - 1 at which
        (z - 1) e^(z - 1) = (K - 1)/e.
        """
        return _rounded(_root(lambda t: t * math.exp(t + 1) - (self.classes - 1)))

    @cached_property
    def h(self) -> float:
        """The largest z^2 p (1 - p), rounded up; there z (2 p - 1) = 2."""
        z = _root(lambda t: t * (2 / (1 + (self.classes - 1) * math.exp(-t)) - 1) - 2)
        p = 1 / (1 + (self.classes - 1) * math.exp(-z))
        return _rounded(z * z * p * (1 - p))

    @cached_property
    def hi(self) -> float:
        """The most that a badly classified record counts for."""
        return _rounded(1 + 2 * math.log(self.classes))

    @property
    def low(self) -> Floats:
        """The smallest vector."""
        two = self.classes == 2
        return np.array([-self.lo - 0.5, 0.0, -1.0, -self.CROSS] if two else [-self.lo, 0.0])

    @property
    def high(self) -> Floats:
        """The largest vector."""
        return np.array([self.hi, self.h, 1.0, self.CROSS][: self.low.size])

    @property
    def longest(self) -> float:
        """The largest size of a coordinate."""
        return float(max(self.high.max(), -self.low.min()))

    @property
    def sensitivity(self) -> float:
        """The diagonal of the box, rounded up."""
        sides = [Fraction(b) - Fraction(a) for a, b in zip(self.low, self.high, strict=True)]
        return math.nextafter(sqrt_down(sum((s * s for s in sides), Fraction(0))), math.inf)


def classes_of(loss: Loss) -> int:
    """How many classes a loss gives probabilities to; a loss that gives none has no refit.

    >>> from tidegate.learn.loss import Huber
    >>> classes_of(Logistic()), classes_of(Softmax(10)), classes_of(Huber())
    (2, 10, 0)
    """
    return max(2, loss.outputs) if isinstance(loss, Logistic | Softmax) else 0


def left_for_descent(mu: float) -> float:
    """What the descent of a fit with a refit may spend.

    >>> round(left_for_descent(1.0) ** 2, 9)
    0.96
    """
    return sqrt_down(Fraction(mu) ** 2 * (1 - SHARE))


def noise_scales(loss: Loss, mu: float) -> tuple[float, ...]:
    """The deviation of the noise in the sums of each round, rounded up; empty without a refit.

    The squares of what the rounds spend add up to at most `SHARE` mu^2.

    >>> [round(each, 1) for each in noise_scales(Logistic(), 1.0)]
    [38.2, 22.1]
    """
    classes = classes_of(loss)
    if not classes:
        return ()
    reach = Fraction(Box(classes).sensitivity)
    spent = (sqrt_down(Fraction(mu) ** 2 * SHARE * part) for part in ROUNDS)
    return tuple(up(reach / Fraction(each)) for each in spent)


def settings(loss: Loss, mu: float, divisor: Fraction) -> Mapping[str, float]:
    """The public numbers of a refit, if there is one; noise and sensitivity are of means."""
    scales = noise_scales(loss, mu)
    if not scales:
        return {}
    return {
        "refit_rounds": len(scales),
        "refit_sensitivity": up(Fraction(Box(classes_of(loss)).sensitivity) / divisor),
        **{f"refit_noise_scale_{i + 1}": scale / float(divisor) for i, scale in enumerate(scales)},
    }


def fold_for(  # noqa: PLR0913 - each is one public number of the fit, or its records
    weights: Floats,
    parts: Parts[Exact],
    *,
    loss: Loss,
    mu: float,
    divisor: float,
    class_shares: tuple[float, ...],
    new: float,
    perturb: Perturb,
) -> Fold:
    """The private fold that corrects the probabilities of a model.

    A model that has learnt from other records too is shifted less: its shift fits them already.

    Args:
        weights: A private model of transformed rows, whose margins are exact: `exact_weights`.
        parts: The records of the fit.
        loss: The loss.
        mu: The allowance of the fit, of which `SHARE` is spent.
        divisor: The sum of the slot weights; in units of what a person is expected to have, if
            persons are protected.
        class_shares: The share of each class, as surveys say; empty if unknown.
        new: The records of the fit as a fraction of all that the model has learnt from.
        perturb: The function that adds noise.
    """
    box, fold = Box(classes_of(loss)), Fold()
    share = class_shares[1] if len(class_shares) == 2 else 0.5
    for sigma in noise_scales(loss, mu):
        bits = exact_bits(parts.n, box.longest)
        work = partial(summed, weights=weights, fold=fold, box=box, bits=bits)
        mean = perturb(total(parts, work), sigma) / divisor
        fold = after(fold, mean, box=box, deviation=sigma / divisor, share=share)
    return Fold(fold.temperature, max(new, MIN_NEW_WEIGHT) * fold.shift)


def summed(part: Exact, *, weights: Floats, fold: Fold, box: Box, bits: int) -> Floats:
    """The exact sum of a part's clipped vectors; sums of such sums are exact too."""
    margins = exact_margins(weights, part.rows)
    if box.classes == 2:
        constant = np.full(part.lengths.size, Transform.CONSTANT)
        fixed = np.multiply.outer(weights[-1], constant)
        vectors = _two(margins, fixed, part.y, fold)
    else:
        vectors = _many(margins, part.y, fold)
    kept = np.clip(vectors, box.low[:, None], box.high[:, None])
    kept[:, part.lengths == 0] = 0  # unusable slots: every usable row has its constant
    weights_of = part.slot_weights if part.person_weights is None else part.person_weights
    if weights_of is not None:
        kept = kept * (weights_of * (1 - 2.0**-50))  # so that no product is rounded up
    return np.asarray(truncate(kept, bits).sum(axis=1))


def _two(margins: Floats, fixed: Floats, y: Labels, fold: Fold) -> Floats:
    """The vectors of records of two classes: one margin each, or one for each class."""
    if margins.ndim == 2:
        margins, fixed = margins[1] - margins[0], fixed[1] - fixed[0]
    z = _warmth(fold) * (margins - fixed)
    p = logistic(z + fixed + fold.shift)
    e = p - y
    bend = p * (1 - p) * z
    return np.stack([e * z, bend * z, e, bend])


def _many(margins: Floats, y: Labels, fold: Fold) -> Floats:
    """The vectors of records of three classes or more; margins have shape (K, m)."""
    z = _warmth(fold) * (margins - lane_sum(margins.copy()) / len(margins))
    p = exp(z - z.max(axis=0))
    p /= lane_sum(p.copy())
    expected = lane_sum(p * z)
    apart = z - expected
    spread = lane_sum(p * (apart * apart))
    return np.stack([expected - z[y, np.arange(y.size)], spread])


def _warmth(fold: Fold) -> np.float64:
    """What multiplies the margins: the same number on every machine."""
    warmth: np.float64 = exp(np.array([fold.temperature]))[0]
    return warmth


def after(fold: Fold, mean: Floats, *, box: Box, deviation: float, share: float) -> Fold:
    """The fold after one damped Newton step, from noisy means of the vectors.

    Args:
        fold: The fold at which the vectors were computed.
        mean: Their noisy means.
        box: Their bounds.
        deviation: The deviation of the noise in each mean.
        share: The share of the second class, for two classes.
    """
    slope, curvature = float(mean[0]), float(mean[1])
    bend = max(slope + curvature, 0.1 * box.h)
    noise = DAMPING * deviation * deviation
    low, high = LOG_TEMPERATURE_RANGES[min(box.classes, 3)]
    warmer = fold.temperature - bend * slope / (bend * bend + noise)
    temperature = min(max(warmer, low), high)
    if box.classes > 2:
        return Fold(temperature)
    residual = float(mean[2]) + float(mean[3]) * (temperature - fold.temperature)
    half = min(max(share + residual / 2, 0.01), 0.99)
    width = half * (1 - half)
    moved = fold.shift - width * residual / (width * width + noise)
    return Fold(temperature, min(max(moved, -LARGEST_SHIFT), LARGEST_SHIFT))


def _root(function: Callable[[float], float]) -> float:
    """The root of a function that increases through 0 somewhere in [0, 64], by bisection."""
    low, high = 0.0, 64.0
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (low, middle) if function(middle) > 0 else (middle, high)
    return high


def _rounded(value: float) -> float:
    """A bound rounded up to 20 bits after the point, so that every machine computes the same."""
    if not 0 < value < 2.0**20:
        raise refuse("a bound of the refit", "positive", value)
    return math.ceil(value * 2.0**20) * 2.0**-20
