"""Measures of a model from its noisy scores, each with the deviation of its noise.

A deviation covers the noise, and that the bins hide where in a bin a record is.
Proof: docs/proofs/quality.md.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import entr

from tidegate.learn.bins import Bins, Floats
from tidegate.learn.estimates import COVERED_DEVIATIONS, Estimates, Ratio, estimate
from tidegate.learn.exact_measures import exact
from tidegate.learn.measure_values import (
    CalibrationBin,
    Confusion,
    Measure,
    Measures,
    Threshold,
)
from tidegate.learn.score_cells import Name
from tidegate.learn.scores import Scores

__all__ = [
    "CalibrationBin",
    "Confusion",
    "Measure",
    "Measures",
    "Threshold",
    "exact",
    "of_scores",
]

MAX_OFF_CENTRE = 0.25
"""How far from the middle of a bin the mean of its records is assumed to be, as a part of it."""


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
    {'value': 1.0, 'deviation': 0.00212}
    """
    known = estimate(scores)
    by_class = scores.classes == 2 or scores.layout.table("classes") is not None
    two = _Two(known) if scores.classes == 2 else None
    loss = two.log_loss() if two else _log_loss(known)
    accuracy = _measure(known.ratio(known.right, known.usable))
    some = accuracy is not None  # the noise leaves no doubt that records are usable
    return Measures(
        records=scores.slots,
        accuracy=accuracy,
        majority=_majority(known) if by_class else None,
        balanced_accuracy=_balanced(known) if by_class else None,
        log_loss=loss if probabilities else None,
        constant_log_loss=_constant_log_loss(known) if by_class else None,
        brier=two.brier() if two and probabilities else None,
        auc=two.auc() if two else None,
        bias=two.bias() if two and probabilities else None,
        unusable=_unusable(known),
        calibration=_calibration(known) if probabilities and some else (),
        thresholds=two.thresholds() if two and probabilities and some else (),
        confusion=_confusion(known) if by_class else None,
    )


def _measure(ratio: Ratio | None, width: float = 0.0) -> Measure | None:
    """A ratio as a measure; `width` is the error that bins may add."""
    return None if ratio is None else Measure(ratio.value, math.hypot(ratio.deviation, width))


def _sure(ratio: Ratio | None) -> Measure:
    """A share of the usable records, of which there are some."""
    return Measure(*(ratio or Ratio(0.0, 1.0)))


def _unusable(known: Estimates) -> Measure:
    weights = known.zeros()
    weights[-1] = 1
    slots = known.scores.total
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
    largest = max(shares).value
    spread = max(share.deviation for share in shares)
    noise = spread * math.sqrt(1 + 2 * math.log(len(shares)) / COVERED_DEVIATIONS**2)
    if known.scores.version == 1:
        return Measure(largest, noise)
    value = 1 / len(shares) + _resolved(shares) * (largest - 1 / len(shares))
    return Measure(value, math.hypot(noise, (largest - value) / COVERED_DEVIATIONS))


def _resolved(shares: Sequence[Ratio]) -> float:
    """The part of the differences between shares that is not noise, as far as one can tell.

    The largest of noisy shares is too large on average: of five equal ones by more than one
    deviation. So shares are moved towards each other as far as their known noise suggests.

    >>> round(_resolved([Ratio(0.7, 0.1), Ratio(0.3, 0.1)]), 6)
    0.75
    >>> _resolved([Ratio(0.55, 0.1), Ratio(0.45, 0.1)])
    0.0
    """
    apart = sum((share.value - 1 / len(shares)) ** 2 for share in shares)
    noise = sum(share.deviation**2 for share in shares)
    return 1 - noise / apart if apart > noise else 0.0


def _balanced(known: Estimates) -> Measure | None:
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


def _constant_log_loss(known: Estimates) -> Measure | None:
    """The entropy of the shares; it is curved, steeply so near a share of 0."""
    shares = _shares(known)
    if shares is None:
        return None
    if len(shares) == 2:  # the entropy of both follows from one share
        middle, reach = _reach(shares[0], lambda p: entr(p) + entr(1 - p), 0.5)
        return Measure(middle, reach / COVERED_DEVIATIONS)
    value = sum(float(entr(max(share.value, 0.0))) for share in shares)
    shift, lowest = 0.0, value
    if known.scores.version > 1:
        even, part = 1 / len(shares), _resolved(shares)
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


def _reach(share: Ratio, function: Callable[[float], float], peak: float) -> tuple[float, float]:
    """A function with one peak at a share, and the most it changes within three deviations."""

    def at(point: float) -> float:
        return float(function(min(max(point, 0.0), 1.0)))

    value, deviation = share
    low, high = value - COVERED_DEVIATIONS * deviation, value + COVERED_DEVIATIONS * deviation
    middle = at(value)
    return middle, max(abs(at(point) - middle) for point in (low, min(max(peak, low), high), high))


