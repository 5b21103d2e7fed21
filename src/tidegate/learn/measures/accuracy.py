"""Accuracy, and what a constant reaches: the share of the most frequent class."""

import math

import numpy as np

from tidegate.learn.measures.estimates import (
    COVERED_DEVIATIONS,
    Answers,
    Estimates,
    mean_of,
    resolved,
)
from tidegate.learn.measures.measure import Measure, Percent, Score, exactly, register


@register
class Accuracy(Score):
    """Share of right answers of the newest scored release, noisy."""

    name, label = "accuracy", "accuracy"
    form = Percent()
    baseline = "majority"
    judges = 2

    def noisy(self, known: Estimates) -> Measure | None:
        """See `Score`."""
        return known.ratio(known.right, known.usable)

    def exact(self, known: Answers) -> Measure | None:
        """See `Score`."""
        return mean_of(known.codes == known.y)


@register
class Majority(Score):
    """Share of the most frequent class: the accuracy of a constant, noisy."""

    name, label = "majority", "majority class"
    form = Percent()
    needs = ("by_class",)
    alone = False
    brief = True

    def noisy(self, known: Estimates) -> Measure | None:
        """The largest share. Its noise is that of the largest of several noises."""
        shares = known.shares
        if not shares:
            return None
        most = max(shares).value
        spread = max(share.deviation for share in shares)
        noise = spread * math.sqrt(1 + 2 * math.log(len(shares)) / COVERED_DEVIATIONS**2)
        if known.scores.version == 1:
            return Measure(most, noise)
        value = 1 / len(shares) + resolved(shares) * (most - 1 / len(shares))
        return Measure(value, math.hypot(noise, (most - value) / COVERED_DEVIATIONS))

    def exact(self, known: Answers) -> Measure | None:
        """See `Score`."""
        return exactly(known.shares.max())


@register
class BalancedAccuracy(Score):
    """Mean over classes of the share of right answers, noisy."""

    name, label = "balanced_accuracy", "balanced accuracy"
    form = Percent()
    needs = ("by_class",)

    def noisy(self, known: Estimates) -> Measure | None:
        """The mean of the recalls; None unless every class is well above its noise."""
        gradient, recalls, curved = known.zeros(), [], 0.0
        for code in range(known.scores.classes):
            right, whole = known.of_class(code, right=True), known.of_class(code)
            recall = known.ratio(right, whole)
            if recall is None:
                return None
            slope = (right - recall.value * whole) / float(whole @ known.values)
            curved += max(recall.deviation**2 - known.variance(slope), 0.0)
            gradient += slope
            recalls.append(recall.value)
        noise = math.sqrt(known.variance(gradient) + curved)
        return Measure(float(np.mean(recalls)), noise / known.scores.classes)

    def exact(self, known: Answers) -> Measure | None:
        """The mean of the recalls of classes that are there."""
        present = known.sizes > 0
        return mean_of(np.diag(known.matrix)[present] / known.sizes[present])
