"""Measures of a model from its noisy scores, each with the deviation of its noise.

A deviation covers the noise, and that the bins hide where in a bin a record is.
Proof: docs/proofs/quality.md.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from tidegate.learn.estimates import LEAST, Estimates, Ratio, estimate
from tidegate.learn.exact_measures import LEAST_PROBABILITY, exact
from tidegate.learn.measure_values import (
    CalibrationBin,
    Confusion,
    Measure,
    Measures,
    Threshold,
)
from tidegate.learn.scores import Floats, Scores

__all__ = [
    "CalibrationBin",
    "Confusion",
    "Measure",
    "Measures",
    "Threshold",
    "exact",
    "of_scores",
]

WIDTH = 0.25
"""How far from the middle of a bin the mean of its records is assumed to be, as a part of it."""

POINTS = 64
"""Points at which a function is averaged over a bin."""


def of_scores(scores: Scores, *, probabilities: bool = True) -> Measures:
    """All measures that noisy scores tell.

    Args:
        scores: The noisy counts of one step.
        probabilities: Whether margins have probabilities; if not, no measure reads them as such.

    >>> from tidegate.learn.scores import score
    >>> from tidegate.privacy.bits import NotPrivateBits
    >>> from tidegate.privacy.budget import Allowance
    >>> y, usable = np.arange(4096) % 2, np.ones(4096, bool)
    >>> scores = score(y - 0.2, y, usable, classes=2, allowance=Allowance("mu", 0.2),
    ...                bits=NotPrivateBits(7))
    >>> of_scores(scores).as_json()["accuracy"]
    {'value': 1.0, 'deviation': 0.00209}
    """
    known = estimate(scores)
    by_class = scores.classes == 2 or scores.layout.table("classes") is not None
    loss = _two_losses(known) if scores.classes == 2 else _more_losses(known)
    two = _Two(known) if scores.classes == 2 else None
    return Measures(
        records=scores.slots,
        accuracy=_measure(known.ratio(known.right, known.usable)),
        majority=_majority(known) if by_class else None,
        balanced_accuracy=_balanced(known) if by_class else None,
        log_loss=loss if probabilities else None,
        constant_log_loss=_constant_log_loss(known) if by_class else None,
        brier=two.brier() if two and probabilities else None,
        auc=two.auc() if two else None,
        bias=two.bias() if two and probabilities else None,
        unusable=_unusable(known),
        calibration=_calibration(known) if probabilities else (),
        thresholds=two.thresholds() if two and probabilities else (),
        confusion=_confusion(known) if by_class else None,
    )


def _measure(ratio: Ratio | None, width: float = 0.0) -> Measure | None:
    """A ratio as a measure; `width` is the error that bins may add."""
    return None if ratio is None else Measure(ratio.value, math.hypot(ratio.deviation, width))


def _unusable(known: Estimates) -> Measure:
    weights = known.zeros()
    weights[-1] = 1
    slots = known.scores.slots
    return Measure(float(known.values[-1]) / slots, known.variance(weights) ** 0.5 / slots)


def _shares(known: Estimates) -> list[Ratio] | None:
    """The share of each class; None if hardly any record is usable."""
    each = [known.ratio(known.of_class(c), known.usable) for c in range(known.scores.classes)]
    shares = [ratio for ratio in each if ratio is not None]
    return shares if len(shares) == len(each) else None


def _majority(known: Estimates) -> Measure | None:
    """The largest share. Its noise is that of the largest of several noises."""
    shares = _shares(known)
    if shares is None:
        return None
    largest = max(shares)
    spread = max(share.deviation for share in shares)
    return Measure(largest.value, spread * math.sqrt(1 + 2 * math.log(len(shares)) / LEAST**2))


def _balanced(known: Estimates) -> Measure | None:
    """The mean of the recalls; None unless every class is well above its noise."""
    gradient, recalls = known.zeros(), []
    for code in range(known.scores.classes):
        right, whole = known.of_class(code, right=True), known.of_class(code)
        recall = known.ratio(right, whole)
        if recall is None:
            return None
        recalls.append(recall.value)
        gradient += (right - recall.value * whole) / float(whole @ known.values)
    return Measure(float(np.mean(recalls)), known.variance(gradient) ** 0.5 / known.scores.classes)


def _constant_log_loss(known: Estimates) -> Measure | None:
    """The entropy of the shares. It is curved near 0, so its slope is taken over the noise."""
    shares = _shares(known)
    if shares is None:
        return None

    def entropy(share: float) -> float:
        share = min(max(share, 0.0), 1.0)
        rest = (1 - share) if len(shares) == 2 else 0.0
        return -sum(part * math.log(part) for part in (share, rest) if part > 0)

    counted = shares[:1] if len(shares) == 2 else shares
    value, slopes, bends = 0.0, [], []
    for share, deviation in counted:
        middle = entropy(share)
        far = [share - LEAST * deviation, share + LEAST * deviation]
        inner = [0.5] if len(shares) == 2 else [math.exp(-1)]  # where the entropy is largest
        reach = [*far, *(point for point in inner if far[0] < point < far[1])]
        slopes.append(max(abs(entropy(point) - middle) for point in reach) / LEAST)
        near = entropy(share - deviation) + entropy(share + deviation)
        bends.append(abs(near / 2 - middle))
        value += middle
    bend = sum(bends) if len(counted) > 1 else 0.0
    return Measure(value, math.hypot(*slopes, bend))


def _bin_means(
    function: Callable[[Floats], Floats], ends: Sequence[float]
) -> tuple[Floats, Floats]:
    """The mean of a function over each bin, uniform in the probability; how far it may be off."""
    middles = (np.arange(POINTS) + 0.5) / POINTS
    means, spans = [], []
    for low, high in pairwise(ends):
        linear = function(low + (high - low) * middles).mean()
        means.append(float(linear))
        edge = function(np.array([low, high]))
        spans.append(WIDTH * abs(float(edge[1] - edge[0])))
    return np.array(means), np.array(spans)


def _linear(known: Estimates, values: Floats, spans: Floats) -> Measure | None:
    """The mean over usable records of a function with these means and errors in the cells."""
    ratio = known.ratio(values, known.usable)
    if ratio is None:
        return None
    width = max(float(spans @ known.values) / float(known.usable @ known.values), 0.0)
    return _measure(ratio, width)


def _inside(edges: Sequence[float], low: float, high: float) -> list[float]:
    """The ends of bins between the least and the greatest probability."""
    return [low, *edges, high]


def _two_losses(known: Estimates) -> Measure | None:
    ends = _inside(known.scores.layout.edges, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    zero = _bin_means(lambda p: -np.log(1 - p), ends)
    one = _bin_means(lambda p: -np.log(p), ends)
    return _linear(
        known,
        np.concatenate([zero[0], one[0], [0]]),
        np.concatenate([zero[1], one[1], [0]]),
    )


def _more_losses(known: Estimates) -> Measure | None:
    """Right answers by the predicted class's probability, wrong ones by the true class's."""
    layout = known.scores.layout
    least = min(1 / layout.classes, layout.edges[0] / 2)
    right = _bin_means(lambda p: -np.log(p), _inside(layout.edges, least, 1))
    wrong_ends = _inside(layout.truth_edges, LEAST_PROBABILITY, 0.5)
    wrong = _bin_means(lambda p: -np.log(p), wrong_ends)
    values, spans = known.zeros(), known.zeros()
    confidence = known.unknown("confidence")
    here = slice(confidence.start, confidence.start + len(right[0]))
    values[here], spans[here] = right
    values[known.unknown("truth")], spans[known.unknown("truth")] = wrong
    return _linear(known, values, spans)


def _calibration(known: Estimates) -> tuple[CalibrationBin, ...]:
    """Two classes: by the probability of class 1. More: by that of the predicted class."""
    layout = known.scores.layout
    name = "bins" if layout.classes == 2 else "confidence"
    count, place = len(layout.edges) + 1, known.unknown(name)
    ends = _inside(layout.edges, 0.0, 1.0)
    hit = count if layout.classes == 2 else 0  # the cells of class 1, or of right answers
    found = []
    for k in range(count):
        hits, whole = known.zeros(), known.zeros()
        hits[place.start + hit + k] = 1
        whole[[place.start + k, place.start + count + k]] = 1
        observed = _measure(known.ratio(hits, whole))
        low, high = ends[k], ends[k + 1]
        predicted = Measure((low + high) / 2, (high - low) * WIDTH)
        share = _measure(known.ratio(whole, known.usable)) or Measure(0.0, math.inf)
        found.append(
            CalibrationBin(low, high, None if observed is None else predicted, observed, share)
        )
    return tuple(found)


def _confusion(known: Estimates) -> Confusion:
    """Right answers as estimated; the wrong ones of a class are made to add up to their sum."""
    scores, layout = known.scores, known.scores.layout
    size = layout.classes
    counts, variances = np.zeros((size, size)), np.zeros((size, size))
    place = layout.table("confusion")
    seen = scores.cells[place].reshape(size, size) if place else np.zeros((size, size))
    noise = float(scores.cell_deviations[place][0]) if place else 0.0
    for code in range(size):
        right, wrong = known.of_class(code, right=True), known.of_class(code, right=False)
        total, others = float(wrong @ known.values), seen[code].sum() - seen[code, code]
        counts[code] = seen[code] + (total - others) / (size - 1)
        rest = noise**2 * (1 - 1 / (size - 1))
        variances[code] = rest + known.variance(wrong) / (size - 1) ** 2
        counts[code, code] = right @ known.values
        variances[code, code] = known.variance(right)
    return Confusion(counts, np.sqrt(variances))


class _Two:
    """The measures of two classes alone, from the counts by bin."""

    def __init__(self, known: Estimates) -> None:
        self._known = known
        self._edges = known.scores.layout.edges
        self._ends = _inside(self._edges, 0.0, 1.0)
        self._bins = len(self._edges) + 1

    def _weights(self, zero: Floats, one: Floats) -> Floats:
        return np.concatenate([zero, one, [0.0]])

    def brier(self) -> Measure | None:
        """The mean squared error of the probability."""
        zero = _bin_means(lambda p: p**2, self._ends)
        one = _bin_means(lambda p: (1 - p) ** 2, self._ends)
        return _linear(self._known, self._weights(zero[0], one[0]), self._weights(zero[1], one[1]))

    def bias(self) -> Measure | None:
        """The mean probability of class 1 minus its share."""
        means, spans = _bin_means(lambda p: p, self._ends)
        return _linear(self._known, self._weights(means, means - 1), self._weights(spans, spans))

    def thresholds(self) -> tuple[Threshold, ...]:
        """One entry for each inner edge."""
        known, found = self._known, []
        for k, probability in enumerate(self._edges, start=1):
            above = (np.arange(self._bins) >= k).astype(np.float64)
            none, full = np.zeros(self._bins), np.ones(self._bins)
            hits, flagged = self._weights(none, above), self._weights(above, above)
            share = _measure(known.ratio(flagged, known.usable)) or Measure(0.0, math.inf)
            precision = _measure(known.ratio(hits, flagged))
            recall = _measure(known.ratio(hits, self._weights(none, full)))
            found.append(Threshold(probability, precision, recall, share))
        return tuple(found)

    def auc(self) -> Measure | None:
        """The area under the curve through the edges, plus what the bins hide.

        Pairs of a bin count as they would if probabilities were right and spread evenly in it.
        The deviation has the first and second order of the noise.
        """
        known, bins = self._known, self._bins
        zero, one = known.values[:bins], known.values[bins : 2 * bins]
        negative, positive = known.of_class(0), known.of_class(1)
        sizes = [float(weights @ known.values) for weights in (negative, positive)]
        for weights, size in zip((negative, positive), sizes, strict=True):
            if size <= max(LEAST * known.variance(weights) ** 0.5, 1):
                return None
        within = _pairs_within(self._ends)
        wins = np.tril(np.ones((bins, bins)), -1) + np.diag(within)  # class 1's bin, class 0's
        pairs = sizes[0] * sizes[1]
        value = float(one @ wins @ zero) / pairs
        lead = wins - value  # its sum over pairs is 0
        gradient = self._weights(lead.T @ one, lead @ zero) / pairs
        square = np.zeros((2 * bins + 1,) * 2)
        square[bins : 2 * bins, :bins] = lead / 2
        square += square.T
        second = square @ known.covariance / pairs
        variance = known.variance(gradient) + 2 * max(float(np.trace(second @ second)), 0.0)
        hidden = max(float((one * zero) @ (2 * (within - 0.5) + 0.02)) / pairs, 0.0)
        return Measure(value, math.hypot(math.sqrt(variance), hidden))


def _pairs_within(ends: Sequence[float]) -> Floats:
    """How often class 1 has the larger probability in a bin, if probabilities are right.

    With p uniform in a bin from m - h to m + h, class 1 has density p/m and class 0 (1 - p)/(1 - m)
    there; the result is 1/2 + h/(6 m (1 - m)).
    """
    low, high = np.array(ends[:-1]), np.array(ends[1:])
    middle, half = (low + high) / 2, (high - low) / 2
    return np.asarray(0.5 + half / (6 * middle * (1 - middle)))
