"""Accuracy, and what a constant reaches: the share of the most frequent class."""

import math
from collections.abc import Sequence

import numpy as np

from tidegate.learn.measures.estimates import COVERED_DEVIATIONS, Answers, Estimates, mean_of
from tidegate.learn.measures.measure import Measure, Percent, Score, exactly, register


def resolved(shares: Sequence[Measure]) -> float:
    """The part of the differences between shares that is not noise, as far as one can tell.

    The largest of noisy shares is too large on average: of five equal ones by more than one
    deviation. So shares are moved towards each other as far as their known noise suggests.

    >>> round(resolved([Measure(0.7, 0.1), Measure(0.3, 0.1)]), 6)
    0.75
    >>> resolved([Measure(0.55, 0.1), Measure(0.45, 0.1)])
    0.0
    """
    apart = sum((share.value - 1 / len(shares)) ** 2 for share in shares)
    noise = sum(share.deviation**2 for share in shares)
    return 1 - noise / apart if apart > noise else 0.0


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
