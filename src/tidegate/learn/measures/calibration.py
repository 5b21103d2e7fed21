"""The calibration curve: whether probabilities come true, bin by bin."""

import math
from dataclasses import dataclass

import numpy as np

from tidegate.learn.measures.estimates import MAX_OFF_CENTRE, Answers, Estimates, mean_of
from tidegate.learn.measures.measure import CurveRow, Detail, Measure, Rows, exactly, register
from tidegate.learn.score_cells import Floats, Name


@dataclass(frozen=True)
class CalibrationBin(CurveRow):
    """The records to which a model gives probabilities in one bin.

    Attributes:
        low: The lower edge of the bin.
        high: The upper edge.
        predicted: The mean predicted probability: of class 1 if there are two classes, else of the
            predicted class.
        observed: The share of records that are of class 1, or that are right.
        share: The share of usable records in the bin.
    """

    low: float
    high: float
    predicted: Measure | None
    observed: Measure | None
    share: Measure

    def span(self, name: str) -> tuple[float, float]:
        """See `CurveRow`."""
        return (self.low, self.high) if name == "predicted" else (0.0, 1.0)


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


@register
class Calibration(Detail):
    """The calibration curve, by bins of the probability."""

    name = "calibration"
    needs = ("probabilities", "some")
    missing = Rows()

    def noisy(self, known: Estimates) -> Rows:
        """Two classes: by the probability of class 1. More: by that of the predicted class."""
        layout = known.scores.layout
        name: Name = "bins" if known.two else "confidence"
        count, start = layout.bins.count, known.unknown(name).start
        ends = (0.0, *layout.bins.edges, 1.0)
        hit = count if known.two else 0  # the cells of class 1, or of right answers
        found = []
        for k in range(count):
            hits, whole = known.zeros(), known.zeros()
            hits[start + hit + k] = 1
            whole[[start + k, start + count + k]] = 1
            observed = known.ratio(hits, whole)
            share = known.share(whole)
            predicted = None if observed is None else _predicted(known, name, k, whole)
            found.append(CalibrationBin(ends[k], ends[k + 1], predicted, observed, share))
        return Rows(found)

    def exact(self, known: Answers) -> Rows:
        """One entry for each bin."""
        ends, places = (0.0, *known.bins.edges, 1.0), known.places
        return Rows(
            CalibrationBin(
                ends[k],
                ends[k + 1],
                mean_of(known.first[places == k]),
                mean_of(known.hit[places == k]),
                exactly(np.mean(places == k)),
            )
            for k in range(known.bins.count)
        )
