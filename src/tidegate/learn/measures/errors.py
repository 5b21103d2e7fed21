"""The errors of a regression, in the unit of its target, and what a constant reaches."""

import math

import numpy as np

from tidegate.learn.measures.estimates import COVERED_DEVIATIONS
from tidegate.learn.measures.measure import (
    MAX_SHOWN_DEVIATION,
    Form,
    InUnits,
    Level,
    Measure,
    Score,
    exactly,
    register,
)
from tidegate.learn.measures.sums import EstimatedSums, Predictions


def rooted(ratio: Measure | None, unit: float) -> Measure | None:
    """The root of a ratio; its deviation is a third of how far the root of the interval reaches."""
    if ratio is None:
        return None
    low, value, high = (
        math.sqrt(max(ratio.value + move * ratio.deviation, 0.0))
        for move in (-COVERED_DEVIATIONS, 0.0, COVERED_DEVIATIONS)
    )
    return Measure(unit * value, unit * max(high - value, value - low) / COVERED_DEVIATIONS)


class ErrorScore(Score):
    """A measure of a regression."""

    kind = "target"
    needs = ("some",)


@register
class Mae(ErrorScore):
    """Mean absolute error of the newest scored release, targets only, noisy."""

    name, label = "mae", "MAE"
    form = InUnits()
    better = -1

    def noisy(self, known: EstimatedSums) -> Measure | None:
        """See `Score`."""
        return known.mean("absolute", known.ends.width)

    def exact(self, known: Predictions) -> Measure:
        """See `Score`."""
        return exactly(known.half * np.abs(known.error).mean())


@register
class Rmse(ErrorScore):
    """Root mean squared error of the newest scored release, targets only, noisy."""

    name, label = "rmse", "RMSE"
    form = InUnits(rooted=True)
    baseline = "constant_rmse"
    better = -1
    judges = 1
    brief = True

    def noisy(self, known: EstimatedSums) -> Measure | None:
        """See `Score`."""
        return rooted(known.mean("square"), known.ends.width)

    def exact(self, known: Predictions) -> Measure:
        """See `Score`."""
        return exactly(known.half * known.root)


@register
class ConstantRmse(ErrorScore):
    """Deviation of the targets: the RMSE of a constant, noisy."""

    name, label = "constant_rmse", "of a constant"
    form = InUnits(high=0.5, rooted=True)
    alone = False

    def noisy(self, known: EstimatedSums) -> Measure | None:
        """See `Score`."""
        return rooted(known.spread, known.ends.width / 2)

    def exact(self, known: Predictions) -> Measure:
        """See `Score`."""
        return exactly(known.half * known.spread)


@register
class R2(ErrorScore):
    """R^2 of the newest scored release, targets only, noisy."""

    name, label = "r2", "R^2"
    form = Form(low=-math.inf, high=1.0, most_noise=MAX_SHOWN_DEVIATION)
    brief = True

    def noisy(self, known: EstimatedSums) -> Measure | None:
        """See `Score`: 1 - (rmse / constant_rmse)^2."""
        rest = known.unexplained
        return rest and Measure(1 - 4 * rest.value, 4 * rest.deviation)

    def exact(self, known: Predictions) -> Measure | None:
        """See `Score`."""
        return exactly(1 - (known.root / known.spread) ** 2) if known.spread else None


@register
class MeanError(ErrorScore):
    """Mean prediction minus mean target, noisy."""

    name, label = "mean_error", "bias"
    form = InUnits(low=-1.0, spec="+")

    def noisy(self, known: EstimatedSums) -> Measure | None:
        """See `Score`."""
        return known.mean("bias", known.ends.width)

    def exact(self, known: Predictions) -> Measure:
        """See `Score`."""
        return exactly(known.half * known.error.mean())


@register
class MeanTarget(ErrorScore):
    """Mean of the targets, noisy."""

    name, label = "mean_target", "mean target"
    form = Level()
    listed = False

    def noisy(self, known: EstimatedSums) -> Measure | None:
        """See `Score`."""
        return known.mean("truth", known.ends.width / 2, sum(known.ends) / 2)

    def exact(self, known: Predictions) -> Measure:
        """See `Score`."""
        return exactly(sum(known.ends) / 2 + known.half * known.truth.mean())
