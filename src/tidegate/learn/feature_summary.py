"""The centre and spread of each feature, from the forgetting means of surveys."""

import math
from dataclasses import dataclass

import numpy as np

from tidegate.learn.exact import Floats
from tidegate.learn.moments import Moments

SAFETY_DEVIATIONS = 5.0
"""A variance is at most the measured one plus this many deviations of its noise."""

RESOLVED_DEVIATIONS = 2.0
"""A variance is resolved if it is above this many deviations of its noise."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureSummary:
    """Centre and spread of the features, in their own units.

    Attributes:
        center: The noisy mean of each feature over usable records.
        center_deviation: The deviation of the noise of a mean, the same for all.
        spread: The standard deviation of each feature; NaN where the noise hides it.
        spread_deviation: The deviation of the noise of each spread; NaN where it is hidden.
        largest_spread: What each spread is at most, unless the noise of its square is off by more
            than five deviations.
    """

    center: Floats
    center_deviation: float
    spread: Floats
    spread_deviation: Floats
    largest_spread: Floats


def summarize(moments: Moments, *, norm: float) -> FeatureSummary:
    """Centre and spread of each feature. It is post-processing of paid releases.

    Args:
        moments: The forgetting means; of at least one survey.
        norm: The public bound on the norm of a row, which is the unit of the means.

    >>> cells = np.array([50.0, 30.0, 60.0, 40.0, 0.0, 30.0, 100.0, 0.01])  # one feature, 100 slots
    >>> summary = summarize(Moments(classes=2, cells=cells), norm=2.0)
    >>> summary.center, summary.spread.round(3)
    (array([1.]), array([0.447]))
    """
    count = moments.usable
    mean, squares = moments.sums / count, moments.squares / count
    noise = moments.noise / (count * count)  # the variance of a mean's noise
    variance = squares - mean * mean + noise
    # Noise of squares has twice the variance; that of the squared mean is 4 mean^2 times noise.
    deviation = np.sqrt(2 * noise + 4 * mean * mean * noise + 2 * noise * noise)
    resolved = variance > RESOLVED_DEVIATIONS * deviation
    spread = np.sqrt(np.where(resolved, variance, np.nan))
    return FeatureSummary(
        center=mean * norm,
        center_deviation=math.sqrt(noise) * norm,
        spread=spread * norm,
        spread_deviation=deviation / (2 * spread) * norm,
        largest_spread=np.sqrt(np.maximum(variance, 0.0) + SAFETY_DEVIATIONS * deviation) * norm,
    )
