"""What measures of classes are read off: what noisy scores say, and what public records do.

The counts and tables of `Scores` count the same records in several ways. The estimates are the
numbers nearest to all of them that agree with each other and add up to the public number of slots:
least squares, with a covariance.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from tidegate.data.predicted import predicted_codes
from tidegate.learn.measures.measure import Ends, Kind, Measure, exactly
from tidegate.learn.score_cells import Bins, Floats, Indices, Name
from tidegate.learn.scores import Scores


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


COVERED_DEVIATIONS = 3.0
"""Intervals span this many deviations; a denominator must be further from 0."""


class Measured(NamedTuple):
    """A noisy sum, and the variance of its noise."""

    value: float
    variance: float


def ratio_of(
    above: Measured, below: Measured, covariance: float = 0.0, *, least: float = 1.0
) -> Measure | None:
    """The ratio of two noisy sums; None if the noise leaves the denominator open.

    It lies r from the truth only if the noise of above - (ratio + r) * below is r times the
    noisy denominator (Fieller's interval). The deviation is a third of the distance at which
    this takes three deviations of noise: right however small the denominator is.

    Args:
        above: The numerator.
        below: The denominator.
        covariance: Of the noise of both.
        least: The least denominator; one record, if it counts records.

    >>> ratio_of(Measured(50.0, 1.0), Measured(64.0, 0.0))
    Measure(value=0.78125, deviation=0.015625)
    """
    lead = below.value**2 - COVERED_DEVIATIONS**2 * below.variance
    if below.value < least or lead <= 0:
        return None
    middle = above.value * below.value - COVERED_DEVIATIONS**2 * covariance
    rest = above.value**2 - COVERED_DEVIATIONS**2 * above.variance
    root = math.sqrt(max(middle**2 - lead * rest, 0))
    value = above.value / below.value
    far = max((middle + root) / lead - value, value - (middle - root) / lead)
    return Measure(value, far / COVERED_DEVIATIONS)


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimated counts: all unknown cells, then unusable records.

    With two classes the unknown cells are those of "bins". With more they are those of "classes"
    (if present), "confidence" and "truth".

    Attributes:
        scores: What they are made of.
        values: The estimates.
        covariance: Of their noise.
    """

    kind: ClassVar[Kind] = "classes"
    is_exact: ClassVar[bool] = False
    ends: ClassVar[Ends] = Ends()
    probabilities: ClassVar[bool] = True

    scores: Scores
    values: Floats
    covariance: Floats

    @property
    def slots(self) -> int:
        """The number of slots."""
        return self.scores.slots

    @property
    def two(self) -> bool:
        """Whether there are two classes."""
        return self.scores.classes == 2

    @property
    def by_class(self) -> bool:
        """Whether right and wrong answers were counted for each class."""
        return self.two or "classes" in [table.name for table in self.scores.layout.tables]

    @cached_property
    def some(self) -> bool:
        """Whether the noise leaves no doubt that records are usable."""
        return self.ratio(self.right, self.usable) is not None

    @property
    def unusable(self) -> Measure:
        """The share of unusable slots."""
        weights = self.zeros()
        weights[-1] = 1
        slots = self.scores.total
        return Measure(float(self.values[-1]) / slots, self.variance(weights) ** 0.5 / slots)

    @property
    def shares(self) -> list[Measure]:
        """The share of each class; empty if hardly any record is usable."""
        each = [self.ratio(self.of_class(code), self.usable) for code in range(self.scores.classes)]
        shares = [ratio for ratio in each if ratio is not None]
        return shares if len(shares) == len(each) else []

    def variance(self, weights: Floats) -> float:
        """The variance of the noise of a weighted sum of the values."""
        return max(float(weights @ self.covariance @ weights), 0.0)

    def ratio(self, over: Floats, under: Floats) -> Measure | None:
        """The ratio of two weighted sums; None if the noise leaves the denominator open."""
        above, below = (
            Measured(float(weights @ self.values), self.variance(weights))
            for weights in (over, under)
        )
        return ratio_of(above, below, float(over @ self.covariance @ under))

    def share(self, weights: Floats) -> Measure:
        """A share of the usable records, if there are some."""
        return self.ratio(weights, self.usable) or Measure(0.0, 1.0)

    def by_bin(self, zero: Floats, one: Floats) -> Floats:
        """Two classes: weights of the counts by bin of each class."""
        return np.concatenate([zero, one, [0.0]])

    def positions(self, name: Name) -> tuple[Floats, float]:
        """The noisy sums of positions in the cells of a table, and the deviation of each."""
        place = self.scores.layout.table(name, positions=True)
        return self.scores.cells[place], float(self.scores.cell_deviations[place][0])

    def zeros(self) -> Floats:
        """Weights of zero for all values."""
        return np.zeros(self.values.size)

    @cached_property
    def usable(self) -> Floats:
        """The weights whose sum is the number of usable records: all slots but the unusable."""
        weights = self.zeros()
        weights[self.unknown(_whole_table(self.scores))] = 1
        return weights

    def unknown(self, name: str) -> slice:
        """Where the values of a table are."""
        start = 0
        for table in _unknown(self.scores):
            if table[0] == name:
                return slice(start, start + table[1])
            start += table[1]
        raise KeyError(name)

    @cached_property
    def right(self) -> Floats:
        """The weights whose sum is the number of right answers."""
        weights = self.zeros()
        name = _whole_table(self.scores)
        weights[self.unknown(name)] = _right(self.scores, name)
        return weights

    def of_class(self, code: int, *, right: bool | None = None) -> Floats:
        """The weights whose sum is the records of a class: all, or those answered right or wrong.

        Only if the scores have cells by class.
        """
        weights = self.zeros()
        for correct in (True, False):
            if right is None or right is correct:
                weights[self.unknown(_whole_table(self.scores))] += _class_cell(
                    self.scores, code, correct
                )
        return weights


def _unknown(scores: Scores) -> list[tuple[str, int]]:
    """The tables whose exact cells are estimated together, with their sizes."""
    left_out = ("classes", "confusion") if scores.classes == 2 else ("confusion",)
    tables = [table for table in scores.layout.tables if not table.positions]
    return [(table.name, table.size) for table in tables if table.name not in left_out]


def _whole_table(scores: Scores) -> str:
    """The first table, in which every usable record has a cell."""
    return _unknown(scores)[0][0]


def _right(scores: Scores, name: str) -> Floats:
    """Which cells of a table have right answers only; the others have wrong answers only."""
    layout = scores.layout
    if name == "bins":
        half = layout.bins.count // 2
        return np.repeat([1.0, 0.0, 0.0, 1.0], half)  # class 0 below one half, class 1 above
    if name == "truth":
        return np.zeros(dict(_unknown(scores))["truth"])
    size = layout.classes if name == "classes" else layout.bins.count
    return np.repeat([1.0, 0.0], size)


def _class_cell(scores: Scores, code: int, correct: bool) -> Floats:
    """Which cells of the first table have the answers to one class that are right, or wrong."""
    right = _right(scores, _whole_table(scores))
    index = np.arange(right.size)
    of_class = (
        index // (right.size // 2) == code
        if scores.classes == 2
        else index % scores.classes == code
    )
    return np.asarray((right == correct) & of_class, np.float64)


def estimate(scores: Scores) -> Estimates:
    """The estimates by weighted least squares, given what adds up exactly."""
    rows, seen, variances = _observations(scores)
    sums, totals = _constraints(scores)
    precision = rows.T @ (rows / variances[:, None])
    covariance = np.asarray(np.linalg.inv(precision), np.float64)
    free = covariance @ (rows.T @ (seen / variances))
    if not totals.size:
        return Estimates(scores, free, covariance)
    gain = covariance @ sums.T @ np.linalg.inv(sums @ covariance @ sums.T)
    values = free + gain @ (totals - sums @ free)
    left = np.asarray(covariance - gain @ sums @ covariance)
    return Estimates(scores, values, left)


def _blank(scores: Scores) -> Estimates:
    size = sum(size for _, size in _unknown(scores)) + 1
    return Estimates(scores, np.zeros(size), np.zeros((size, size)))


def _observations(scores: Scores) -> tuple[Floats, Floats, Floats]:
    """All that was released, as sums of unknown cells: weights, noisy values, variances."""
    blank, layout = _blank(scores), scores.layout
    cell_variances = scores.cell_deviations**2
    unusable = blank.zeros()
    unusable[-1] = 1
    rows = [blank.right, blank.usable - blank.right, unusable, unusable]
    seen = [*scores.counts, scores.cells[-1]]
    variances = [scores.count_deviation**2] * 3 + [cell_variances[-1]]
    for table in layout.tables:
        if table.positions:
            continue
        place = layout.table(table.name)
        cells, variance = scores.cells[place], cell_variances[place][0]
        if table.name == "confusion":
            matrix = cells.reshape(layout.classes, -1)
            for code, row in enumerate(matrix):
                rows += [blank.of_class(code, right=True), blank.of_class(code, right=False)]
                seen += [row[code], row.sum() - row[code]]
                variances += [variance, variance * (layout.classes - 1)]
            continue
        if table.name == "classes":
            each = [
                blank.of_class(c, right=r) for r in (True, False) for c in range(scores.classes)
            ]
        else:
            each = list(np.eye(blank.values.size)[blank.unknown(table.name)])
        rows += each
        seen += cells.tolist()
        variances += [variance] * table.size
    return np.array(rows), np.array(seen), np.array(variances)


def _constraints(scores: Scores) -> tuple[Floats, Floats]:
    """The sums that are known exactly: all slots; and tables that count the same answers."""
    blank = _blank(scores)
    everything = blank.usable.copy()
    everything[-1] = 1
    # If persons are protected, nobody may learn how many there are.
    rows, totals = ([], []) if scores.persons else ([everything], [float(scores.slots)])
    for name, _ in _unknown(scores)[1:]:
        right, wrong = blank.zeros(), blank.zeros()
        right[blank.unknown(name)] = _right(scores, name)
        wrong[blank.unknown(name)] = 1 - _right(scores, name)
        if right.any():
            rows.append(right - blank.right)
        rows.append(wrong - (blank.usable - blank.right))
    zeros = [0.0] * (len(rows) - len(totals))
    return np.array(rows).reshape(len(rows), blank.values.size), np.array(totals + zeros)


MAX_OFF_CENTRE = 0.25
"""How far from the middle of a bin the mean of its records is assumed to be, as a part of it."""

Function = Callable[[Floats], Floats]


class BinnedMean:
    """The mean over usable records of a function of the probability, cell by cell.

    In a cell the function is taken as linear in the position of a record. The sum of positions is
    known up to its noise; where the noise hides more than the bin does, the sum is not used.
    """

    def __init__(self, known: Estimates) -> None:
        self._known = known
        self._values = known.zeros()
        self._shift, self._variance, self._width = 0.0, 0.0, 0.0

    def add(self, name: Name, bins: Bins, function: Function, at: int = 0) -> None:
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


def mean_by_class(known: Estimates, zero: Function, one: Function) -> Measure | None:
    """Two classes: the mean of a function of the probability of class 1 for each class."""
    bins, mean = known.scores.layout.bins, BinnedMean(known)
    mean.add("bins", bins, zero)
    mean.add("bins", bins, one, bins.count)
    return mean.measure()


def resolved(shares: Sequence[Measure]) -> float:
    """The part of the differences between shares that is not noise, as far as one can tell.

    The largest of noisy shares is too large on average: of five equal ones by more than one
    deviation. So shares are moved towards each other as far as their known noise suggests.

    >>> round(resolved([Measure(0.7, 0.1), Measure(0.3, 0.1)]), 6)
    0.75
    >>> resolved([Measure(0.55, 0.1), Measure(0.45, 0.1)])
    0.0
    """
    apart = sum((share.value - 1 / len(shares)) ** 2 for share in shares)
    noise = sum(share.deviation**2 for share in shares)
    return 1 - noise / apart if apart > noise else 0.0
