"""Refitting: at each release all that counts is learnt anew, and every record in it pays again."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from tidegate.checks import refuse, whole
from tidegate.learn.learner import Learner, Task, Weights
from tidegate.privacy.bits import NotPrivateBits
from tidegate.privacy.budget import Budget, allowance
from tidegate.schedule import Span
from tidegate.study.stream import StudyStream


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


@dataclass(frozen=True, kw_only=True)
class NaiveSplitting:
    """Each of T releases learns all records that count for a T-th part of the budget.

    T is the number of releases there will be: it must be known, and after it there is nothing
    left. The parts are as large as they can be: epsilon/T by simple composition, mu/sqrt(T) by that
    of Gaussian mechanisms, which is exact and gives far more than epsilon/T and delta/T would.

    Args:
        budget: What any record may lose.
        times: When, and of which records.
        learner: How.
        regularization: Lambda; None leaves it to the learner.
        warm: Start each fit at the release before, which is free: not so naive.
    """

    budget: Budget
    times: Times
    learner: Learner[Task]
    regularization: float | None = None
    warm: bool = False
    name: str = "naive splitting"

    private = True

    def models(self, stream: StudyStream, seed: int) -> Iterator[tuple[int, Weights]]:
        """Each release."""
        spans = self.times.spans(stream.n)
        bits, prior = NotPrivateBits(seed), None
        for span in spans:
            weights = self.learner.fit(
                stream.task(self.regularization),
                stream.between(*span),
                allowance=allowance(self.budget, self.share(len(spans))),
                prior=prior,
                bits=bits,
            )
            yield span.stop, weights
            prior = weights if self.warm else None

    def share(self, releases: int) -> Fraction:
        """What a record pays for each of so many releases."""
        return Fraction(1, releases)


@dataclass(frozen=True, kw_only=True)
class WindowRefit(NaiveSplitting):
    """Each release learns the whole window for a share of step/window: private for ever.

    A record is in window/step windows and no more. The chain of SlidingWindow reads fewer than two
    blocks a step where this reads the whole window.
    """

    name: str = "window refit"

    def __post_init__(self) -> None:
        if self.times.window is None or self.times.window % self.times.step:
            raise refuse("window", "a whole number of steps", self.times.window)

    def share(self, releases: int) -> Fraction:
        """What a record pays for each release, however many there are."""
        del releases
        return Fraction(self.times.step, self.times.window or 0)
