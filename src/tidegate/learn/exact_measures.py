"""The exact measures of a model on public records."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax, xlogy
from scipy.stats import rankdata

from tidegate.learn.bins import MIN_PROBABILITY, Bins, Floats, Indices
from tidegate.learn.labels import predicted_codes
from tidegate.learn.measure_values import (
    CalibrationBin,
    Confusion,
    Measure,
    Measures,
    Threshold,
)
from tidegate.learn.score_cells import MAX_CLASSES_WITH_CELLS


def exact(  # noqa: PLR0913 (records are three arrays)
    margins: Floats,
    y: Indices,
    usable: NDArray[np.bool_],
    classes: int,
    *,
    bins: Bins | None = None,
    probabilities: bool = True,
) -> Measures:
    """The measures of a model on public records, without noise.

    Args:
        margins: Of the model on each slot; shape (n,) for two classes, else (n, classes).
        y: The index of each slot's class; ignored where the slot is unusable.
        usable: Whether each slot can be used.
        classes: The number of classes.
        bins: The bins of the calibration curve; by default those of a step of 4,096 records.
        probabilities: Whether margins have probabilities; if not, no measure reads them as such.

    >>> y = np.array([0, 0, 1, 1])
    >>> measures = exact(np.array([-2.0, 1.0, 2.0, 3.0]), y, np.ones(4, bool), 2)
    >>> measures.accuracy, measures.auc
    (Measure(value=0.75, deviation=0.0), Measure(value=1.0, deviation=0.0))
    """
    slots = len(usable)
    margins, y = margins[usable], y[usable]
    codes = predicted_codes(margins)
    matrix = np.zeros((classes, classes))
    np.add.at(matrix, (y, codes), 1.0)
    sizes = matrix.sum(axis=1)
    if bins is None:
        bins = Bins.two(2) if classes == 2 else Bins.confidence(2, classes)
    shares = sizes / max(len(y), 1)
    present = sizes > 0
    recall = np.diag(matrix)[present] / sizes[present]
    likely = _Likely(margins, y, codes, bins) if probabilities and len(y) else None
    two = classes == 2 and len(y) > 0
    return Measures(
        records=slots,
        accuracy=_mean(codes == y),
        majority=_of(shares.max()) if len(y) else None,
        balanced_accuracy=_mean(recall),
        log_loss=None if likely is None else likely.log_loss(),
        constant_log_loss=_of(-xlogy(shares, shares).sum()) if len(y) else None,
        brier=_mean((likely.first - y) ** 2) if likely is not None and two else None,
        auc=_auc(margins, y) if two and present.all() else None,
        bias=_mean(likely.first - y) if likely is not None and two else None,
        unusable=_of(1 - len(y) / slots if slots else 0.0),
        calibration=() if likely is None else likely.calibration(),
        thresholds=_thresholds(margins, y, bins) if likely is not None and two else (),
        confusion=Confusion(matrix, np.zeros_like(matrix))
        if classes <= MAX_CLASSES_WITH_CELLS
        else None,
    )


def _of(value: float | np.floating) -> Measure:
    return Measure(float(value), 0.0)


def _mean(values: NDArray[np.generic]) -> Measure | None:
    return _of(np.asarray(values, np.float64).mean()) if values.size else None


class _Likely:
    """The probabilities of a model on usable records.

    Attributes:
        first: The probability of class 1 (two classes) or of the predicted class.
    """

    def __init__(self, margins: Floats, y: Indices, codes: Indices, bins: Bins) -> None:
        self._edges = bins.edges
        if margins.ndim == 1:
            self.first = expit(margins)
            self._truth = expit(np.where(y == 1, margins, -margins))
            self._hit = y == 1
            self._bins = np.searchsorted(bins.margins, margins)
        else:
            rows = np.arange(len(y))
            table = softmax(margins, axis=1)
            self.first, self._truth, self._hit = table[rows, codes], table[rows, y], codes == y
            self._bins = np.searchsorted(bins.edges, self.first)

    def log_loss(self) -> Measure:
        """The mean of -log of the true class's probability."""
        return _of(-np.log(np.maximum(self._truth, MIN_PROBABILITY)).mean())

    def calibration(self) -> tuple[CalibrationBin, ...]:
        """One entry for each bin."""
        ends = (0.0, *self._edges, 1.0)
        return tuple(
            CalibrationBin(low, high, _mean(self.first[at]), _mean(self._hit[at]), _of(np.mean(at)))
            for low, high, at in (
                (ends[i], ends[i + 1], self._bins == i) for i in range(len(ends) - 1)
            )
        )


def _auc(margins: Floats, y: Indices) -> Measure:
    """The mean rank of class 1 among all, rescaled; ties count half."""
    ones = int(y.sum())
    ranks = rankdata(margins)[y == 1].sum()
    return _of((ranks - ones * (ones + 1) / 2) / (ones * (len(y) - ones)))


def _thresholds(margins: Floats, y: Indices, bins: Bins) -> tuple[Threshold, ...]:
    def at(probability: float, margin: float) -> Threshold:
        flagged = margins > margin
        return Threshold(
            probability, _mean(y[flagged]), _mean(flagged[y == 1]), _of(np.mean(flagged))
        )

    return tuple(at(p, m) for p, m in zip(bins.edges, bins.margins.tolist(), strict=True))
