"""Measures of a regression from its noisy scores, or from public records, each with a deviation.

All but R^2 and shares are in the unit of the target. A deviation covers the noise.
Proof: docs/proofs/quality.md.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.learn.estimates import COVERED_DEVIATIONS, Measured, Ratio, ratio_of
from tidegate.learn.exact import Floats
from tidegate.learn.measure_values import DIGITS as SHARE_DIGITS
from tidegate.learn.measure_values import Measure
from tidegate.learn.target_scores import SUMS, TargetScores, exact_sums, fraction_bits, in_range

DIGITS = 6
"""Digits of a number as wide as the range of targets, in JSON, or more of a wide range."""

EXACT_PARTS = 8
"""Equal parts of the range in the table of public records."""


@dataclass(frozen=True, eq=False)
class TruthTable:
    """Counts of records by part of the range: of the truth (row) and of the prediction (column).

    Attributes:
        counts: The counts; noisy ones may be negative.
        deviation: The deviation of the noise of each.
    """

    counts: Floats
    deviation: float

    def as_json(self) -> dict[str, Any]:
        """Rows of counts, at least 0, and the deviation of a count."""
        return {
            "counts": np.maximum(self.counts, 0).round(1).tolist(),
            "deviation": round(self.deviation, 1),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class TargetMeasures:
    """How good a regression is. None stands for what is not defined, or lost in the noise.

    Targets and predictions count as clipped into the public range.

    Attributes:
        records: The number of slots.
        low: The lower end of the public range of targets.
        high: Its upper end.
        mae: The mean of |prediction - target| over usable records.
        rmse: The root of the mean of (prediction - target)^2.
        constant_rmse: The RMSE of a constant that answers the mean of the targets: their deviation.
        r2: 1 - (rmse / constant_rmse)^2.
        mean_error: The mean of prediction - target: the bias.
        mean_target: The mean of the targets.
        unusable: The share of slots that cannot be used.
        table: The predictions beside the truth.
    """

    records: int
    low: float
    high: float
    mae: Measure | None
    rmse: Measure | None
    constant_rmse: Measure | None
    r2: Measure | None
    mean_error: Measure | None
    mean_target: Measure | None
    unusable: Measure
    table: TruthTable

    def as_json(self) -> dict[str, Any]:
        """All measures as plain numbers, each kept in its range."""
        width = self.high - self.low
        digits = max(DIGITS - math.ceil(math.log10(width)), SHARE_DIGITS)
        return {
            "records": self.records,
            "target": [self.low, self.high],
            "mae": _json(self.mae, 0.0, width, digits),
            "rmse": _json(self.rmse, 0.0, width, digits),
            "constant_rmse": _json(self.constant_rmse, 0.0, width / 2, digits),
            "r2": _json(self.r2, -math.inf, 1.0),
            "mean_error": _json(self.mean_error, -width, width, digits),
            "mean_target": _json(self.mean_target, self.low, self.high, digits),
            "unusable": _json(self.unusable, 0.0, 1.0),
            "table": self.table.as_json(),
        }


def _json(
    measure: Measure | None, low: float, high: float, digits: int = SHARE_DIGITS
) -> dict[str, float] | None:
    return None if measure is None else measure.as_json(low, high, digits=digits)


NUMBERS = ("mae", "rmse", "constant_rmse", "r2", "mean_error", "mean_target", "unusable")
"""The measures that are one number."""


def of_scores(scores: TargetScores) -> TargetMeasures:
    """All measures that noisy scores tell.

    >>> from tidegate.learn.target_scores import score_targets
    >>> from tidegate.privacy.bits import NotPrivateBits
    >>> from tidegate.privacy.budget import Allowance
    >>> truths, usable = np.linspace(-1, 1, 4096), np.ones(4096, bool)
    >>> scores = score_targets(truths / 2, truths, usable, low=0.0, high=60.0,
    ...                        allowance=Allowance("mu", 0.2), bits=NotPrivateBits(7))
    >>> of_scores(scores).as_json()["mae"], float((15 * np.abs(truths)).mean().round(2))
    ({'value': 7.34369, 'deviation': 0.20918}, 7.5)
    """
    known, width = _EstimatedSums(scores), scores.high - scores.low
    mean, spread, rest = known.mean("truth"), known.spread, known.unexplained
    return TargetMeasures(
        records=scores.slots,
        low=scores.low,
        high=scores.high,
        mae=_measure(known.mean("absolute"), width),
        rmse=_root(known.mean("square"), width),
        constant_rmse=_root(spread, width / 2),
        r2=None if rest is None else Measure(1 - 4 * rest.value, 4 * rest.deviation),
        mean_error=_measure(known.mean("bias"), width),
        mean_target=_measure(mean, width / 2, (scores.low + scores.high) / 2),
        unusable=known.unusable,
        table=TruthTable(
            scores.cells.reshape(scores.parts, scores.parts), float(scores.deviations.cell)
        ),
    )


def _measure(ratio: Ratio | None, unit: float, zero: float = 0.0) -> Measure | None:
    """A ratio in another unit."""
    return None if ratio is None else Measure(zero + unit * ratio.value, unit * ratio.deviation)


def _root(ratio: Ratio | None, unit: float) -> Measure | None:
    """The root of a ratio; its deviation is a third of how far the root of the interval reaches."""
    if ratio is None:
        return None
    low, value, high = (
        math.sqrt(max(ratio.value + move * ratio.deviation, 0.0))
        for move in (-COVERED_DEVIATIONS, 0.0, COVERED_DEVIATIONS)
    )
    return Measure(unit * value, unit * max(high - value, value - low) / COVERED_DEVIATIONS)


class _EstimatedSums:
    """What noisy scores say about the exact sums; their noises are independent."""

    def __init__(self, scores: TargetScores) -> None:
        self._scores = scores
        # Errors and targets are rounded to a lattice: a square moves by at most twice as much.
        step = (
            2.0 ** -fraction_bits(scores.slots, persons=scores.persons)
            * scores.total
            / COVERED_DEVIATIONS
        )
        moved = {"bias": 0.5, "absolute": 0.5, "square": 1.0, "truth": 0.5, "truth_square": 1.0}
        self._sums = {
            name: Measured(float(value), (noise + step * moved.get(name, 0.0)) ** 2)
            for name, value, noise in zip(
                SUMS, scores.sums, scores.deviations[: len(SUMS)], strict=True
            )
        }

    @cached_property
    def usable(self) -> Measured:
        """The number of usable records; with all slots it is known twice, unless persons count."""
        one, other = self._sums["usable"], self._sums["unusable"]
        if self._scores.persons:  # nobody may learn how many there are
            return one
        value = (one.value + self._scores.slots - other.value) / 2
        return Measured(value, (one.variance + other.variance) / 4)

    @property
    def unusable(self) -> Measure:
        """The share of unusable slots."""
        count, total = self._sums["unusable"], self._scores.total
        if not self._scores.persons:
            count = Measured(total - self.usable.value, self.usable.variance)
        return Measure(count.value / total, math.sqrt(count.variance) / total)

    def mean(self, name: str) -> Ratio | None:
        """The mean of a sum over usable records; None if hardly any record is usable."""
        return ratio_of(self._sums[name], self.usable)

    @cached_property
    def _squares(self) -> tuple[Measured, float] | None:
        """The sum of (t - mean)^2, and the covariance of its noise with the usable count.

        As a function of the mean it is flat where the mean is right. The second order is there:
        a mean off by three deviations makes the sum too small by nine squared deviations a record.
        """
        mean, usable = self.mean("truth"), self.usable
        if mean is None:
            return None
        first, second = self._sums["truth"], self._sums["truth_square"]
        value = second.value - 2 * mean.value * first.value + mean.value**2 * usable.value
        noise = math.sqrt(
            second.variance + 4 * mean.value**2 * first.variance + mean.value**4 * usable.variance
        )
        bend = COVERED_DEVIATIONS * mean.deviation**2 * usable.value
        return Measured(value, (noise + bend) ** 2), mean.value**2 * usable.variance

    @property
    def spread(self) -> Ratio | None:
        """The variance of the targets."""
        if self._squares is None:
            return None
        squares, covariance = self._squares
        return ratio_of(squares, self.usable, covariance)

    @property
    def unexplained(self) -> Ratio | None:
        """The sum of (e/2)^2 by that of (t - mean)^2; None if the targets may all be equal."""
        if self._squares is None:
            return None
        return ratio_of(self._sums["square"], self._squares[0], least=1e-300)


def exact(
    predictions: Floats, truths: Floats, usable: NDArray[np.bool_], *, low: float, high: float
) -> TargetMeasures:
    """The measures of a model on public records, without noise.

    Args:
        predictions: Of the model on each slot, in units in which the range is from -1 to 1.
        truths: The target of each slot, in the same units; ignored where the slot is unusable.
        usable: Whether each slot can be used.
        low: The lower end of the public range of targets.
        high: Its upper end.

    >>> found = exact(np.array([0.0, 0.5]), np.array([-0.5, 0.5]), np.ones(2, bool), low=0, high=60)
    >>> found.mae, found.constant_rmse
    (Measure(value=7.5, deviation=0.0), Measure(value=15.0, deviation=0.0))
    """
    slots, half = len(usable), (high - low) / 2
    _, cells = exact_sums(predictions, truths, usable, parts=EXACT_PARTS)
    p, t = (in_range(values[usable]) for values in (predictions, truths))
    error, some = p - t, t.size > 0
    spread = float(t.std()) if some else 0.0
    rmse = math.sqrt(float((error**2).mean())) if some else 0.0
    return TargetMeasures(
        records=slots,
        low=low,
        high=high,
        mae=_exactly(half * np.abs(error).mean()) if some else None,
        rmse=_exactly(half * rmse) if some else None,
        constant_rmse=_exactly(half * spread) if some else None,
        r2=_exactly(1 - (rmse / spread) ** 2) if spread else None,
        mean_error=_exactly(half * error.mean()) if some else None,
        mean_target=_exactly((low + high) / 2 + half * t.mean()) if some else None,
        unusable=_exactly(1 - t.size / slots if slots else 0.0),
        table=TruthTable(cells.reshape(EXACT_PARTS, EXACT_PARTS), 0.0),
    )


def _exactly(value: Any) -> Measure:
    return Measure(float(value), 0.0)
