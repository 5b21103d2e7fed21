"""What scores count: bins of probabilities, the cells of tables, and the noise of both.

How far a record moves all cells together decides the noise. Proof: docs/proofs/quality.md.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import whole
from tidegate.data.predicted import predicted_codes
from tidegate.data.rows import lane_sum
from tidegate.learn.exact import exact_bits, exp, log, logistic, truncate
from tidegate.privacy.budget import Allowance, sqrt_down, up

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

MIN_PROBABILITY = 0.001
"""A smaller probability counts as this one in the log-loss, so that no record decides it alone."""

NOISE_LEVELS = (0.06, 0.02, 0.006, 0.002)
"""Cells with more noise than this, as a part of the slots, get the bins of its place below."""

HALF_EDGES = (
    (0.2,),
    (0.05, 0.15, 0.3),
    (0.02, 0.05, 0.1, 0.2, 0.35),
    (0.01, 0.03, 0.06, 0.12, 0.2, 0.3, 0.4),
    (0.005, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.27, 0.35, 0.42),
)
"""Two classes: the edges below 1/2 of the bins of the probability of class 1."""

CONFIDENCE_EDGES = (
    (0.7,),
    (0.5, 0.8, 0.95),
    (0.4, 0.6, 0.8, 0.9, 0.97),
    (0.3, 0.45, 0.6, 0.7, 0.8, 0.9, 0.97),
    (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99),
)
"""More classes: the edges of the bins of the predicted class's probability."""

TRUTH_EDGES = (
    (0.05,),
    (0.01, 0.1),
    (0.01, 0.05, 0.2),
    (0.005, 0.02, 0.07, 0.2),
    (0.003, 0.01, 0.03, 0.1, 0.2, 0.3),
)
"""More classes: the edges of the bins of the true class's probability, of wrong answers."""

STEPS = 1024
"""A position in a bin is rounded to so many steps, so that sums of positions are exact."""

POINTS = 64
"""Points that stand for a bin where a function is averaged over it."""

Kind = Literal["two", "confidence", "truth"]


def level_of(noise: float) -> int:
    """The place of the bins for cells whose noise is this part of the slots."""
    return sum(noise <= each for each in NOISE_LEVELS)


@dataclass(frozen=True)
class Bins:
    """The bins of a probability.

    The coordinate of a bin is the probability p, or log p (log(1 - p)) where the least (greatest)
    bin of two classes or a bin of the true class's probability spans several magnitudes.

    Attributes:
        kind: Which probability: of class 1 out of two, of the predicted, or of the true class.
        edges: The inner edges, ascending.
        least: The least probability; smaller ones count as this one.
    """

    kind: Kind
    edges: tuple[float, ...]
    least: float = MIN_PROBABILITY

    @classmethod
    def two(cls, level: int) -> "Bins":
        """The bins of the probability of class 1 out of two, on both sides of one half.

        >>> Bins.two(1).edges
        (0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95)
        """
        half = HALF_EDGES[level]
        return cls("two", (*half, 0.5, *(round(1 - edge, 6) for edge in reversed(half))))

    @classmethod
    def confidence(cls, level: int, classes: int) -> "Bins":
        """The bins of the predicted class's probability."""
        edges = CONFIDENCE_EDGES[level]
        return cls("confidence", edges, min(1 / classes, edges[0] / 2))

    @classmethod
    def truth(cls, level: int) -> "Bins":
        """The bins of the true class's probability, where another class is predicted."""
        return cls("truth", TRUTH_EDGES[level])

    @property
    def count(self) -> int:
        """How many bins there are."""
        return len(self.edges) + 1

    @property
    def ends(self) -> tuple[float, ...]:
        """All edges, outer ones included."""
        return (self.least, *self.edges, self._greatest)

    @property
    def _greatest(self) -> float:
        return {"two": 1 - self.least, "confidence": 1.0, "truth": 0.5}[self.kind]

    @property
    def margins(self) -> Floats:
        """Two classes: the margins at the inner edges; 0 at one half, exactly."""
        return np.array([math.log(p / (1 - p)) for p in self.edges])

    def _coordinate(self, p: Floats, places: Indices) -> Floats:
        """The coordinate of probabilities in their bins."""
        low = np.full(places.shape, self.kind == "truth") | ((places == 0) & (self.kind == "two"))
        high = (places == self.count - 1) & (self.kind == "two")
        logs = log(np.where(low, p, np.where(high, 1 - p, 1.0)))
        return np.where(low, logs, np.where(high, -logs, p))

    def positions(self, p: Floats, places: Indices) -> Floats:
        """Where in its bin each probability is: from -1/2 to 1/2, in `STEPS` steps.

        >>> Bins.two(1).positions(np.array([0.15, 0.2, 0.3]), np.array([2, 2, 2]))
        array([-0.5       , -0.16699219,  0.5       ])
        """
        ends = np.array(self.ends)
        low = self._coordinate(ends[places], places)
        high = self._coordinate(ends[places + 1], places)
        here = self._coordinate(np.clip(p, self.least, self._greatest), places)
        part = np.nan_to_num((here - low) / (high - low))  # margins that are no numbers
        return np.asarray(np.rint(np.clip(part, 0, 1) * STEPS) / STEPS - 0.5)

    def points(self) -> tuple[Floats, Floats]:
        """Probabilities spread evenly over each bin, and their positions; one row for each bin."""
        middles = (np.arange(POINTS) + 0.5) / POINTS
        low, high = np.array(self.ends[:-1]), np.array(self.ends[1:])
        p = low[:, None] + (high - low)[:, None] * middles
        places = np.repeat(np.arange(self.count)[:, None], POINTS, axis=1)
        return p, self.positions(p, places)


