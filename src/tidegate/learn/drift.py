"""A drift alarm between a step and the steps before it, from what surveys and scores release.

Each statistic has a threshold that it passes with at most a stated probability if all records are
independent draws from one distribution, whatever that is. Nothing here reads a record. Proof:
docs/proofs/drift.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tidegate.learn.exact import Floats
from tidegate.learn.preparation import Moments
from tidegate.learn.scores import StepScores
from tidegate.learn.survey import Survey

RATE = 1 / 2000
"""The most false alarms per step, of a survey and of scores each: together at most 1/1000."""

RATE_PARTS = {"sums": 0.4, "together": 0.2, "squares": 0.05, "length": 0.05, "counts": 0.2}
"""How the rate is split among the statistics of a survey; the rest is for the variances."""

VARIANCES = 0.1
"""The part of a rate for the bounds on variances."""

SLACK = 1 + 2.0**-12
"""A factor on the variance of noise: covers that noise and this file's arithmetic are rounded."""


@dataclass(frozen=True, kw_only=True)
class Drift:
    """How a step differs from the steps before it.

    Attributes:
        statistic: The largest difference, relative to its threshold: above 1 it is an alarm.
        rate: The most false alarms per step.
        what: What differs, if it is an alarm: "features", "classes" or "targets", "unusable
            records", "accuracy" or "errors"; else "".
    """

    statistic: float
    rate: float
    what: str = ""

    @property
    def alarm(self) -> bool:
        """Whether the step differs by more than chance allows at this rate."""
        return self.statistic > 1

    def beside(self, other: "Drift | None") -> "Drift":
        """The larger of two statistics of one step; the rates add up."""
        if other is None:
            return self
        larger = max(self, other, key=lambda each: each.statistic)
        rate = self.rate + other.rate
        return Drift(statistic=larger.statistic, rate=rate, what=larger.what)


class Spread(NamedTuple):
    """The noise of a mean: its variance, and its reach (0 if it is Gaussian).

    The logarithm of its moment generating function is at most variance t^2 / (2 (1 - reach t)).
    """

    variance: Any
    reach: Any


def spread(variance: Any, largest: Any, unit: str) -> Spread:
    """The noise with this variance, of which no part has a deviation above `largest`."""
    return Spread(variance * SLACK, largest / math.sqrt(2) if unit == "epsilon" else 0.0)


def threshold(variance: Any, reach: Any, x: float) -> Any:
    """What a sum of this variance and reach exceeds with probability at most e^-x."""
    return np.sqrt(2 * x * variance) + reach * x


def highest(mean: Any, count: float, noise: Spread, x: float) -> Any:
    """The true mean of numbers from 0 to 1 is at most this, except with probability e^-x.

    Args:
        mean: Their noisy mean.
        count: How many there are; of a forgetting mean the sum of the weights.
        noise: The noise of the mean.
        x: See above.
    """
    seen, half = mean + noise.reach * x, x / count
    inside = half * half + 2 * half * seen + 2 * x * noise.variance
    return np.clip(seen + half + np.sqrt(np.maximum(inside, 0.0)), 0.0, 1.0)


def binomial(mean: Any, count: float, noise: Spread, x: float) -> Any:
    """The variance of numbers from 0 to 1 is at most this, except with probability 2 e^-x."""
    high, low = highest(mean, count, noise, x), 1 - highest(1 - mean, count, noise, x)
    nearest = np.clip(0.5, low, np.maximum(low, high))
    return nearest * (1 - nearest)


@dataclass(frozen=True)
class _Compared:
    """The means of a step beside those before it.

    Attributes:
        slots: Slots of the step.
        before: Sum of the weights of the slots before it.
        unit: The unit of the budget.
    """

    slots: float
    before: float
    unit: str

    @property
    def shares(self) -> float:
        """At least the sum of the squared weights of all records in a difference of means."""
        return 1 / self.slots + 1 / self.before

    @property
    def largest(self) -> float:
        """The largest weight of a record in it."""
        return max(1 / self.slots, 1 / self.before)

    def noise_before(self, variance: float) -> Spread:
        """The noise of a mean before the step, given the variance of its sum."""
        return spread(variance / self.before**2, math.sqrt(variance) / self.before, self.unit)

    def noise(self, deviation: float, variance: float) -> Spread:
        """The noise of a difference, given the deviation of the step's sum."""
        one, other = deviation / self.slots, math.sqrt(variance) / self.before
        return spread(one**2 + other**2, max(one, other), self.unit)

    def threshold(self, variance: Any, width: float, noise: Spread, x: float) -> Any:
        """The threshold of a difference of means of numbers with this variance and width."""
        reach = np.maximum(width * self.largest / 3, noise.reach)
        return threshold(variance * self.shares + noise.variance, reach, x)


