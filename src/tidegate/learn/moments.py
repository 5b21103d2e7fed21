"""Forgetting means of surveys, and the transform of features that they give.

All of this is post-processing of what surveys release. Only additions, products, quotients, square
roots and `math.fsum` are used, so that every machine computes the same numbers.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from tidegate.checks import refuse
from tidegate.data.rows import LARGEST_MIX
from tidegate.learn.exact import Floats
from tidegate.learn.survey import NO_PAIRS, Sums, Survey
from tidegate.learn.symmetric import eigen, product
from tidegate.learn.transform import Transform


@dataclass(frozen=True, kw_only=True, eq=False)
class Moments(Sums):
    """Forgetting sums of surveys.

    After the cells come two more: the sum of the slots (of `Survey.total`), and the variance of the
    noise in a sum of features. Products are empty before the first survey that has them.
    """

    MORE: ClassVar[int] = 2

    KEEP: ClassVar[float] = 0.9
    """What a survey counts after each further step, relative to the newest."""

    @classmethod
    def before_first(cls, features: int, classes: int) -> Self:
        """The moments before the first survey."""
        return cls(classes=classes, cells=np.zeros(2 * features + classes + 2 + cls.MORE))

    def after(self, survey: Survey) -> "Moments":
        """The moments after one more survey."""
        if survey.classes != self.classes or survey.features != self.features:
            raise refuse("survey", f"of {self.features} features and {self.classes} classes", None)
        kept = np.full(self.cells.size, self.KEEP)
        kept[-1] = self.KEEP * self.KEEP
        new = np.append(survey.cells, [survey.total, survey.deviations.sums**2])
        pairs = self.KEEP * self._pairs_so_far() + survey.pairs if survey.pairs.size else NO_PAIRS
        return Moments(classes=self.classes, cells=kept * self.cells + new, pairs=pairs)

    def _pairs_so_far(self) -> Floats:
        """The sums of products; those of uncorrelated features if the surveys so far had none."""
        if self.pairs.size:
            return self.pairs
        return _products(self.sums) / (self.usable or 1.0)

    @property
    def slots(self) -> float:
        """How much all slots count together."""
        return float(self.cells[-2])

    @property
    def noise(self) -> float:
        """The variance of the noise in a sum of features."""
        return float(self.cells[-1])

    @property
    def class_shares(self) -> tuple[float, ...]:
        """The share of each class among usable records; at least 1/1000 each, before scaling.

        >>> Moments.before_first(3, 2).class_shares
        (0.5, 0.5)
        """
        least = self.slots / (1000 * self.classes)
        kept = [max(float(each), least) for each in self.counts]
        whole = math.fsum(kept)
        return tuple(each / whole if whole else 1 / self.classes for each in kept)

    @property
    def unusable_share(self) -> float:
        """The share of unusable slots, in [0, 1]; 0 before the first survey."""
        return min(max(self.unusable / self.slots, 0.0), 1.0) if self.slots else 0.0

    @property
    def usable(self) -> float:
        """The number of usable slots; all of them unless the surveys clearly say otherwise."""
        clearly = self.unusable > 3 * 2 * math.sqrt(self.noise)
        return max(self.slots - self.unusable, self.slots / 8) if clearly else self.slots

    @property
    def squared_length(self) -> tuple[float, float]:
        """The mean squared norm of a record, in units of the squared bound, and its noise."""
        count = self.usable
        return self.length / count, math.sqrt(self.noise) / count

    @np.errstate(over="ignore", invalid="ignore")  # of numbers that somebody has changed
    def transform(self, *, norm: float, sparse: bool) -> Transform:
        """Center and scale for the features, from public numbers.

        docs/proofs/survey.md explains the rules. Before the first survey it only divides by
        the norm.

        Args:
            norm: The public bound on the norm of every row.
            sparse: Whether rows are sparse; they are not centred.
        """
        d, count = self.features, self.usable
        if not count:
            return Transform.of(np.zeros(d), np.full(d, 1 / norm))
        mean, squares, length = self.sums / count, self.squares / count, self.length / count
        noise = self.noise / (count * count)  # the variance of a mean's noise
        center = np.zeros(d) if sparse else np.clip(shrunk(mean, noise), -1.0, 1.0)
        if sparse:
            mean, noise_of_square, offset = np.zeros(d), 0.0, 0.0
        else:
            noise_of_square, offset = noise, max(0.0, _sum_of_squares(mean) - d * noise)
        spread = min(max(length - offset, LEAST_SPREAD), 1.0)
        each = spread / d
        resolved = each * each / (each * each + 2 * noise)  # squares have twice the variance
        variances = each + resolved * (squares - mean * mean + noise_of_square - each)
        variances = np.clip(variances, LEAST_VARIANCE * each, 1.0)
        half_way = 1 / np.sqrt(np.sqrt(variances))
        size = math.sqrt(math.fsum((half_way * half_way * variances).tolist()))
        scale = half_way / size
        if not self.pairs.size:
            return Transform.of(center * norm, scale / norm)
        both = _products(scale)
        covariances = both * (self.pairs / count - _products(mean))
        noises = np.sqrt(noise * (1 + _sums(mean * mean)))  # of a product and of two means
        mix = mixing(scale * scale * variances, covariances, both * noises)
        return Transform.of(center * norm, scale / norm, mix)


LEAST_SPREAD = 0.05
"""The smallest total variance assumed, in units of the squared norm."""

LEAST_VARIANCE = 0.1
"""The smallest variance of a feature assumed, relative to the average feature."""


def shrunk(mean: Floats, noise: float) -> Floats:
    """A noisy mean, moved towards the origin as far as its known noise suggests (James-Stein).

    >>> shrunk(np.ones(6), 0.5), shrunk(np.zeros(3), 0.5)
    (array([0.66666667, 0.66666667, 0.66666667, 0.66666667, 0.66666667,
           0.66666667]), array([0., 0., 0.]))
    """
    size = _sum_of_squares(mean)
    factor = max(0.0, 1 - max(mean.size - 2, 0) * noise / size) if size else 0.0
    return factor * mean


def _sum_of_squares(values: Floats) -> float:
    return math.fsum((values * values).tolist())


def _products(values: Floats) -> Floats:
    """The products of every two numbers, in the order of `Moments.pairs`."""
    one, other = np.triu_indices(values.size, 1)
    return np.asarray(values[one] * values[other])


def _sums(values: Floats) -> Floats:
    """The sums of every two numbers, in the order of `Moments.pairs`."""
    one, other = np.triu_indices(values.size, 1)
    return np.asarray(values[one] + values[other])


def mixing(variances: Floats, covariances: Floats, noise: Floats) -> Floats:
    """A matrix that makes features uncorrelated, as far as the noise lets one see them.

    It keeps the ratios of their variances: if none are correlated, all stay as they are. Rows are
    multiplied by it from the right.

    Args:
        variances: Of the features; they add up to 1.
        covariances: Of every two of them, with noise.
        noise: The deviation of that noise.

    >>> mixing(np.array([0.5, 0.5]), np.array([0.4]), np.array([0.001])).round(2)
    array([[ 1.45, -0.67],
           [-0.67,  1.45]])
    >>> mixing(np.array([0.5, 0.5]), np.array([0.4]), np.array([0.5])).round(2)  # nothing is seen
    array([[1., 0.],
           [0., 1.]])
    """
    d, deviations = variances.size, np.sqrt(variances)
    both = _products(deviations)
    correlations, noises = covariances / both, np.minimum(noise / both, MAX_CORRELATION)
    correlations = np.clip(correlations, -MAX_CORRELATION, MAX_CORRELATION)
    found, noisy = _sum_of_squares(correlations), _sum_of_squares(noises)
    # As far as what was found exceeds its noise, and what there can be at most stands out of it.
    most = d * (d - 1) / 2
    seen = min(max(0.0, 1 - noisy / found), most / (most + noisy)) if found else 0.0
    matrix = np.eye(d)
    one, other = np.triu_indices(d, 1)
    matrix[one, other] = matrix[other, one] = seen * correlations
    values, vectors = eigen(matrix)
    spread = np.maximum(values, 0.0)
    spread *= d / math.fsum(spread.tolist())
    # The noise of a row of the matrix has twice this length; smaller variances are lost in it.
    lost = max(LEAST_DIRECTION, math.sqrt(2 * noisy / d) / 2)
    root = product(vectors / np.sqrt(spread + lost), vectors.T)
    # The mean square of a row becomes 1 again: the trace of mix' C mix, C the covariances.
    after = product((vectors * np.sqrt(spread)).T, root * deviations)
    mix = root * deviations / deviations[:, None] / math.sqrt(_sum_of_squares(after.ravel()))
    longest = math.sqrt(max(_sum_of_squares(column) for column in mix.T))
    return mix * min(1.0, 0.99 * LARGEST_MIX / longest)


MAX_CORRELATION = 2.0**100
"""Noisy correlations and their noise count as at most this large: no square overflows."""

LEAST_DIRECTION = 0.05
"""What is added to the variance in each direction, relative to the average one."""
