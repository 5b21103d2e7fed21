"""Tables of counts: the confusion matrix, and predictions of a target beside the truth."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate.learn.exact import Floats
from tidegate.learn.measures.estimates import Answers, Estimates
from tidegate.learn.measures.measure import Detail, register
from tidegate.learn.measures.sums import EstimatedSums, Predictions
from tidegate.learn.score_cells import MAX_CLASSES_WITH_CELLS


@dataclass(frozen=True, eq=False)
class Counted:
    """Counts of records by what is true (row) and what is predicted (column).

    Attributes:
        counts: The counts; noisy ones may be negative.
        deviations: The deviation of the noise of each.
    """

    counts: Floats
    deviations: Floats

    def as_json(self) -> dict[str, Any]:
        """Rows of counts, at least 0, and the largest deviation of a count."""
        return {
            "counts": np.maximum(self.counts, 0).round(1).tolist(),
            "deviation": round(float(self.deviations.max()), 1),
        }


@register
class Confusion(Detail):
    """The confusion matrix; None if there are too many classes."""

    name = "confusion"

    def noisy(self, known: Estimates) -> Counted | None:
        """Right answers as estimated; the wrong ones of a class are made to add up to their sum."""
        if not known.by_class:
            return None
        scores, layout = known.scores, known.scores.layout
        size = layout.classes
        counts, variances = np.zeros((size, size)), np.zeros((size, size))
        place = layout.table("confusion")
        cells, noises = scores.cells[place], scores.cell_deviations[place]
        seen = cells.reshape(size, size) if cells.size else np.zeros((size, size))
        noise = float(noises[0]) if cells.size else 0.0
        for code in range(size):
            right, wrong = known.of_class(code, right=True), known.of_class(code, right=False)
            total, others = float(wrong @ known.values), seen[code].sum() - seen[code, code]
            counts[code] = seen[code] + (total - others) / (size - 1)
            rest = noise**2 * (1 - 1 / (size - 1))
            variances[code] = rest + known.variance(wrong) / (size - 1) ** 2
            counts[code, code] = right @ known.values
            variances[code, code] = known.variance(right)
        return Counted(counts, np.sqrt(variances))

    def exact(self, known: Answers) -> Counted | None:
        """The counts of public records; None if there are too many classes."""
        if known.classes > MAX_CLASSES_WITH_CELLS:
            return None
        return Counted(known.matrix, np.zeros_like(known.matrix))


@register
class TruthTable(Detail):
    """Predictions of a target beside the truth, by parts of its range."""

    kind = "target"
    name = "table"

    def noisy(self, known: EstimatedSums) -> Counted:
        """See `Score`."""
        return Counted(known.table, known.table_deviations)

    def exact(self, known: Predictions) -> Counted:
        """See `Score`."""
        return Counted(known.table, np.zeros_like(known.table))
