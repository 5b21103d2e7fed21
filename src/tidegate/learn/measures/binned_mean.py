"""Means of functions of a probability, from the counts and the positions of records in bins."""

import math
from collections.abc import Callable

import numpy as np

from tidegate.learn.bins import Bins, Floats
from tidegate.learn.measures.estimates import Estimates
from tidegate.learn.measures.measure import Measure
from tidegate.learn.score_cells import Name

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
