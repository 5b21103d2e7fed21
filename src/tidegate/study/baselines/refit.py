"""Refitting: at each release all that counts is learnt anew, and every record in it pays again."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from tidegate.checks import refuse, whole
from tidegate.learn.learner import Learner, Task, Terms, Weights
from tidegate.privacy.bits import NotPrivateBits
from tidegate.privacy.budget import Allowance, ApproxDP, Budget, PureDP, allowance_of
from tidegate.privacy.rounding import down
from tidegate.schedule import Span
from tidegate.study.study_stream import StudyStream


@dataclass(frozen=True, kw_only=True)
class Times:
    """When there is a release, and of which records.

    Args:
        first: Records before the first release.
        step: Records between two.
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
        """The records of each release of a stream of n."""
        ends = range(self.first, n + 1, self.step)
        return [Span(0 if self.window is None else at - self.window, at) for at in ends]


def split(budget: Budget, releases: int) -> Budget:
    """The part of a budget that each of so many releases may have, by simple composition.

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
    """Each release learns all records that count, for the same part of their budget.

    Args:
        budget: What any record may lose.
        times: When, and of which records.
        learner: How.
        regularization: Lambda; None leaves it to the learner.
        warm: Start each fit at the release before, which costs nothing.
        name: What it is called.
    """

    budget: Budget
    times: Times
    learner: Learner[Task]
    regularization: float | None = None
    warm: bool = False
    name: str

    private = True

    @abstractmethod
    def part(self, releases: int) -> Allowance:
        """What each of so many releases may cost a record."""

    def models(self, stream: StudyStream, seed: int) -> Iterator[tuple[int, Weights]]:
        """Each release."""
        spans = self.times.spans(stream.n)
        bits, prior = NotPrivateBits(seed), None
        for span in spans:
            terms = Terms(allowance=self.part(len(spans)), prior=prior)
            task = stream.task(self.regularization)
            weights = self.learner.fit(task, terms, stream.between(*span), bits)
            yield span.stop, weights
            prior = weights if self.warm else None


@dataclass(frozen=True, kw_only=True)
class NaiveSplitting(Refit):
    """The budget is split over all releases there will be: T, which must be known; then it ends.

    Args:
        simple: Split it by simple composition, into epsilon/T and delta/T, as is often done. Else a
            Gaussian budget is split exactly, into mu/sqrt(T), which leaves far more to each.

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
    """Each release learns the whole window for a share of step/window: private for ever.

    A record is in window/step windows and no more. (The chain of SlidingWindow reads fewer than two
    blocks a step where this reads the whole window.)
    """

    name: str = "window refit"

    def __post_init__(self) -> None:
        if self.times.window is None or self.times.window % self.times.step:
            raise refuse("window", "a whole number of steps", self.times.window)

    def part(self, releases: int) -> Allowance:
        """See `Refit`; it does not matter how many there are."""
        del releases
        return allowance_of(self.budget, Fraction(self.times.step, self.times.window or 0))


@dataclass(frozen=True, kw_only=True)
class Overspent(Refit):
    """NOT PRIVATE: each release spends the whole budget, as if it were the only one.

    It shows what one such fit can tell, and so about how much any way to share the budget can.
    """

    name: str = "the whole budget each time"

    private = False

    def part(self, releases: int) -> Allowance:
        """See `Refit`: all of it, every time."""
        del releases
        return allowance_of(self.budget, Fraction(1))
