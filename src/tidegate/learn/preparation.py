"""How the rows of a run are prepared: as they are, or transformed by what surveys say.

Which of them is fixed before the first record. What fits use of the surveys so far is a `Surveyed`:
forgetting means of them give the transform. That is post-processing of what surveys release. Only
additions, products, quotients, square roots and `math.fsum` are used, so that every machine
computes the same numbers. A stream stops before its first fit if the survey of its first step says
that most records cannot be used.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse

from tidegate.checks import refuse
from tidegate.data.records import Owners, Parts, Records
from tidegate.data.rows import LARGEST_MIX
from tidegate.learn.exact import Floats, eigen, product
from tidegate.learn.learner import Task, Trainer
from tidegate.learn.rules import RULES
from tidegate.learn.survey import NO_PAIRS, Sums, Survey, survey
from tidegate.learn.transform import UNTRANSFORMED, Prepared, Transform
from tidegate.privacy import Budget
from tidegate.privacy.budget import allowance_of
from tidegate.privacy.noise import Bits
from tidegate.schedule.progress import ONLY


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


ReadStep = Callable[[], Parts[Records]]
"""Reads the records of a step."""

Before = Callable[[], Moments | None]
"""Reads the means of the surveys before a step; None before the first."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Surveyed:
    """What the fits of a step use of the surveys so far; by default there were none.

    Attributes:
        transform: What happens to rows before a fit reads them.
        class_shares: The share of each class; empty without surveys.
        stopped: Why the stream stops before its first fit; empty if it goes on.
    """

    transform: Prepared = UNTRANSFORMED
    class_shares: tuple[float, ...] = ()
    stopped: str = ""

    @classmethod
    def by(cls, moments: Moments, *, norm: float, sparse: bool, stopped: str = "") -> Self:
        """What the means of surveys say.

        Args:
            moments: The means.
            norm: The public bound on the norm of every row.
            sparse: Whether rows are sparse.
            stopped: Why the stream stops; empty if it goes on.
        """
        transform = moments.transform(norm=norm, sparse=sparse)
        return cls(transform=transform, class_shares=moments.class_shares, stopped=stopped)

    def trainer(self, trainer: Trainer[Any]) -> Trainer[Any]:
        """The trainer for records that are prepared so."""
        task = self.transform.task(trainer.task)
        return replace(trainer, task=task, class_shares=self.class_shares)


@dataclass(frozen=True, kw_only=True, eq=False)
class StepSurvey:
    """The survey of a step, and the means of all surveys of its stream up to it.

    Attributes:
        share: What each record of the step pays for it.
        survey: The noisy sums.
        moments: The forgetting means after it.
        norm: The public bound on the norm of every row.
        sparse: Whether rows are sparse.
    """

    share: Fraction
    survey: Survey
    moments: Moments
    norm: float
    sparse: bool

    def surveyed(self, *, stopped: str = "") -> Surveyed:
        """What the fits of the step use of the surveys so far.

        Args:
            stopped: Why the stream stops before its first fit; empty if it goes on.
        """
        return Surveyed.by(self.moments, norm=self.norm, sparse=self.sparse, stopped=stopped)


@dataclass(frozen=True, kw_only=True)
class SurveyTerms:
    """What a survey has to know besides the records.

    Attributes:
        task: What is learnt.
        budget: The budget, of which each record pays a share.
        persons: Whether persons are protected; then the records have person weights.
        rules: The number of the public rules that it follows.
    """

    task: Task
    budget: Budget
    persons: bool = False
    rules: int = RULES


