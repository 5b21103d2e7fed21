"""How the rows of a run are prepared: as they are, or transformed by what surveys say.

Which of them is fixed before the first record. What fits use of the surveys so far is a `Surveyed`.
A stream stops before its first fit if the survey of its first step says that most records cannot be
used.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

from scipy.sparse import issparse

from tidegate.data.records import Owners, Parts, Records
from tidegate.learn.learner import Task
from tidegate.learn.moments import Moments
from tidegate.learn.rules import RULES
from tidegate.learn.survey import Survey, survey
from tidegate.learn.trainer import Trainer
from tidegate.learn.transform import UNTRANSFORMED, Prepared
from tidegate.privacy import Budget
from tidegate.privacy.budget import allowance_of
from tidegate.privacy.noise import Bits
from tidegate.schedule.progress import ONLY

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