def _bend(share: Ratio) -> float:
    """How much lower the entropy of a noisy share is on average than that of the share."""
    value, deviation = share
    points = [min(max(value + move, 0.0), 1.0) for move in (-deviation, 0.0, deviation)]
    low, middle, high = (float(entr(point)) for point in points)
    return abs((low + high) / 2 - middle)


def _entropy_slope(known: Estimates, shares: Sequence[Ratio]) -> Floats:
    """The weights of the counts in the entropy, to first order; shares add up to 1."""
    slope, size = known.zeros(), float(known.usable @ known.values)
    for code, share in enumerate(shares):
        weights = known.of_class(code) - share.value * known.usable
        slope -= weights * (math.log(share.value) + 1) / size
    return slope


class _Mean:
    """The mean over usable records of a function of the probability, cell by cell.

    In a cell the function is taken as linear in the position of a record. The sum of positions is
    known up to its noise; where the noise hides more than the bin does, the sum is not used.
    """

    def __init__(self, known: Estimates) -> None:
        self._known = known
        self._values = known.zeros()
        self._shift, self._variance, self._width = 0.0, 0.0, 0.0

    def add(
        self, name: Name, bins: Bins, function: Callable[[Floats], Floats], at: int = 0
    ) -> None:
        """Add the cells of a table from the bin numbered `at` on."""
        start = self._known.unknown(name).start + at
        here = slice(start, start + bins.count)
        p, t = bins.points()
        values = function(p)
        middle = values.mean(axis=1)
        away = t - t.mean(axis=1, keepdims=True)
        slope = (away * values).sum(axis=1) / (away**2).sum(axis=1)
        ends = np.array(bins.ends)
        span = np.abs(function(ends[1:]) - function(ends[:-1]))
        bend = np.abs(values - middle[:, None] - slope[:, None] * away).mean(axis=1)
        counts = np.maximum(self._known.values[here], 0)
        positions, noise = self._known.positions(name)
        used = noise < MAX_OFF_CENTRE * counts
        self._values[here] = middle - used * slope * t.mean(axis=1)
        self._shift += float((used * slope) @ positions[at : at + bins.count])
        self._variance += float(used @ (slope * noise) ** 2)
        self._width += float(np.where(used, bend, MAX_OFF_CENTRE * span) @ self._known.values[here])

    def measure(self) -> Measure | None:
        """The mean; None if hardly any record is usable."""
        known = self._known
        ratio = known.ratio(self._values, known.usable)
        if ratio is None:
            return None
        size = float(known.usable @ known.values)
        noise = math.hypot(ratio.deviation, math.sqrt(self._variance) / size)
        width = max(self._width / size, 0.0)
        return Measure(ratio.value + self._shift / size, math.hypot(noise, width))


def _log_loss(known: Estimates) -> Measure | None:
    """More classes: right answers by the predicted class's probability, wrong by the true one's."""
    layout, mean = known.scores.layout, _Mean(known)
    mean.add("confidence", layout.bins, lambda p: -np.log(p))
    if layout.truth is not None:
        mean.add("truth", layout.truth, lambda p: -np.log(p))
    return mean.measure()


def _calibration(known: Estimates) -> tuple[CalibrationBin, ...]:
    """Two classes: by the probability of class 1. More: by that of the predicted class."""
    layout = known.scores.layout
    name: Name = "bins" if layout.classes == 2 else "confidence"
    count, start = layout.bins.count, known.unknown(name).start
    ends = (0.0, *layout.bins.edges, 1.0)
    hit = count if layout.classes == 2 else 0  # the cells of class 1, or of right answers
    found = []
    for k in range(count):
        hits, whole = known.zeros(), known.zeros()
        hits[start + hit + k] = 1
        whole[[start + k, start + count + k]] = 1
        observed = _measure(known.ratio(hits, whole))
        share = _sure(known.ratio(whole, known.usable))
        predicted = None if observed is None else _predicted(known, name, k, whole)
        found.append(CalibrationBin(ends[k], ends[k + 1], predicted, observed, share))
    return tuple(found)


