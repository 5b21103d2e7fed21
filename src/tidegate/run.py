"""A plan carried out in memory: records in, releases out."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from tidegate.checks import refuse
from tidegate.compute import Engine, Memory
from tidegate.learn.learner import Weights
from tidegate.learn.parts import Parts
from tidegate.learn.records import Held, Records, Slots, weighted
from tidegate.learn.trainer import Trainer
from tidegate.plan import Plan, TwoStreamPlan
from tidegate.privacy import Ledger, Line
from tidegate.release import Release
from tidegate.schedule import SlotWeight, Span, Stream
from tidegate.schedule.twostream import Arrived


class Models:
    """The models of a plan, as they are made.

    Args:
        trainer: Makes them.
        engine: Where; by default in memory.

    Attributes:
        releases: Those that are published, in order.
    """

    def __init__(self, trainer: Trainer[Any], engine: Engine | None = None) -> None:
        self.trainer = trainer
        self.engine = Memory() if engine is None else engine
        self.releases: list[Release] = []
        self._weights: dict[int, Weights] = {}

    def carry_out(self, lines: list[Line], held: Held, ledger: Ledger) -> None:
        """Make all models of one step, then charge and publish them.

        It can be interrupted anywhere and called again: a fit is made once, charged once and
        published once, and none is published before all are made and charged.
        """
        read = partial(_parts, self.engine, held)
        for line in lines:
            if line.fit.number not in self._weights:
                prior, start = self._model(line.fit.prior), self._model(line.fit.start)
                weights = self.trainer.train(line, read, prior, start)
                weights.flags.writeable = False
                self._weights[line.fit.number] = weights
        for line in lines:
            if line.fit.number > ledger.last:
                ledger.post(line)
        for line in lines:
            newest = self.releases[-1].fit.number if self.releases else -1
            if line.fit.released and line.fit.number > newest:
                self.releases.append(self._release(line))

    def _model(self, number: int | None) -> Weights | None:
        return None if number is None else self._weights[number]

    def _release(self, line: Line) -> Release:
        weights, prior = self._weights[line.fit.number], self._model(line.fit.prior)
        return Release(
            number=len(self.releases),
            fit=line.fit,
            share=line.share,
            budget=self.trainer.budget,
            weights=weights,
            settings=self.trainer.settings(line, weights.shape[0], prior),
            private=self.trainer.bits.private,
        )


def _parts(
    engine: Engine,
    held: Held,
    span: Span,
    slots: Slots | None = None,
    slot_weights: Sequence[SlotWeight] = (),
    /,
) -> Parts[Records]:
    return engine.parts(weighted(held.pieces(span, slots), slot_weights), held.form)


class Run:
    """One stream: takes records in, makes a step's releases when the step is complete."""

    def __init__(self, plan: Plan, trainer: Trainer[Any], engine: Engine | None = None) -> None:
        if plan.schedule.weighs and not trainer.learner.takes_slot_weights:
            name = type(plan.schedule).__name__
            raise refuse("learner", f"GradientPerturbation for a {name} schedule", trainer.learner)
        trainer.learner.check_size(trainer.task, plan.schedule.largest)
        self.plan = plan
        self.models = Models(trainer, engine)
        self.ledger = plan.ledger()
        self._held = Held()
        self._done = 0

    @property
    def count(self) -> int:
        """How many records there have been."""
        return self._held.count

    def take(self, records: Records) -> None:
        """Add records to the stream and carry out what is due."""
        self._held.append(records)
        schedule = self.plan.schedule
        while self._done + schedule.step <= self._held.count:
            at = self._done + schedule.step
            self.models.carry_out(self.plan.due(at), self._held, self.ledger)
            self._done = at
            self.ledger.settle(schedule.settled(at))
            self._held.forget(schedule.needed(at))


class TwoStreamRun:
    """Two streams: each takes records in, and pays in its own ledger."""

    def __init__(
        self, plan: TwoStreamPlan, trainer: Trainer[Any], engine: Engine | None = None
    ) -> None:
        trainer.learner.check_size(trainer.task, plan.schedule.largest)
        self.plan = plan
        self.models = Models(trainer, engine)
        self.ledgers = plan.ledgers()
        self._held: dict[Stream, Held] = {"source": Held(), "target": Held()}
        self._so_far = Arrived()

    @property
    def count(self) -> int:
        """How many records of the source there have been; the first release is of these."""
        return self._held["source"].count

    def take(self, records: Records, stream: Stream) -> None:
        """Add records to a stream and carry out what is due."""
        held, ledger = self._held[stream], self.ledgers.of(stream)
        held.append(records)
        schedule = self.plan.schedule
        while self._next(stream) <= held.count:
            so_far, fits = schedule.arrive(self._so_far, stream)
            lines = [Line(fit, self.plan.share(fit)) for fit in fits]
            self.models.carry_out(lines, held, ledger)
            self._so_far = so_far
            self.ledgers.settle(so_far)
            self._held["source"].forget(schedule.source.needed(so_far.source))
            self._held["target"].forget(so_far.phase_start)

    def _next(self, stream: Stream) -> int:
        """How many records of a stream complete its next step."""
        if stream == "source":
            return self._so_far.source + self.plan.schedule.source.step
        return self._so_far.target + self.plan.schedule.step
