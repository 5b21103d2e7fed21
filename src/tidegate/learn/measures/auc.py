"""The AUC of two classes: how often a record of class 1 has the larger margin of two."""

import math
from collections.abc import Sequence

import numpy as np

from tidegate.checks import Later
from tidegate.learn.measures.estimates import COVERED_DEVIATIONS, Answers, Estimates
from tidegate.learn.measures.measure import Form, Measure, Score, exactly, register
from tidegate.learn.score_cells import Floats

stats = Later("scipy.stats")


def _pairs_within(ends: Sequence[float]) -> Floats:
    """How often class 1 has the larger probability in a bin, if probabilities are right.

    With p uniform in a bin from m - h to m + h, class 1 has density p/m and class 0 (1 - p)/(1 - m)
    there; the result is 1/2 + h/(6 m (1 - m)).
    """
    low, high = np.array(ends[:-1]), np.array(ends[1:])
    middle, half = (low + high) / 2, (high - low) / 2
    return np.asarray(0.5 + half / (6 * middle * (1 - middle)))


@register
class Auc(Score):
    """AUC of the newest scored release, two classes only, noisy."""

    name, label = "auc", "AUC"
    form = Form(high=1.0)
    needs = ("two",)

    def noisy(self, known: Estimates) -> Measure | None:
        """The area under the curve through the edges, plus that of pairs within a bin.

        In a bin, class 1 wins by the difference of the mean positions; where their noise hides
        more than that, as often as if probabilities were right and spread evenly. The deviation
        has the first and second order of the noise.
        """
        layout = known.scores.layout
        bins = layout.bins.count
        zero, one = known.values[:bins], known.values[bins : 2 * bins]
        negative, positive = known.of_class(0), known.of_class(1)
        sizes = [float(weights @ known.values) for weights in (negative, positive)]
        for weights, size in zip((negative, positive), sizes, strict=True):
            if size <= max(COVERED_DEVIATIONS * known.variance(weights) ** 0.5, 1):
                return None
        pairs = sizes[0] * sizes[1]
        within = _pairs_within((0.0, *layout.bins.edges, 1.0))
        positions, noise = known.positions("bins")
        hidden = np.maximum(one * zero, 0) * (2 * (within - 0.5) + 0.02)
        added = noise * np.hypot(zero, one)
        used = added < hidden
        wins = np.tril(np.ones((bins, bins)), -1) + np.diag(np.where(used, 0.5, within))
        leads = used * (positions[bins:] * zero - positions[:bins] * one)
        value = (float(one @ wins @ zero) + float(leads.sum())) / pairs
        lead = wins - value  # class 1's bin, class 0's
        gradient = known.by_bin(lead.T @ one, lead @ zero)
        gradient += known.by_bin(used * positions[bins:], -(used * positions[:bins]))
        square = np.zeros((2 * bins + 1,) * 2)
        square[bins : 2 * bins, :bins] = lead / 2
        square += square.T
        second = square @ known.covariance
        variance = known.variance(gradient) + 2 * max(float(np.trace(second @ second)), 0.0)
        variance += float(used @ added**2)
        width = float(np.where(used, hidden / 4, hidden).sum())
        return Measure(value, math.hypot(math.sqrt(variance), width) / pairs)

    def exact(self, known: Answers) -> Measure | None:
        """The mean rank of class 1 among all, rescaled; ties count half."""
        ones, size = int(known.y.sum()), known.y.size
        if ones in {0, size}:
            return None
        ranks = stats.rankdata(known.margins)[known.y == 1].sum()
        return exactly((ranks - ones * (ones + 1) / 2) / (ones * (size - ones)))
