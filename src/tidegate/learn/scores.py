"""Scores: noisy counts of how a released model does on the records of the next step.

Proof: docs/proofs/quality.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import refuse, whole
from tidegate.learn.labels import predicted_codes
from tidegate.privacy.bits import Bits
from tidegate.privacy.budget import Allowance
from tidegate.privacy.noise import gaussian, laplace
from tidegate.privacy.rounding import sqrt_down, up

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

LAYOUT = 1
"""The version of the rules below; scores of another version cannot be read."""

MOST_CLASSES = 60
"""With more classes than this, cells by class and the confusion matrix are left out."""

CELLS_MU = Fraction(2)
"""The squared weight of all tables together, where that of the counts is 1 (Gaussian noise).

With it, the deviation of the accuracy is at most twice that of a single count.
"""

CELLS_EPSILON = Fraction(2, 9)
"""The weight of all tables together, where that of the counts is 1 (Laplace noise)."""

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

Name = Literal["classes", "bins", "confidence", "truth", "confusion"]


class Table(NamedTuple):
    """A histogram; each record counts in at most one of its cells.

    Attributes:
        name: "classes" has the cells (right or wrong, true class); "bins" (true class, bin of the
            probability of class 1); "confidence" (right or wrong, bin of the predicted class's
            probability); "truth" (bin of the true class's probability) of wrong answers;
            "confusion" (true class, predicted class).
        size: How many cells it has.
        part: Its part of the weight of all tables.
    """

    name: Name
    size: int
    part: Fraction


@dataclass(frozen=True, kw_only=True)
class Cells:
    """The layout of the histograms: a rule of public numbers alone.

    The last cell is for unusable records. The cells of the tables come before it, in order.

    Attributes:
        classes: The number of classes.
        edges: The inner edges of the bins of a probability, ascending: of class 1 if there are two
            classes, else of the predicted class.
        truth_edges: The inner edges of the bins of the true class's probability in "truth".
        tables: The histograms.
    """

    classes: int
    edges: tuple[float, ...]
    truth_edges: tuple[float, ...]
    tables: tuple[Table, ...]

    @classmethod
    def of(cls, classes: int, slots: int, allowance: Allowance) -> "Cells":
        """The layout for a number of classes, slots per step and the price of a score.

        >>> cells = Cells.of(2, 4096, Allowance("mu", 0.05))
        >>> cells.edges, cells.size
        ((0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98), 29)
        """
        classes = whole("classes", classes, least=2)
        typical = _deviation(_scale(allowance, Fraction(1, 3)), allowance)
        level = sum(typical / whole("slots", slots) <= noise for noise in NOISE_LEVELS)
        if classes == 2:
            edges = edges_of_two(level)
            bins = Table("bins", 2 * (len(edges) + 1), Fraction(3, 4))
            tables = [Table("classes", 4, Fraction(1, 4)), bins]
            return cls(classes=2, edges=edges, truth_edges=(), tables=tuple(tables))
        edges, truth = CONFIDENCE_EDGES[level], TRUTH_EDGES[level]
        sizes: list[tuple[Name, int]] = [
            ("confidence", 2 * (len(edges) + 1)),
            ("truth", len(truth) + 1),
        ]
        if classes <= MOST_CLASSES:
            sizes = [("classes", 2 * classes), *sizes, ("confusion", classes**2)]
        tables = [Table(name, size, Fraction(1, len(sizes))) for name, size in sizes]
        return cls(classes=classes, edges=edges, truth_edges=truth, tables=tuple(tables))

    @property
    def size(self) -> int:
        """The number of cells, that of unusable records included."""
        return sum(table.size for table in self.tables) + 1

    def table(self, name: Name) -> slice | None:
        """Where the cells of a table are; None if it is left out."""
        start = 0
        for table in self.tables:
            if table.name == name:
                return slice(start, start + table.size)
            start += table.size
        return None

    def scales(self, allowance: Allowance) -> Floats:
        """The scale of the noise of each cell; unusable records have that of the first table."""
        parts = [(table.part, table.size) for table in self.tables] + [(self.tables[0].part, 1)]
        return np.repeat(
            [_scale(allowance, part) for part, _ in parts], [size for _, size in parts]
        )

    def count(self, margins: Floats, y: Indices, usable: NDArray[np.bool_]) -> tuple[Any, Any]:
        """How many records are right, wrong and unusable, and how many are in each cell: secret.

        Args:
            margins: Shape (n,) for two classes, else (n, K).
            y: The index of each record's class, from 0 to K - 1 where the record is usable.
            usable: Whether each record can be used.
        """
        margins, y = margins[usable], y[usable]
        right = predicted_codes(margins) == y
        unusable = int(np.count_nonzero(~usable))
        counts = [int(right.sum()), int((~right).sum()), unusable]
        tables = [
            np.bincount(self._places(table.name, margins, y, right), minlength=table.size)
            for table in self.tables
        ]
        cells = np.concatenate([*tables, [unusable]]).astype(np.float64)
        return np.array(counts, np.float64), cells

    def _places(self, name: Name, margins: Floats, y: Indices, right: NDArray[np.bool_]) -> Indices:
        """The cell of each usable record that counts in a table."""
        wrong = (~right).astype(np.intp)
        match name:
            case "classes":
                return wrong * self.classes + y
            case "bins":
                return y * (len(self.edges) + 1) + np.searchsorted(
                    logits(self.edges), margins, side="left"
                )
            case "confusion":
                return y * self.classes + predicted_codes(margins)
            case "confidence":
                predicted = _of_class(margins, predicted_codes(margins))
                return wrong * (len(self.edges) + 1) + np.searchsorted(self.edges, predicted)
            case "truth":
                return np.searchsorted(self.truth_edges, _of_class(margins[~right], y[~right]))


def edges_of_two(level: int) -> tuple[float, ...]:
    """The edges of the bins of the probability of class 1, on both sides of one half."""
    half = HALF_EDGES[level]
    return (*half, 0.5, *(round(1 - edge, 6) for edge in reversed(half)))


def logits(probabilities: tuple[float, ...]) -> Floats:
    """The margins at which class 1 has these probabilities; 0 for one half, exactly."""
    return np.array([math.log(p / (1 - p)) for p in probabilities])


def _of_class(margins: Floats, codes: Indices) -> Floats:
    """The probability that the margins give to a class of each row."""
    chosen = np.take_along_axis(margins, codes[:, None], axis=1)
    with np.errstate(over="ignore", invalid="ignore"):  # a warning would tell of a record
        return np.asarray(1 / np.exp(margins - chosen).sum(axis=1))


def _scale(allowance: Allowance, part: Fraction | None = None) -> float:
    """The scale of the noise of a count, or of the cells of a table with a part of the weight."""
    amount = Fraction(allowance.amount)
    if allowance.unit == "epsilon":
        weight = Fraction(1) if part is None else part * CELLS_EPSILON
        return up(2 * (1 + CELLS_EPSILON) / weight / amount)
    weight = Fraction(1) if part is None else part * CELLS_MU
    return math.nextafter(sqrt_down(2 * (1 + CELLS_MU) / weight / amount**2), math.inf)


def _deviation(scale: float, allowance: Allowance) -> float:
    return scale * math.sqrt(2) if allowance.unit == "epsilon" else scale


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """The noisy counts of one step. Anyone may see them; `measures.of_scores` reads them.

    Attributes:
        slots: The number of slots of the step.
        classes: The number of classes.
        allowance: What each record paid.
        counts: The numbers of right and wrong answers and of unusable records, plus noise.
        cells: The number of records in each cell of `layout`, plus noise.
    """

    slots: int
    classes: int
    allowance: Allowance
    counts: Floats
    cells: Floats

    def __post_init__(self) -> None:
        if self.counts.shape != (3,) or self.cells.shape != (self.layout.size,):
            shown = f"{self.counts.shape} and {self.cells.shape}"
            raise refuse("scores", f"3 counts and {self.layout.size} cells", shown=shown)

    @cached_property
    def layout(self) -> Cells:
        """What each cell counts."""
        return Cells.of(self.classes, self.slots, self.allowance)

    @property
    def count_deviation(self) -> float:
        """The standard deviation of the noise of a count."""
        return _deviation(_scale(self.allowance), self.allowance)

    @property
    def cell_deviations(self) -> Floats:
        """The standard deviation of the noise of each cell."""
        scales = self.layout.scales(self.allowance)
        return np.array([_deviation(scale, self.allowance) for scale in scales])

    def as_json(self) -> dict[str, Any]:
        """All of it, for `of_json`."""
        return {
            "layout": LAYOUT,
            "slots": self.slots,
            "classes": self.classes,
            "unit": self.allowance.unit,
            "amount": self.allowance.amount,
            "counts": self.counts.tolist(),
            "cells": self.cells.tolist(),
        }

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> "Scores":
        """Read what `as_json` wrote."""
        if stored["layout"] != LAYOUT:
            raise refuse("the layout of scores", str(LAYOUT), stored["layout"])
        return cls(
            slots=stored["slots"],
            classes=stored["classes"],
            allowance=Allowance(stored["unit"], stored["amount"]),
            counts=np.array(stored["counts"], np.float64),
            cells=np.array(stored["cells"], np.float64),
        )


def score(  # noqa: PLR0913 (records are three arrays)
    margins: Floats,
    y: Indices,
    usable: NDArray[np.bool_],
    *,
    classes: int,
    allowance: Allowance,
    bits: Bits,
) -> Scores:
    """Count how a released model does on the records of the next step, plus noise.

    Args:
        margins: Of the model on each slot, float64; shape (n,) for two classes, else (n, classes).
        y: The index of each slot's class; ignored where the slot is unusable.
        usable: Whether each slot can be used.
        classes: The number of classes.
        allowance: What each of these records pays, once, for all of it.
        bits: Source of randomness.

    >>> from tidegate.privacy.bits import NotPrivateBits
    >>> y, usable = np.arange(1000) % 2, np.ones(1000, bool)
    >>> scores = score(y - 0.5, y, usable, classes=2, allowance=Allowance("mu", 1.0),
    ...                bits=NotPrivateBits(7))
    >>> scores.counts.round(), scores.count_deviation.__round__(2)
    (array([1002.,   -2.,   -2.]), 2.45)
    """
    layout = Cells.of(classes, len(usable), allowance)
    counts, cells = layout.count(margins, y, usable)
    add_noise = laplace if allowance.unit == "epsilon" else gaussian
    counts = add_noise(counts, _scale(allowance), bits)
    scales = layout.scales(allowance)
    for scale in np.unique(scales):  # cells that share a scale are noised together
        cells[scales == scale] = add_noise(cells[scales == scale], float(scale), bits)
    return Scores(
        slots=len(usable), classes=classes, allowance=allowance, counts=counts, cells=cells
    )