def drift_of(
    before: Moments, survey: Survey, *, rate: float = RATE, counted: str = "classes"
) -> Drift | None:
    """How the survey of a step differs from those before it; None for the first step.

    Args:
        before: The moments of the surveys before it.
        survey: The step's survey.
        counted: What its counts are of: "classes", or "targets" by the part of their range.
        rate: The most false alarms per step.
    """
    total = before.slots
    if total <= 0 or survey.persons:  # of persons the rate of false alarms has no bound yet
        return None
    pair = _Compared(survey.slots, total, survey.allowance.unit)
    means = before.cells[: survey.cells.size] / total
    gaps = np.abs(survey.cells / survey.slots - means)
    deviations = survey.deviations
    sums = [before.noise * (one / deviations.sums) ** 2 for one in deviations]
    old = [pair.noise_before(one) for one in sums]
    new = [pair.noise(one, other) for one, other in zip(deviations, sums, strict=True)]
    variances, length = _variances(means, total, old, survey, rate)
    ratios = []
    for name, where, one, noise in zip(PLACES, _places(survey), variances, new, strict=True):
        level = math.log(2 * gaps[where].size / (RATE_PARTS[name] * rate))
        limits = pair.threshold(one, 2.0 if name == "sums" else 1.0, noise, level)
        ratios.append(gaps[where] / limits)
    features = [float(ratios[kind].max()) for kind in (0, 1, 3)]
    if pair.unit == "mu":
        norm = math.sqrt(math.fsum((gaps[: survey.features] ** 2).tolist()))
        limit = _norm_threshold(
            pair, survey.features, length, new[0], RATE_PARTS["together"] * rate
        )
        features.append(norm / limit)
    found = {
        "unusable records": float(ratios[2][-1]),
        counted: float(ratios[2][:-1].max()),
        "features": max(features),
    }
    return _largest(found, rate)


PLACES = ("sums", "squares", "counts", "length")
"""The kinds of cells of a survey, in order."""


def _places(survey: Survey) -> list[slice]:
    """Where the cells of each kind are."""
    d, size = survey.features, survey.cells.size
    return [slice(0, d), slice(d, 2 * d), slice(2 * d, size - 1), slice(size - 1, size)]


def _variances(
    means: Floats, total: float, noise: Sequence[Spread], survey: Survey, rate: float
) -> tuple[list[Floats], float]:
    """Bounds on the variance of each kind of cell and on the mean squared norm.

    They all hold, except with probability VARIANCES * rate.
    """
    events = 4 * survey.features + 2 * survey.classes + 4
    x = math.log(events / (VARIANCES * rate))
    sums, squares, counts, length = (means[where] for where in _places(survey))
    high = highest(squares, total, noise[1], x)
    bounds = [
        _variance(sums, high, total, noise[0], x),
        binomial(squares, total, noise[1], x),
        binomial(counts, total, noise[2], x),
        binomial(length, total, noise[3], x),
    ]
    return bounds, float(highest(length, total, noise[3], x)[0])


def _variance(mean: Floats, squared: Floats, total: float, noise: Spread, x: float) -> Floats:
    """The variance of each feature is at most this, given a bound on its mean square."""
    reach = np.maximum(2 / (3 * total), noise.reach)
    error = threshold(squared / total + noise.variance, reach, x)
    least = np.maximum(np.abs(mean) - error, 0.0)
    return np.asarray(np.maximum(squared - least * least, 0.0))


def _norm_threshold(
    pair: _Compared, features: int, length: float, noise: Spread, rate: float
) -> float:
    """What the norm of the difference of all means exceeds with at most this probability.

    Half of it is for the records' part of the norm, half for the Gaussian noise beside it.
    """
    reach = 2 * pair.largest / 3
    records = float(threshold(length * pair.shares, reach, math.log(4 / rate)))
    shift, x = records**2 / noise.variance, math.log(2 / rate)
    squared = features + shift + 2 * math.sqrt((features + 2 * shift) * x) + 2 * x
    return math.sqrt(squared * noise.variance)


def _largest(found: dict[str, float], rate: float) -> Drift:
    what = max(found, key=found.__getitem__)
    statistic = found[what]
    return Drift(statistic=statistic, rate=rate, what=what if statistic > 1 else "")


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Forgetting sums of the wrong answers that scores count, or of a regression's errors.

    Attributes:
        wrong: Of the noisy counts of wrong answers, or of errors from 0 to 1 each.
        slots: Of the slots.
        variance: The variance of the noise in `wrong`.
    """

    wrong: float = 0.0
    slots: float = 0.0
    variance: float = 0.0

    def after(self, scores: StepScores) -> "Errors":
        """The sums after the scores of one more step; they forget as `Moments` do."""
        keep = Moments.KEEP
        return Errors(
            wrong=keep * self.wrong + scores.errors,
            slots=keep * self.slots + scores.slots,
            variance=keep * keep * self.variance + scores.error_deviation**2,
        )


def drift_of_scores(before: Errors, scores: StepScores, *, rate: float = RATE) -> Drift | None:
    """Whether models are wrong more often than on the steps before; None for the first scores.

    A false alarm is one although the model is expected to be wrong at most as often as those
    before it were, on the records that they were scored on. Of a regression it is the absolute
    error, as a part of the range of targets, that is expected to be at most as large.

    Args:
        before: The errors of the scores before.
        scores: The step's scores.
        rate: The most false alarms per step.
    """
    if before.slots <= 0 or scores.persons:
        return None
    pair = _Compared(scores.slots, before.slots, scores.allowance.unit)
    noise = pair.noise_before(before.variance)
    mean = before.wrong / before.slots
    x = math.log(1 / (VARIANCES * rate))
    reach = max(1 / (3 * before.slots), float(noise.reach))
    high = mean + float(threshold(0.25 / before.slots + noise.variance, reach, x))
    share = min(max(high, 0.0), 0.5)
    # Of the step's records by that bound; of those before it may be any.
    variance = share * (1 - share) / scores.slots + 0.25 / before.slots
    both = pair.noise(scores.error_deviation, before.variance)
    reach = max(pair.largest / 3, float(both.reach))
    level = math.log(1 / ((1 - VARIANCES) * rate))
    limit = float(threshold(variance + both.variance, reach, level))
    gap = scores.errors / scores.slots - mean
    return _largest({scores.suffers: max(gap, 0.0) / limit}, rate)
