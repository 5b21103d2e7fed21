"""Refitting: each release is trained from scratch on its records, and all of them pay again."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tidegate.checks import refuse, whole
from tidegate.learn.learner import Learner, Task, Terms, Weights
from tidegate.learn.persons import once
from tidegate.learn.records import Records
from tidegate.privacy.bits import NotPrivateBits
from tidegate.privacy.budget import Allowance, ApproxDP, Budget, PureDP, allowance_of
from tidegate.privacy.rounding import down
from tidegate.schedule import Span
from tidegate.study.study_stream import StudyStream


@dataclass(frozen=True, kw_only=True)
class Times:
    """When to release, and which records count.

    Args:
        first: Records before the first release.
        step: Records between two releases.
        window: How many of the newest records count; None for all.

    >>> [tuple(span) for span in Times(first=4, step=2, window=3).spans(9)]
    [(1, 4), (3, 6), (5, 8)]
    """

    first: int
    step: int
    window: int | None = None

    def __post_init__(self) -> None:
        whole("first", self.first)
        whole("step", self.step)
        whole("window", self.first if self.window is None else self.window, most=self.first)

    def spans(self, n: int) -> list[Span]:
        """The records of each release, for a stream of n records."""
        ends = range(self.first, n + 1, self.step)
        return [Span(0 if self.window is None else at - self.window, at) for at in ends]


def split(budget: Budget, releases: int) -> Budget:
    """The budget of each of some releases, by simple composition.

    >>> split(PureDP(1.0), 4), split(ApproxDP(1.0, 1e-6), 2)
    (PureDP(epsilon=0.25), ApproxDP(epsilon=0.5, delta=5e-07))
    """
    epsilon = down(Fraction(budget.epsilon) / releases)
    if isinstance(budget, PureDP):
        return PureDP(epsilon)
    delta = down(Fraction(budget.delta) / releases)
    return ApproxDP(epsilon, delta, weak_delta=budget.weak_delta)


@dataclass(frozen=True, kw_only=True)
class Refit(ABC):
    """Trains each release on all records that count, for the same part of their budget.

    Args:
        budget: The budget of every record, or of every person.
        times: When to release, and which records count.
        learner: How to train each fit.
        regularization: Lambda; None leaves it to the learner.
        typical: How many records a person is expected to have in a fit, if persons are protected:
            then a person counts like one record in every fit.
        warm: Start each fit at the release before, which costs nothing.
        name: Its name in tables and plots.
    """

    budget: Budget
    times: Times
    learner: Learner[Task]
    regularization: float | None = None
    typical: Fraction | None = None
    warm: bool = False
    name: str

    private = True
    probabilities = True

    @abstractmethod
    def part(self, releases: int) -> Allowance:
        """The budget of a record for each of the releases."""

    def models(self, stream: StudyStream, seed: int) -> Iterator[tuple[int, Weights]]:
        """Each release."""
        spans = self.times.spans(stream.n)
        bits, prior = NotPrivateBits(seed), None
        task = stream.task(self.regularization)
        for span in spans:
            part = self.part(len(spans))
            terms = Terms(allowance=part, prior=prior, typical=self.typical)
            weights = self.learner.fit(task, terms, self._read(stream, span), bits)
            yield span.stop, weights
            prior = weights if self.warm else None

    def _read(self, stream: StudyStream, span: Span) -> Records:
        """The records of a release; of persons, each counts like one record, nobody is left out.

        So a release costs a person its part once, however many of the records are theirs.
        """
        records = stream.between(*span)
        return records if self.typical is None else once(records, np.ones(records.n, np.bool_))


@dataclass(frozen=True, kw_only=True)
class NaiveSplitting(Refit):
    """Splits the budget over all T releases, a number fixed in advance; then the budget is spent.

    If persons are protected, that is enough: a person counts like one record in each release, so
    all T together cost a person the budget, whatever the number of records.

    Args:
        simple: Split it by simple composition, into epsilon/T and delta/T, as is often done.
            Otherwise an ApproxDP budget is split exactly, into mu/sqrt(T), which is far more.

    >>> from dataclasses import replace
    >>> from tidegate.learn import GradientPerturbation
    >>> naive = NaiveSplitting(
    ...     budget=ApproxDP(1.0, 1e-6), times=Times(first=8, step=1), learner=GradientPerturbation()
    ... )
    >>> round(naive.part(25).amount, 4), round(replace(naive, simple=True).part(25).amount, 4)
    (0.0473, 0.0097)
    """

    simple: bool = False
    name: str = "naive splitting"

    def part(self, releases: int) -> Allowance:
        """See `Refit`."""
        if self.simple:
            return allowance_of(split(self.budget, releases), Fraction(1))
        return allowance_of(self.budget, Fraction(1, releases))


@dataclass(frozen=True, kw_only=True)
class WindowRefit(Refit):
    """Trains each release on the whole window for a share of step/window: private for ever.

    A record is in window/step windows and no more. (The chain of SlidingWindow reads fewer than two
    blocks per step; this reads the whole window.)
    """

    name: str = "window refit"

    def __post_init__(self) -> None:
        if self.times.window is None or self.times.window % self.times.step:
            raise refuse("window", "a multiple of the step", self.times.window)

    def part(self, releases: int) -> Allowance:
        """See `Refit`; it does not depend on the number of releases."""
        del releases
        return allowance_of(self.budget, Fraction(self.times.step, self.times.window or 0))


@dataclass(frozen=True, kw_only=True)
class Overspent(Refit):
    """NOT PRIVATE: each release spends the whole budget, as if it were the only one.

    It shows how accurate one such fit is, and so roughly the limit for any split of the budget.
    """

    name: str = "the whole budget each time"

    private = False

    def part(self, releases: int) -> Allowance:
        """See `Refit`: the whole budget, every time."""
        del releases
        return allowance_of(self.budget, Fraction(1))
