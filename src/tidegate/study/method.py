"""The interface of methods that keep a model up to date, private or not, and this library's own."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidegate.compute import Engine, Memory
from tidegate.learn.admitted_steps import AdmittedSteps
from tidegate.learn.learner import Learner, Task
from tidegate.learn.trainer import Trainer
from tidegate.memory_run import MemoryRun
from tidegate.plan import Plan
from tidegate.privacy.bits import NotPrivateBits
from tidegate.progress import ONLY
from tidegate.schedule import Span
from tidegate.study.study_stream import Fitted, StudyStream, Transformed


class Method(Protocol):
    """A way to keep a model up to date."""

    @property
    def name(self) -> str:
        """Its name in tables and plots."""

    @property
    def private(self) -> bool:
        """Whether it is private with fresh noise; the noise of a study comes from a seed."""

    @property
    def probabilities(self) -> bool:
        """Whether its margins have the probabilities of the stream's loss."""

    def models(self, stream: StudyStream, seed: int) -> Iterator[tuple[int, Fitted]]:
        """Each release: how many records had arrived, and its weights, shape (d, K) or (d,)."""


@dataclass(frozen=True, kw_only=True)
class Scheduled:
    """This library's method: a plan, carried out by a learner.

    Args:
        name: Its name.
        plan: What to release when, with which share.
        learner: How to train each fit.
        regularization: Lambda; None leaves it to the learner.
        engine: Computes the fits; it does not affect the results.
    """

    name: str
    plan: Plan
    learner: Learner[Task]
    regularization: float | None = None
    engine: Engine = field(default=Memory(), repr=False, compare=False)

    private = True
    probabilities = True

    def admitted(self, stream: StudyStream) -> float | None:
        """The share of the records with a person that count; None if records are protected."""
        admission, owners, steps = self.plan.admission, stream.records.owners, self.plan.steps
        if admission is None or owners is None:
            return None
        decided = AdmittedSteps(admission, [ONLY])
        for number in range(steps.complete(stream.n)):
            span = steps.records(Span(number, number + 1))
            decided.decide(ONLY, span, number, owners[slice(*span)])
            decided.add(ONLY, span, number)
            decided.forget(ONLY, span.stop, number + 1)
        records = sum(each.records for each in decided.counts)
        return sum(each.counted for each in decided.counts) / records if records else None

    def models(self, stream: StudyStream, seed: int) -> Iterator[tuple[int, Fitted]]:
        """Each release of the plan."""
        trainer: Trainer[Any] = Trainer(
            task=stream.task(self.regularization),
            learner=self.learner,
            budget=self.plan.budget,
            bits=NotPrivateBits(seed),
        )
        run = MemoryRun(self.plan, trainer, self.engine)
        step, seen = self.plan.steps.size, 0
        for start in range(0, stream.n - step + 1, step):
            run.take(stream.between(start, start + step))
            for release in run.releases[seen:]:
                weights, transform = release.weights, release.transform
                yield (
                    release.fit.at,
                    weights if transform is None else Transformed(weights, transform),
                )
            seen = len(run.releases)
