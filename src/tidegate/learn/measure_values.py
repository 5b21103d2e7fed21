"""The measures of a model: plain numbers, each with the deviation of its noise."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIGITS = 5
"""Decimals of a measure in JSON."""


@dataclass(frozen=True)
class Measure:
    """A number and the standard deviation of its noise; 0 if it is exact.

    The value is as estimated: noise can take a share below 0 or above 1. `as_json` keeps it in
    range.
    """

    value: float
    deviation: float

    def as_json(
        self, low: float = -math.inf, high: float = math.inf, *, digits: int = DIGITS
    ) -> dict[str, float]:
        """The value, kept in its range, and its deviation.

        >>> Measure(1.012345678, 0.02).as_json(0, 1)
        {'value': 1.0, 'deviation': 0.02}
        """
        value = min(max(self.value, low), high) + 0.0  # not -0.0
        return {"value": round(value, digits), "deviation": round(self.deviation, digits)}


@dataclass(frozen=True)
class CalibrationBin:
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

    def as_json(self) -> dict[str, Any]:
        """Plain numbers; None where the bin has too few records."""
        return {
            "low": self.low,
            "high": self.high,
            "predicted": _json(self.predicted, self.low, self.high),
            "observed": _json(self.observed, 0, 1),
            "share": self.share.as_json(0, 1),
        }


@dataclass(frozen=True)
class Threshold:
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

    def as_json(self) -> dict[str, Any]:
        """Plain numbers; None where there are too few records."""
        return {
            "probability": self.probability,
            "precision": _json(self.precision, 0, 1),
            "recall": _json(self.recall, 0, 1),
            "flagged": self.flagged.as_json(0, 1),
        }


@dataclass(frozen=True, eq=False)
class Confusion:
    """Counts of records by true class (row) and predicted class (column).

    Attributes:
        counts: The counts; noisy ones may be negative.
        deviations: The deviation of the noise of each.
    """

    counts: NDArray[np.float64]
    deviations: NDArray[np.float64]

    def as_json(self) -> dict[str, Any]:
        """Rows of counts, at least 0, and the largest deviation of a count."""
        return {
            "counts": np.maximum(self.counts, 0).round(1).tolist(),
            "deviation": round(float(self.deviations.max()), 1),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Measures:
    """How good a model is. None stands for what is not defined, or lost in the noise.

    Attributes:
        records: The number of slots.
        accuracy: The share of right answers among usable records.
        majority: The share of the most frequent class: the accuracy of a constant.
        balanced_accuracy: The mean over classes of the share of right answers.
        log_loss: The mean of -log of the true class's probability, which counts as at least 0.001.
        constant_log_loss: The log-loss of a constant that answers the shares of the classes.
        brier: Two classes: the mean of (probability of class 1 - truth)^2.
        auc: Two classes: how often a record of class 1 has a larger margin than one of class 0.
        bias: Two classes: the mean probability of class 1 minus its share.
        unusable: The share of slots that cannot be used.
        calibration: The calibration curve, by bins of the probability.
        thresholds: Two classes: precision, recall and flagged share by threshold.
        confusion: The confusion matrix; None if there are too many classes.
    """

    records: int
    accuracy: Measure | None
    majority: Measure | None
    balanced_accuracy: Measure | None
    log_loss: Measure | None
    constant_log_loss: Measure | None
    brier: Measure | None
    auc: Measure | None
    bias: Measure | None
    unusable: Measure
    calibration: tuple[CalibrationBin, ...]
    thresholds: tuple[Threshold, ...]
    confusion: Confusion | None

    def as_json(self) -> dict[str, Any]:
        """All measures as plain numbers, each kept in its range."""
        return {
            "records": self.records,
            **{name: _json(getattr(self, name), *span) for name, span in RANGES.items()},
            "calibration": [each.as_json() for each in self.calibration],
            "thresholds": [each.as_json() for each in self.thresholds],
            "confusion": None if self.confusion is None else self.confusion.as_json(),
        }


RANGES = {
    "accuracy": (0, 1),
    "majority": (0, 1),
    "balanced_accuracy": (0, 1),
    "log_loss": (0, math.inf),
    "constant_log_loss": (0, math.inf),
    "brier": (0, 1),
    "auc": (0, 1),
    "bias": (-1, 1),
    "unusable": (0, 1),
}
"""The measures that are one number, with their ranges."""


def _json(measure: Measure | None, low: float, high: float) -> dict[str, float] | None:
    return None if measure is None else measure.as_json(low, high)
