"""The log-loss, and that of a constant: the entropy of the shares of the classes."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import entr, xlogy

from tidegate.learn.measures.estimates import (
    COVERED_DEVIATIONS,
    Answers,
    BinnedMean,
    Estimates,
    mean_by_class,
    resolved,
)
from tidegate.learn.measures.measure import Measure, Score, exactly, register
from tidegate.learn.score_cells import MIN_PROBABILITY, Floats


def _reach(share: Measure, function: Callable[[float], float], peak: float) -> tuple[float, float]:
    """A function with one peak at a share, and the most it changes within three deviations."""

    def at(point: float) -> float:
        return float(function(min(max(point, 0.0), 1.0)))

    value, deviation = share
    low, high = value - COVERED_DEVIATIONS * deviation, value + COVERED_DEVIATIONS * deviation
    middle = at(value)
    return middle, max(abs(at(point) - middle) for point in (low, min(max(peak, low), high), high))


def _bend(share: Measure) -> float:
    """How much lower the entropy of a noisy share is on average than that of the share."""
    value, deviation = share
    points = [min(max(value + move, 0.0), 1.0) for move in (-deviation, 0.0, deviation)]
    low, middle, high = (float(entr(point)) for point in points)
    return abs((low + high) / 2 - middle)


def _entropy_slope(known: Estimates, shares: Sequence[Measure]) -> Floats:
    """The weights of the counts in the entropy, to first order; shares add up to 1."""
    slope, size = known.zeros(), float(known.usable @ known.values)
    for code, share in enumerate(shares):
        weights = known.of_class(code) - share.value * known.usable
        slope -= weights * (math.log(share.value) + 1) / size
    return slope


@register
class LogLoss(Score):
    """Log-loss of the newest scored release, noisy."""

    name, label = "log_loss", "log-loss"
    needs = ("probabilities",)
    baseline = "constant_log_loss"
    better = -1
    judges = 1
    brief = True

    def noisy(self, known: Estimates) -> Measure | None:
        """See `Score`: of right answers by the predicted class's probability, of wrong by the true.

        Two classes need no such distinction.
        """
        if known.two:
            return mean_by_class(known, lambda p: -np.log(1 - p), lambda p: -np.log(p))
        layout, mean = known.scores.layout, BinnedMean(known)
        mean.add("confidence", layout.bins, lambda p: -np.log(p))
        mean.add("truth", layout.truth, lambda p: -np.log(p))
        return mean.measure()

    def exact(self, known: Answers) -> Measure:
        """The mean of -log of the true class's probability."""
        return exactly(-np.log(np.maximum(known.truth, MIN_PROBABILITY)).mean())


@register
class ConstantLogLoss(Score):
    """Log-loss of a constant that answers the class shares, noisy."""

    name, label = "constant_log_loss", "of a constant"
    needs = ("by_class",)
    alone = False

    def noisy(self, known: Estimates) -> Measure | None:
        """The entropy of the shares; it is curved, steeply so near a share of 0."""
        shares = known.shares
        if not shares:
            return None
        if len(shares) == 2:  # the entropy of both follows from one share
            middle, reach = _reach(shares[0], lambda p: entr(p) + entr(1 - p), 0.5)
            return Measure(middle, reach / COVERED_DEVIATIONS)
        value = sum(float(entr(max(share.value, 0.0))) for share in shares)
        shift, lowest = 0.0, value
        if known.scores.version > 1:
            even, part = 1 / len(shares), resolved(shares)
            value = sum(float(entr(max(even + part * (s.value - even), 0.0))) for s in shares)
            shift = (value - lowest) / COVERED_DEVIATIONS
        bend = sum(_bend(share) for share in shares) * (1 + 3 / (len(shares) - 1))
        if all(share.value > COVERED_DEVIATIONS * share.deviation for share in shares):
            noise = math.sqrt(known.variance(_entropy_slope(known, shares)))
        else:  # a share may be 0, where there is no slope
            noise = math.hypot(
                *(_reach(share, entr, math.exp(-1))[1] / COVERED_DEVIATIONS for share in shares)
            )
        return Measure(value, math.hypot(noise, bend, shift))

    def exact(self, known: Answers) -> Measure | None:
        """See `Score`."""
        return exactly(-xlogy(known.shares, known.shares).sum())
