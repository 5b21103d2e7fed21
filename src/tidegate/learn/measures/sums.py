"""Sums of a regression's errors: what noisy ones say, and what public records do.

Measures of a target are read off these. Proof: docs/proofs/quality.md.
"""

import math
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tidegate.learn.exact import Floats
from tidegate.learn.measures.estimates import COVERED_DEVIATIONS, Measured, ratio_of
from tidegate.learn.measures.measure import Ends, Kind, Measure, exactly
from tidegate.learn.target_scores import SUMS, TargetScores, exact_sums, fraction_bits, in_range

EXACT_PARTS = 8
"""Equal parts of the range in the table of public records."""


class EstimatedSums:
    """What noisy scores say about the exact sums; their noises are independent."""

    kind: ClassVar[Kind] = "target"
    is_exact: ClassVar[bool] = False

    def __init__(self, scores: TargetScores) -> None:
        self._scores, self.slots = scores, scores.slots
        self.ends = Ends(scores.low, scores.high)
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

    @property
    def some(self) -> bool:
        """Whether the noise leaves no doubt that records are usable."""
        return self.mean("truth") is not None

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

    def mean(self, name: str, unit: float = 1.0, zero: float = 0.0) -> Measure | None:
        """The mean of a sum over usable records, in a unit; None if hardly any is usable."""
        found = ratio_of(self._sums[name], self.usable)
        return found and found.scaled(unit, zero)

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
    def spread(self) -> Measure | None:
        """The variance of the targets."""
        found = self._squares
        return found and ratio_of(found[0], self.usable, found[1])

    @property
    def unexplained(self) -> Measure | None:
        """The sum of (e/2)^2 by that of (t - mean)^2; None if the targets may all be equal."""
        found = self._squares
        return found and ratio_of(self._sums["square"], found[0], least=1e-300)

    @property
    def table(self) -> Floats:
        """The noisy counts by part of the range: of the truth (row), of the prediction (column)."""
        return self._scores.cells.reshape(self._scores.parts, self._scores.parts)

    @property
    def table_deviations(self) -> Floats:
        """The deviation of the noise of each of these."""
        return np.full_like(self.table, self._scores.deviations.cell)


class Predictions:
    """The predictions of a model for public records, in units in which the range is from -1 to 1.

    Args:
        predictions: Of each slot.
        truths: The target of each slot; ignored where the slot is unusable.
        usable: Whether each slot can be used.
        ends: The ends of the public range of targets.

    Attributes:
        truth: The targets of usable records.
        error: What predictions for them are off by.
        root: The root of the mean squared error.
        spread: The deviation of the targets.
        half: Half the width of the range.
        table: Counts by part of the range: of the truth (row), of the prediction (column).
    """

    kind: ClassVar[Kind] = "target"
    is_exact: ClassVar[bool] = True

    def __init__(
        self, predictions: Floats, truths: Floats, usable: NDArray[np.bool_], ends: Ends
    ) -> None:
        self.slots, self.ends, self.half = len(usable), ends, ends.width / 2
        self.truth = in_range(truths[usable])
        self.error = in_range(predictions[usable]) - self.truth
        self.some = self.truth.size > 0
        self.root = math.sqrt(float((self.error**2).mean())) if self.some else 0.0
        self.spread = float(self.truth.std()) if self.some else 0.0
        self.unusable = exactly(1 - self.truth.size / self.slots if self.slots else 0.0)
        _, cells = exact_sums(predictions, truths, usable, parts=EXACT_PARTS)
        self.table = cells.reshape(EXACT_PARTS, EXACT_PARTS)
