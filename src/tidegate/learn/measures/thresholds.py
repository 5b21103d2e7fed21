"""Two classes: what happens if records above a probability of class 1 are flagged."""

from dataclasses import dataclass

import numpy as np

from tidegate.learn.measures.estimates import Answers, Estimates, mean_of
from tidegate.learn.measures.measure import CurveRow, Detail, Measure, Rows, exactly, register


@dataclass(frozen=True)
class Threshold(CurveRow):
    """Two classes: what happens if records above a probability of class 1 are flagged.

    Attributes:
        probability: The threshold.
        precision: The share of flagged records that are of class 1.
        recall: The share of records of class 1 that are flagged.
        flagged: The share of usable records that are flagged.
    """

    probability: float
    precision: Measure | None
    recall: Measure | None
    flagged: Measure


@register
class Thresholds(Detail):
    """Precision, recall and flagged share by threshold."""

    name = "thresholds"
    needs = ("two", "probabilities", "some")
    missing = Rows()

    def noisy(self, known: Estimates) -> Rows:
        """One entry for each inner edge."""
        bins, found = known.scores.layout.bins, []
        for k, probability in enumerate(bins.edges, start=1):
            above = (np.arange(bins.count) >= k).astype(np.float64)
            none, full = np.zeros(bins.count), np.ones(bins.count)
            hits, flagged = known.by_bin(none, above), known.by_bin(above, above)
            precision = known.ratio(hits, flagged)
            recall = known.ratio(hits, known.by_bin(none, full))
            found.append(Threshold(probability, precision, recall, known.share(flagged)))
        return Rows(found)

    def exact(self, known: Answers) -> Rows:
        """One entry for each inner edge."""

        def at(probability: float, margin: float) -> Threshold:
            flagged = known.margins > margin
            precision, recall = mean_of(known.y[flagged]), mean_of(flagged[known.y == 1])
            return Threshold(probability, precision, recall, exactly(np.mean(flagged)))

        edges = zip(known.bins.edges, known.bins.margins.tolist(), strict=True)
        return Rows(at(*edge) for edge in edges)
