"""Bins of a probability, and where in its bin a probability is."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tidegate.learn.elementary import log

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
