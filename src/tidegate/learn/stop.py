"""Stop before harm: whether a stream stops after its first survey, before its first fit.

The decision and its text follow from the noisy survey and public numbers, so they cost nothing
more. Deciding by the exact number of unusable records would reveal it.

If persons are protected, a stream also stops if most slots of its first step have no owner. That
is decided exactly and before the survey, so nobody pays: neighbouring streams have the same owners.
"""

from fractions import Fraction

from tidegate.learn.records import Owners
from tidegate.learn.survey import Survey
from tidegate.progress import ONLY

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