LAYOUTS = range(1, 3)
"""The versions of scores that can be read. The first noised three or more classes for more than
any record moves; see `Cells.moved`. Layout 2 came with rules 2."""

MAX_CLASSES_WITH_CELLS = 60
"""With more classes than this, cells by class and the confusion matrix are left out."""

CELLS_MU = Fraction(2)
"""The squared weight of all tables together, where that of the counts is 1 (Gaussian noise).

With it, the deviation of the accuracy is at most twice that of a single count.
"""

CELLS_EPSILON = Fraction(2, 9)
"""The weight of all tables together, where that of the counts is 1 (Laplace noise)."""

Name = Literal["classes", "bins", "confidence", "truth", "confusion"]
Outcome = Literal["right", "wrong", "unusable"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
POSITION_BITS = 11
"""Fractional bits of a position in a bin; see `bins.STEPS`."""

COUNT, POSITION = Fraction(1), Fraction(1, 2)
"""Relative (squared) weights of a table of counts and of one of positions."""


def layout_of(rules: int) -> int:
    """The version of scores that a release of these rules has.

    >>> layout_of(1), layout_of(2)
    (1, 2)
    """
    return min(rules, LAYOUTS[-1])


class Table(NamedTuple):
    """A histogram; each record counts in at most one of its cells.

    Attributes:
        name: "classes" has the cells (right or wrong, true class); "bins" (true class, bin of the
            probability of class 1); "confidence" (right or wrong, bin of the predicted class's
            probability); "truth" (bin of the true class's probability) of wrong answers;
            "confusion" (true class, predicted class).
        size: How many cells it has.
        part: Its part of the weight of all tables.
        positions: Whether a cell has the sum of the positions of its records in their bin, each
            from -1/2 to 1/2, and not their number.
    """

    name: Name
    size: int
    part: Fraction
    positions: bool = False


@dataclass(frozen=True, kw_only=True)
class Cells:
    """The layout of the histograms: a rule of public numbers alone.

    The last cell is for unusable records. The cells of the tables come before it, in order.

    Attributes:
        classes: The number of classes.
        bins: The bins of the probability of class 1 (two classes) or of the predicted class.
        truth: The bins of "truth"; two classes have no such table.
        tables: The histograms.
    """

    classes: int
    bins: Bins
    truth: Bins
    tables: tuple[Table, ...]

    @classmethod
    def of(cls, classes: int, slots: int, allowance: Allowance) -> "Cells":
        """The layout for a number of classes, slots per step and the price of a score.

        >>> cells = Cells.of(2, 4096, Allowance("mu", 0.05))
        >>> cells.bins.edges, cells.size
        ((0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98), 53)
        """
        classes = whole("classes", classes, least=2)
        typical = allowance.deviation(_scale(allowance, _at_most(allowance), Fraction(1, 3)))
        level = level_of(typical / whole("slots", slots))
        truth = Bins.truth(level)
        if classes == 2:
            bins = Bins.two(level)
            wanted = [Table("classes", 4, COUNT / 3), *_with_positions("bins", 2 * bins.count)]
        else:
            bins = Bins.confidence(level, classes)
            wanted = [
                *_with_positions("confidence", 2 * bins.count),
                *_with_positions("truth", truth.count),
            ]
            if classes <= MAX_CLASSES_WITH_CELLS:
                by_class = Table("classes", 2 * classes, COUNT)
                wanted = [by_class, *wanted, Table("confusion", classes**2, COUNT)]
        return cls(classes=classes, bins=bins, truth=truth, tables=_tables(wanted, allowance))

    @property
    def size(self) -> int:
        """The number of cells, that of unusable records included."""
        return sum(table.size for table in self.tables) + 1

    def moved(self, unit: str) -> Fraction:
        """The most that replacing one record moves all of it, exactly: squared for Gaussian noise.

        Counts have the weight 1, tables together `CELLS_MU` or `CELLS_EPSILON`. An answer that is
        right is in no cell of "truth", so no pair of records changes two cells of every table.
        """
        pure = unit == "epsilon"
        position = Fraction(1, 2) if pure else Fraction(1, 4)  # half a bin, or its square
        cells = CELLS_EPSILON if pure else CELLS_MU

        def added(outcome: Outcome) -> Fraction:
            """What a record with this outcome adds, which is gone if it is replaced."""
            if outcome == "unusable":
                return self.tables[0].part
            counting = (each for each in self.tables if outcome == "wrong" or each.name != "truth")
            return sum(
                (each.part * (position if each.positions else 1) for each in counting), Fraction(0)
            )

        return max(
            (2 if one != other else 0) + cells * (added(one) + added(other))
            for one, other in combinations_with_replacement(OUTCOMES, 2)
        )

    def table(self, name: Name, *, positions: bool = False) -> slice:
        """Where the cells of a table are: nowhere, if it is left out."""
        start = 0
        for table in self.tables:
            if (table.name, table.positions) == (name, positions):
                return slice(start, start + table.size)
            start += table.size
        return slice(0)

    def scales(self, allowance: Allowance, layout: int = LAYOUTS[-1]) -> Floats:
        """The scale of the noise of each cell; unusable records have that of the first table."""
        parts = [(table.part, table.size) for table in self.tables] + [(self.tables[0].part, 1)]
        moved = self._noised_for(allowance, layout)
        return np.repeat(
            [_scale(allowance, moved, part) for part, _ in parts], [size for _, size in parts]
        )

    def count_scale(self, allowance: Allowance, layout: int = LAYOUTS[-1]) -> float:
        """The scale of the noise of a count."""
        return _scale(allowance, self._noised_for(allowance, layout))

    def _noised_for(self, allowance: Allowance, layout: int) -> Fraction:
        return _at_most(allowance) if layout == 1 else self.moved(allowance.unit)

    def count(
        self,
        margins: Floats,
        y: Indices,
        usable: NDArray[np.bool_],
        person_weights: Floats | None = None,
    ) -> tuple[Any, Any]:
        """How many records are right, wrong and unusable, and how many are in each cell: secret.

        Args:
            margins: Shape (n,) for two classes, else (n, K).
            y: The index of each record's class, from 0 to K - 1 where the record is usable.
            usable: Whether each record can be used.
            person_weights: How much each record counts, if persons are protected.
        """
        each = np.ones(usable.size)
        if person_weights is not None:  # on a lattice on which also sums of positions are exact
            each = truncate(person_weights, exact_bits(usable.size, 1.0) - POSITION_BITS)
        unusable = each[~usable].sum()
        margins, y, each = margins[usable], y[usable], each[usable]
        right = predicted_codes(margins) == y
        cells: list[Floats] = []
        for table in self.tables:
            places, positions = self._places(table.name, margins, y, right)
            weights = each[~right] if table.name == "truth" else each
            if table.positions:
                weights = weights * positions
            counted = np.bincount(places, weights, minlength=table.size)
            cells.append(counted.astype(np.float64, copy=False))
        counts = np.array([each[right].sum(), each[~right].sum(), unusable])
        return counts, np.concatenate([*cells, [unusable]])

    def _places(
        self, name: Name, margins: Floats, y: Indices, right: NDArray[np.bool_]
    ) -> tuple[Indices, Floats]:
        """The cell of each usable record that counts in a table, and its position in its bin."""
        wrong = (~right).astype(np.intp)
        if name == "classes":
            return wrong * self.classes + y, np.zeros(y.size)
        if name == "confusion":
            return y * self.classes + predicted_codes(margins), np.zeros(y.size)
        if name == "bins":
            place = np.searchsorted(self.bins.margins, margins)  # one half predicts class 0
            return y * self.bins.count + place, self.bins.positions(logistic(margins), place)
        if name == "truth":
            p = _of_class(margins[~right], y[~right])
            place = np.searchsorted(self.truth.edges, p)
            return place, self.truth.positions(p, place)
        p = _of_class(margins, predicted_codes(margins))
        place = np.searchsorted(self.bins.edges, p)
        return wrong * self.bins.count + place, self.bins.positions(p, place)


def _with_positions(name: Name, size: int) -> list[Table]:
    return [Table(name, size, COUNT), Table(name, size, POSITION, positions=True)]


def _tables(wanted: list[Table], allowance: Allowance) -> tuple[Table, ...]:
    """Tables whose parts add up to 1; the positions cost a part of what counts cost."""
    cost = Fraction(1, 2) if allowance.unit == "epsilon" else Fraction(1, 4)
    total = sum(each.part * (cost if each.positions else 1) for each in wanted)
    return tuple(each._replace(part=each.part / total) for each in wanted)


def _of_class(margins: Floats, codes: Indices) -> Floats:
    """The probability that the margins give to a class of each row."""
    lanes = np.ascontiguousarray(margins.T)
    with np.errstate(over="ignore", invalid="ignore"):  # a warning would tell of a record
        return np.asarray(1 / lane_sum(exp(lanes - lanes[codes, np.arange(codes.size)])))


def _at_most(allowance: Allowance) -> Fraction:
    """A bound on `Cells.moved` for all layouts: two counts, and two cells of every table."""
    return 2 * (1 + (CELLS_EPSILON if allowance.unit == "epsilon" else CELLS_MU))


def _scale(allowance: Allowance, moved: Fraction, part: Fraction | None = None) -> float:
    """The scale of the noise of a count, or of the cells of a table with a part of the weight.

    Args:
        allowance: What each record pays.
        moved: What `Cells.moved` gives.
        part: The table's part of the weight; None for a count.
    """
    cells = CELLS_EPSILON if allowance.unit == "epsilon" else CELLS_MU
    return noise_scale(allowance, moved if part is None else moved / (part * cells))


def noise_scale(allowance: Allowance, moved: Fraction) -> float:
    """The scale of the noise of what a record moves by so much, rounded up.

    Args:
        allowance: What each record pays.
        moved: The most that replacing one record moves it; for Gaussian noise squared.

    >>> noise_scale(Allowance("epsilon", 0.5), Fraction(2))
    4.0
    """
    if allowance.unit == "epsilon":
        return up(moved / Fraction(allowance.amount))
    return math.nextafter(sqrt_down(moved / Fraction(allowance.amount) ** 2), math.inf)
