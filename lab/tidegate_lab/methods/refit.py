"""Refitting: each release is trained from scratch on its records, and all of them pay again.

A release is a plan of its own, with a single fit, of which a record pays a part of its budget.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import nextafter
from typing import Any

import numpy as np

from tidegate import ApproxDP, Plan, PureDP
from tidegate.compare import LabelledStream, Scheduled
from tidegate.privacy import Budget
from tidegate.schedule import Independent
from tidegate_lab.checks import refuse
from tidegate_lab.methods.times import Times


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


def down(value: Fraction) -> float:
    """The largest float that is not above a non-negative rational."""
    number = float(value)
    return number if number <= value else nextafter(number, 0.0)


@dataclass(frozen=True, kw_only=True)
class Refit(ABC):
    """Trains each release on all records that count, for the same part of their budget.

    Args:
        budget: The budget of every record, or of every person.
        times: When to release, and which records count.
        learner: How to train each fit.
        regularization: Lambda; None leaves it to the learner.
        person: How much a person may contribute to one release, if persons are protected: one
            contribution. Then a person counts like one record in every fit.
        name: Its name in tables and plots.
    """

    budget: Budget
    times: Times
    learner: Any
    regularization: float | None = None
    person: Any = None
    name: str

    private = True
    probabilities = True

    @abstractmethod
    def plan(self, records: int, releases: int) -> Plan:
        """The plan of one of the releases, of so many records."""

    def _plan(self, records: int, share: Fraction) -> Plan:
        """A single fit of records, for a share of their budget."""
        return Plan(
            schedule=Independent(step=records),
            budget=self.budget,
            reserve=1 - share,
            person=self.person,
        )

    def models(self, stream: LabelledStream, seed: int) -> Iterator[tuple[int, Any]]:
        """Each release."""
        spans = self.times.spans(stream.n)
        seeds = np.random.SeedSequence(seed).generate_state(len(spans)).tolist()
        for span, own_seed in zip(spans, seeds, strict=True):
            fit = Scheduled(
                name=self.name,
                plan=self.plan(span.size, len(spans)),
                learner=self.learner,
                regularization=self.regularization,
            )
            part = replace(stream, records=stream.records[slice(*span)])
            for _, model in fit.models(part, own_seed):
                yield span.stop, model


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
    >>> for method in (naive, replace(naive, simple=True)):
    ...     plan = method.plan(records=8, releases=25)
    ...     print(round(plan.budget.of_share(plan.forever), 4))
    0.0473
    0.0097
    """

    simple: bool = False
    name: str = "naive splitting"

    def plan(self, records: int, releases: int) -> Plan:
        """See `Refit`."""
        if self.simple:
            whole = self._plan(records, Fraction(1))
            return replace(whole, budget=split(self.budget, releases))
        return self._plan(records, Fraction(1, releases))


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

    def plan(self, records: int, releases: int) -> Plan:
        """See `Refit`; it does not depend on the number of releases."""
        del releases
        return self._plan(records, Fraction(self.times.step, records))


@dataclass(frozen=True, kw_only=True)
class Overspent(Refit):
    """NOT PRIVATE: each release spends the whole budget, as if it were the only one.

    It shows how accurate one such fit is, and so roughly the limit for any split of the budget.
    """

    name: str = "the whole budget each time"

    private = False

    def plan(self, records: int, releases: int) -> Plan:
        """See `Refit`: the whole budget, every time."""
        del releases
        return self._plan(records, Fraction(1))