def _predicted(known: Estimates, name: Name, k: int, whole: Floats) -> Measure:
    """The mean probability in a bin, by the positions if their noise is below the bin's width."""
    bins = known.scores.layout.bins
    low, high = bins.ends[k : k + 2]
    positions, noise = known.positions(name)
    size = float(whole @ known.values)
    deviation = noise * math.sqrt(2) / size
    inner = name == "confidence" or 0 < k < bins.count - 1  # elsewhere positions are in log p
    if not inner or deviation > MAX_OFF_CENTRE:
        return Measure((low + high) / 2, (high - low) * MAX_OFF_CENTRE)
    position = float(positions[[k, bins.count + k]].sum()) / size
    spread = math.hypot(deviation, position * known.variance(whole) ** 0.5 / size)
    return Measure((low + high) / 2 + position * (high - low), spread * (high - low))


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
        self._bins = known.scores.layout.bins

    def _weights(self, zero: Floats, one: Floats) -> Floats:
        return np.concatenate([zero, one, [0.0]])

    def mean(
        self, zero: Callable[[Floats], Floats], one: Callable[[Floats], Floats]
    ) -> Measure | None:
        """The mean of a function of the probability for each class."""
        mean = _Mean(self._known)
        mean.add("bins", self._bins, zero)
        mean.add("bins", self._bins, one, self._bins.count)
        return mean.measure()

    def brier(self) -> Measure | None:
        """The mean squared error of the probability."""
        return self.mean(lambda p: p**2, lambda p: (1 - p) ** 2)

    def bias(self) -> Measure | None:
        """The mean probability of class 1 minus its share."""
        return self.mean(lambda p: p, lambda p: p - 1)

    def log_loss(self) -> Measure | None:
        """The mean of -log of the true class's probability."""
        return self.mean(lambda p: -np.log(1 - p), lambda p: -np.log(p))

    def thresholds(self) -> tuple[Threshold, ...]:
        """One entry for each inner edge."""
        known, found = self._known, []
        for k, probability in enumerate(self._bins.edges, start=1):
            above = (np.arange(self._bins.count) >= k).astype(np.float64)
            none, full = np.zeros(self._bins.count), np.ones(self._bins.count)
            hits, flagged = self._weights(none, above), self._weights(above, above)
            share = _sure(known.ratio(flagged, known.usable))
            precision = _measure(known.ratio(hits, flagged))
            recall = _measure(known.ratio(hits, self._weights(none, full)))
            found.append(Threshold(probability, precision, recall, share))
        return tuple(found)

    def auc(self) -> Measure | None:
        """The area under the curve through the edges, plus that of pairs within a bin.

        In a bin, class 1 wins by the difference of the mean positions; where their noise hides
        more than that, as often as if probabilities were right and spread evenly. The deviation
        has the first and second order of the noise.
        """
        known, bins = self._known, self._bins.count
        zero, one = known.values[:bins], known.values[bins : 2 * bins]
        negative, positive = known.of_class(0), known.of_class(1)
        sizes = [float(weights @ known.values) for weights in (negative, positive)]
        for weights, size in zip((negative, positive), sizes, strict=True):
            if size <= max(COVERED_DEVIATIONS * known.variance(weights) ** 0.5, 1):
                return None
        pairs = sizes[0] * sizes[1]
        within = _pairs_within((0.0, *self._bins.edges, 1.0))
        positions, noise = known.positions("bins")
        hidden = np.maximum(one * zero, 0) * (2 * (within - 0.5) + 0.02)
        added = noise * np.hypot(zero, one)
        used = added < hidden
        wins = np.tril(np.ones((bins, bins)), -1) + np.diag(np.where(used, 0.5, within))
        leads = used * (positions[bins:] * zero - positions[:bins] * one)
        value = (float(one @ wins @ zero) + float(leads.sum())) / pairs
        lead = wins - value  # class 1's bin, class 0's
        gradient = self._weights(lead.T @ one, lead @ zero)
        gradient += self._weights(used * positions[bins:], -(used * positions[:bins]))
        square = np.zeros((2 * bins + 1,) * 2)
        square[bins : 2 * bins, :bins] = lead / 2
        square += square.T
        second = square @ known.covariance
        variance = known.variance(gradient) + 2 * max(float(np.trace(second @ second)), 0.0)
        variance += float(used @ added**2)
        width = float(np.where(used, hidden / 4, hidden).sum())
        return Measure(value, math.hypot(math.sqrt(variance), width) / pairs)


def _pairs_within(ends: Sequence[float]) -> Floats:
    """How often class 1 has the larger probability in a bin, if probabilities are right.

    With p uniform in a bin from m - h to m + h, class 1 has density p/m and class 0 (1 - p)/(1 - m)
    there; the result is 1/2 + h/(6 m (1 - m)).
    """
    low, high = np.array(ends[:-1]), np.array(ends[1:])
    middle, half = (low + high) / 2, (high - low) / 2
    return np.asarray(0.5 + half / (6 * middle * (1 - middle)))