@dataclass(frozen=True)
class AsTheyAre:
    """Fits read rows as they are. Nobody pays for that, and no record is looked at.

    Attributes:
        share: What each record pays.

    >>> AsTheyAre().share, AsTheyAre().task("any")
    (Fraction(0, 1), 'any')
    """

    share: Fraction = Fraction(0)

    def task(self, task: Any) -> Any:
        """The task of fits, which read prepared rows."""
        return task

    def look(
        self, read: ReadStep, before: Before, terms: SurveyTerms, bits: Bits
    ) -> tuple[StepSurvey, ...]:
        """Survey a step, once it is complete and before its fits: one survey, or none.

        Args:
            read: Reads the records of the step.
            before: Reads the means of the surveys before it.
            terms: What a survey has to know besides the records.
            bits: Source of randomness.
        """
        del read, before, terms, bits
        return ()


@dataclass(frozen=True)
class BySurveys(AsTheyAre):
    """Fits read rows that are centred and scaled by what private surveys say."""

    def task(self, task: Any) -> Any:
        """See `AsTheyAre`."""
        return task.centred()

    def look(
        self, read: ReadStep, before: Before, terms: SurveyTerms, bits: Bits
    ) -> tuple[StepSurvey, ...]:
        """See `AsTheyAre`."""
        task, records = terms.task, read()
        seen = survey(
            task.grouped(records),
            norm=task.norm,
            classes=task.groups,
            allowance=allowance_of(terms.budget, self.share),
            bits=bits,
            persons=terms.persons,
            rules=terms.rules,
        )
        earlier = before() or Moments.before_first(seen.features, seen.classes)
        found = StepSurvey(
            share=self.share,
            survey=seen,
            moments=earlier.after(seen),
            norm=task.norm,
            sparse=issparse(records.form),
        )
        return (found,)


def preparation_of(share: Fraction) -> AsTheyAre:
    """How rows are prepared if each record pays this share for a survey.

    >>> preparation_of(Fraction(0)), preparation_of(Fraction(1, 20))
    (AsTheyAre(share=Fraction(0, 1)), BySurveys(share=Fraction(1, 20)))
    """
    return BySurveys(share) if share else AsTheyAre()


HALF = 0.5
"""The noisy share of unusable records above which a stream stops."""

SURE_DEVIATIONS = {"mu": 4.76, "epsilon": 9.28}
"""How many deviations the noise exceeds with a probability of at most 1e-6, by unit of budget.

A stream whose records are all usable stops with at most this probability, however short its steps.
"""


def most_unusable(survey: Survey) -> float:
    """The largest noisy share of unusable slots with which a stream goes on.

    It is one half, or more if the noise is so large that it alone could often exceed one half.
    """
    return max(HALF, SURE_DEVIATIONS[survey.allowance.unit] * deviation(survey))


def deviation(survey: Survey) -> float:
    """The standard deviation of the noise in the share of unusable slots."""
    return survey.deviations.counts / survey.total


def stops(survey: Survey) -> bool:
    """Whether a stream with this first survey stops before its first fit."""
    return survey.unusable_share > most_unusable(survey)


def stopped_because(survey: Survey, share: Fraction, stream: str) -> str:
    """Why a stream stopped, in one line: the noisy share, its deviation and what was paid."""
    noisy = f"{survey.unusable_share:.1%} (noisy; standard deviation {deviation(survey):.1%})"
    return (
        f"stopped before the first fit: {noisy} of the first {survey.slots:,} {stream} cannot be "
        f"used; each of these has paid {share} of its budget for this survey, and no model was made"
    )


def whose(stream: str) -> str:
    """The records of a stream, in words."""
    return stream if stream == ONLY else f"{stream} records"


def mostly_nobodys(owners: Owners, stream: str) -> str | None:
    """Why a stream stops whose first step has these owners; None if it goes on.

    >>> import numpy as np
    >>> mostly_nobodys(np.array([[0, 0], [7, 7]], np.uint64), "records") is None
    True
    """
    if 2 * int(owners.any(axis=1).sum()) >= len(owners):
        return None
    return (
        f"stopped before the first fit: more than half of the first {len(owners):,} {stream} have "
        "no usable person id; none of these has paid anything, and no model was made"
    )
