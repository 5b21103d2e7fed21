"""Methods that keep a model up to date, private or not: their interface, and this library's own."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidegate.compare.labelled import Fitted, LabelledStream
from tidegate.data.rows import Rows
from tidegate.learn.learner import Learner, Task, Weights
from tidegate.learn.transform import Transform
from tidegate.privacy.noise import NotPrivateBits
from tidegate.run.engine import Engine, Memory
from tidegate.run.held import AdmittedSteps
from tidegate.run.memory_run import MemoryRun
from tidegate.run.settings import OneSource, Settings
from tidegate.schedule import Span
from tidegate.schedule.plan import Plan
from tidegate.schedule.progress import ONLY


class Method(Protocol):
    """A way to keep a model up to date.

    A package adds methods to `tidegate compare` by entry points of the group `tidegate.methods`:
    see docs/how-to/choose-a-schedule.md.
    """

    @property
    def name(self) -> str:
        """Its name in tables and plots."""

    @property
    def private(self) -> bool:
        """Whether it is private with fresh noise; the noise of a comparison comes from a seed."""

    @property
    def probabilities(self) -> bool:
        """Whether its margins have the probabilities of the stream's loss."""

    def models(self, stream: LabelledStream, seed: int) -> Iterator[tuple[int, Fitted]]:
        """Each release: how many records had arrived, and a model with a method `margins`."""


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear model of the features as they are.

    Args:
        weights: Shape (d, K), or (d,) for two classes and for targets.

    >>> import numpy as np
    >>> Linear(np.array([2.0, 1.0])).margins(np.array([[1.0, 0.5]]))
    array([2.5])
    """

    weights: Weights

    def margins(self, rows: Rows) -> Any:
        """The margins of rows of features."""
        return rows @ self.weights


@dataclass(frozen=True, eq=False)
class Transformed:
    """A linear model that first centres and scales the features."""

    weights: Weights
    transform: Transform

    def margins(self, rows: Rows) -> Any:
        """The margins of rows of features."""
        return self.transform.rows(rows) @ self.weights


@dataclass(frozen=True, kw_only=True)
class Scheduled:
    """This library's method: a plan, carried out by a learner.

    NOT PRIVATE here: the noise comes from a seed. Estimators and the Gate draw fresh noise.

    Args:
        name: Its name.
        plan: What to release when, with which share.
        learner: How to train each fit.
        regularization: Lambda; None leaves it to the learner.
        engine: Computes the fits; it does not affect the results.

    >>> from tidegate import ApproxDP
    >>> from tidegate.learn import GradientPerturbation
    >>> from tidegate.schedule import Independent
    >>> plan = Plan(schedule=Independent(step=1024), budget=ApproxDP(1.0, 1e-6))
    >>> Scheduled(name="independent", plan=plan, learner=GradientPerturbation()).private
    True
    """

    name: str
    plan: Plan
    learner: Learner[Task]
    regularization: float | None = None
    engine: Engine = field(default=Memory(), repr=False, compare=False)

    private = True
    probabilities = True

    def admitted(self, stream: LabelledStream) -> float:
        """The share of the records with a person that count; NaN if records are protected."""
        admission, owners, steps = self.plan.admission, stream.records.owners, self.plan.steps
        if admission is None or owners is None:
            return math.nan
        decided = AdmittedSteps(admission, [ONLY])
        for number in range(steps.complete(stream.n)):
            span = steps.records(Span(number, number + 1))
            decided.decide(ONLY, span, number, owners[slice(*span)])
            decided.add(ONLY, span, number)
            decided.forget(ONLY, span.stop, number + 1)
        records = sum(each.records for each in decided.counts)
        return sum(each.counted for each in decided.counts) / records if records else math.nan

    def models(self, stream: LabelledStream, seed: int) -> Iterator[tuple[int, Fitted]]:
        """Each release of the plan."""
        settings = Settings(
            plan=self.plan,
            task=stream.task(self.regularization),
            learner=self.learner,
            noise=OneSource(NotPrivateBits(seed)),
            engine=self.engine,
        )
        run = MemoryRun(settings)
        step, seen = self.plan.steps.size, 0
        for start in range(0, stream.n - step + 1, step):
            run.take(stream.between(start, start + step))
            for release in run.releases[seen:]:
                weights, transform = release.weights, release.transform
                model = Linear(weights) if transform is None else Transformed(weights, transform)
                yield release.fit.at, model
            seen = len(run.releases)
