"""The answers of a classifier to public records, which measures are read off without noise."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from tidegate.data.predicted import predicted_codes
from tidegate.learn.bins import Bins, Floats, Indices
from tidegate.learn.measures.forms import Ends
from tidegate.learn.measures.measure import Kind, Measure, exactly


def mean_of(values: NDArray[Any]) -> Measure | None:
    """The mean of some numbers; None if there are none."""
    return exactly(np.asarray(values, np.float64).mean()) if values.size else None


class Answers:
    """The answers of a model to public records.

    Args:
        margins: Of the model on each slot; shape (n,) for two classes, else (n, classes).
        y: The index of each slot's class; ignored where the slot is unusable.
        usable: Whether each slot can be used.
        classes: The number of classes.
        bins: The bins of the calibration curve; by default those of a step of 4,096 records.
        probabilities: Whether margins have probabilities; if not, no measure reads them as such.

    Attributes:
        margins: Of usable records, as `y` and `codes`, their true and predicted classes.
        matrix: Counts of records by true class (row) and predicted class (column).
        sizes: Counts of records by class.
        first: If there are probabilities, that of class 1 (two classes) or of the predicted class.
        hit: Whether that came true.
        places: In which bin it is.
        truth: The probability of the true class.
    """

    kind: ClassVar[Kind] = "classes"
    is_exact: ClassVar[bool] = True
    ends: ClassVar[Ends] = Ends()

    def __init__(  # noqa: PLR0913 (records are three arrays)
        self,
        margins: Floats,
        y: Indices,
        usable: NDArray[np.bool_],
        classes: int,
        *,
        bins: Bins | None = None,
        probabilities: bool = True,
    ) -> None:
        self.slots, self.classes = len(usable), classes
        self.margins, self.y = margins[usable], y[usable]
        self.codes = predicted_codes(self.margins)
        self.some = self.by_class = self.y.size > 0
        self.two = classes == 2 and self.some
        self.probabilities = probabilities and self.some
        self.unusable = exactly(1 - self.y.size / self.slots if self.slots else 0.0)
        self.matrix = np.zeros((classes, classes))
        np.add.at(self.matrix, (self.y, self.codes), 1.0)
        self.sizes = self.matrix.sum(axis=1)
        self.shares = self.sizes / max(self.y.size, 1)
        self.bins = bins or (Bins.two(2) if classes == 2 else Bins.confidence(2, classes))
        if self.probabilities:
            self._read_probabilities()

    def _read_probabilities(self) -> None:
        if self.margins.ndim == 1:
            self.first, self.hit = expit(self.margins), self.y == 1
            self.truth = expit(np.where(self.hit, self.margins, -self.margins))
            self.places = np.searchsorted(self.bins.margins, self.margins)
        else:
            rows, each = np.arange(self.y.size), softmax(self.margins, axis=1)
            self.first, self.hit = each[rows, self.codes], self.codes == self.y
            self.truth = each[rows, self.y]
            self.places = np.searchsorted(self.bins.edges, self.first)
