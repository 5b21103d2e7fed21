"""Executes a plan in memory: records in, releases out."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from scipy.sparse import issparse

from tidegate.checks import StoppedError, refuse
from tidegate.compute import Engine, Memory
from tidegate.executor import FitJob, Surveyed, TrainedFit, advance, reader
from tidegate.features.rows import Rows
from tidegate.learn.admitted_steps import AdmittedSteps
from tidegate.learn.fold import Fold
from tidegate.learn.held import Held
from tidegate.learn.learner import Fitted, Task, Weights
from tidegate.learn.moments import Moments
from tidegate.learn.persons import Admitted, AdmittedStep, Owned
from tidegate.learn.records import Owners, Records, Slots
from tidegate.learn.step_admission import StepAdmission
from tidegate.learn.stop import mostly_nobodys, stopped_because, stops, whose
from tidegate.learn.survey import survey
from tidegate.learn.trainer import Trainer
from tidegate.learn.transform import Transform
from tidegate.plan import Plan, TwoLedgers, TwoStreamPlan
from tidegate.privacy import Ledger
from tidegate.privacy.budget import allowance_of
from tidegate.progress import ONLY, Progress
from tidegate.release import About, Release
from tidegate.schedule import RecordFit, Span
from tidegate.schedule.fit import superseded
from tidegate.schedule.twostream import Arrived

CORRECT = (
    "check classes, norm, features and the order of columns; fit starts a new stream, in which "
    "records that are sent again pay again"
)

NOBODYS = "check persons; fit starts a new stream"


class MemoryRun:
    """Takes in records, and makes the releases of each step when it is complete.

    A fit can be interrupted: the next batch completes its step. Each fit is trained once, charged
    once and published once, and none is published before all fits of its step are trained and
    charged. If the ledger itself is interrupted, later charges are refused or too high; no model is
    published that was not charged.

    Args:
        plan: The plan to execute, of one stream or two.
        trainer: Trains all fits, with one source of random bits.
        engine: Where fits are computed; by default in memory.

    Attributes:
        releases: The published releases, in order.
        about: The public settings of the run, for cards.
        ledgers: The ledger, or the two ledgers of two streams.
    """

    def __init__(
        self, plan: Plan | TwoStreamPlan, trainer: Trainer[Any], engine: Engine | None = None
    ) -> None:
        task = trainer.task.centred() if plan.survey else trainer.task
        trainer.learner.check_size(task, plan.schedule.largest)
        self.plan, self.progress = plan, Progress(plan, self)
        self.releases: list[Release] = []
        self.about: About | None = None
        self.ledgers = plan.ledger() if isinstance(plan, Plan) else plan.ledgers()
        self._trainer = trainer
        self._admitted = None
        if plan.admission is not None:
            self._trainer = replace(trainer, typical=self.progress.typical)
            self._admitted = AdmittedSteps(plan.admission, self.progress.streams)
        self._engine = Memory() if engine is None else engine
        self._held = {stream: Held() for stream in self.progress.streams}
        self._fitted: dict[int, Fitted] = {}  # of fits that are released or not superseded
        self._unreleased: list[RecordFit] = []  # fits whose weights may be superseded later
        self._done = dict.fromkeys(self._held, 0), Arrived()  # replaced as a whole after each step
        self._transforms: dict[int, Transform | None] = {}  # of the same fits
        self._moments: dict[str, Moments] = {}  # of the surveys of each stream so far
        self._surveys: dict[str, tuple[Span, Moments, str | None]] = {}  # of the step in progress
        self._stopped: str | None = None  # why a first step stopped the run
        self._turns: tuple[str, ...] = ()  # streams with new records, in the order of their batches

    def take(self, records: Records, stream: str = ONLY) -> None:
        """Add records to a stream and execute the steps that they complete."""
        self.check_going()
        if (records.owners is None) != (self._admitted is None):  # fail closed
            raise refuse("owners", "given if and only if persons are protected", shown="otherwise")
        self._turns = (*self._turns, stream)  # first: a turn without records does no harm
        self._held[stream].append(records)
        for _ in advance(self):
            pass

    def check_going(self) -> None:
        """Raise StoppedError if the run has stopped."""
        if self._stopped is not None:
            raise StoppedError(self._stopped)

    def ledger(self, stream: str) -> Ledger:
        """The ledger of a stream."""
        return self.ledgers if isinstance(self.ledgers, Ledger) else self.ledgers.of(stream)

    @property
    def admissions(self) -> list[StepAdmission]:
        """How many records of each step count, if persons are protected: for the operator alone."""
        return [] if self._admitted is None else self._admitted.counts

    # --- progress

    def count(self, stream: str) -> int:
        """How many records of a stream have arrived."""
        return self._held[stream].count

    def done(self, stream: str) -> int:
        """The number of records up to which all fits are done."""
        return self._done[0][stream]

    def arrived(self) -> Arrived:
        """The arrivals of two streams, which decide their next fits."""
        return self._done[1]

    packing = None
    """See `Runtime`: records in memory are not packed."""

    def turn(self) -> str | None:
        """The next stream, in the order in which batches came, also after an interruption."""
        while self._turns and not self.progress.complete(self._turns[0]):
            self._turns = self._turns[1:]
        return self._turns[0] if self._turns else None

    # --- for the executor

    def form(self, stream: str) -> Rows:
        """An empty array with the stream's schema."""
        return self._held[stream].form

    def pieces(self, stream: str, span: Span, slots: Slots | None = None) -> Sequence[Records]:
        """The records of a span, or of some of its slots."""
        return self._held[stream].pieces(span, slots)

    def fit(self, number: int) -> Weights:
        """The weights of a fit."""
        return self._fitted[number].weights

    def transform(self, number: int) -> Transform | None:
        """The transform of a fit."""
        return self._transforms[number]

    def fold(self, number: int) -> Fold:
        """The fold of a fit."""
        return self._fitted[number].fold

    def owned(self, stream: str, span: Span) -> Owned | None:
        """Whose the slots of a span are, and which count; those of a step in progress do not."""
        if self._admitted is None:
            return None
        return self._admitted.owned(stream, span, self._owners(stream, span))

    def _owners(self, stream: str, span: Span) -> Owners:
        pieces = (piece.owners for piece in self._held[stream].pieces(span))
        return np.concatenate([each for each in pieces if each is not None])

    def admit(self, stream: str, step: Span) -> Admitted | None:
        """Decide once which slots of a step count, however often it is interrupted."""
        self.check_going()
        if self._admitted is None:
            return None
        number, owners = self.progress.number(stream, step), self._owners(stream, step)
        if step.start == 0 and (line := mostly_nobodys(owners, whose(stream))) is not None:
            self._stopped = f"{line}: {NOBODYS}"
            self.check_going()
        return self._admitted.decide(stream, step, number, owners)

    def survey(self, stream: str, step: Span) -> Surveyed | None:
        """Survey a step once, however often it is interrupted."""
        self.check_going()
        if not self.plan.survey:
            return None
        task: Task = self._trainer.task
        form = self.form(stream)
        if stream not in self._surveys or self._surveys[stream][0] != step:
            admitted = self.admit(stream, step)
            counted = None if admitted is None else AdmittedStep(step, admitted)
            seen = survey(
                task.grouped(reader(self, stream, self._engine, admitted=counted)(step)),
                norm=task.norm,
                classes=task.groups,
                allowance=allowance_of(self._trainer.budget, self.plan.survey),
                bits=self._trainer.bits,
                persons=admitted is not None,
            )
            before = self._moments.get(stream) or Moments.before_first(seen.features, seen.classes)
            stopped = None
            if step.start == 0 and stops(seen):
                line = stopped_because(seen, self.plan.survey, whose(stream))
                stopped = f"{line}: {CORRECT}"
            self._surveys[stream] = step, before.after(seen), stopped
        _, moments, stopped = self._surveys[stream]
        transform = moments.transform(norm=task.norm, sparse=issparse(form))
        return Surveyed(transform=transform, class_shares=moments.class_shares, stopped=stopped)

    def stop(self, stream: str, step: Span) -> None:
        """Charge the survey of a first step, and take no more records."""
        ledger = self.ledger(stream)
        if ledger.surveyed < step.stop:  # not yet charged: an interruption may come at any line
            ledger.take_survey(step)
        self._stopped = self._surveys[stream][2]
        self.publish(stream, step, [], self.arrived())

    def trainer(self, number: int) -> Trainer[Any]:  # noqa: ARG002 (one trainer for all)
        """The trainer of all fits."""
        return self._trainer

    def train(self, job: FitJob) -> Fitted:
        """Train a fit once, however often its step is interrupted."""
        number = job.line.fit.number
        if number not in self._fitted:
            fitted = job.train(self, self._engine)
            fitted.weights.flags.writeable = False
            self._transforms[number] = job.transform
            self._fitted[number] = fitted
        return self._fitted[number]

    def publish(
        self, stream: str, step: Span, made: Sequence[TrainedFit], after: Arrived
    ) -> list[Release]:
        """Charge the fits not yet charged, then publish the releases not yet published."""
        ledger, published = self.ledger(stream), len(self.releases)
        if self._admitted is not None:
            self._admitted.add(stream, step, self.progress.number(stream, step))
        if self.plan.survey and ledger.surveyed < step.stop:
            ledger.take_survey(step)
        for each in made:
            if each.line.fit.number > ledger.last:
                ledger.post(each.line)
        for each in made:
            newest = self.releases[-1].fit.number if self.releases else -1
            if each.line.fit.released and each.line.fit.number > newest:
                release = each.release(len(self.releases))
                stamped = replace(release, about=self.about, time=datetime.now(UTC))
                self.releases.append(stamped)
        if stream in self._surveys:
            self._moments[stream] = self._surveys[stream][1]
        self._done = {**self._done[0], stream: step.stop}, after
        if isinstance(self.ledgers, TwoLedgers):
            self.ledgers.settle(self.arrived())
        elif isinstance(self.plan, Plan):
            self.plan.settle(self.ledgers, step.stop)
        self._forget()
        self._drop_superseded([each.line.fit for each in made])
        return self.releases[published:]

    def _forget(self) -> None:
        """Drop the records that no later fit or survey reads, and what nobody needs of owners."""
        for name, held in self._held.items():
            held.forget(self.progress.needed(name))
            if self._admitted is not None:
                self._admitted.forget(name, held.first, self.progress.complete_steps(name))

    def _drop_superseded(self, due: Sequence[RecordFit]) -> None:
        """Delete the models that no fit needs after a step; `due` are the fits of the step."""
        for number in superseded(self._unreleased, due):
            self._fitted.pop(number, None)
            self._transforms.pop(number, None)
        fits = (fit for fit in (*self._unreleased, *due) if not fit.released)
        self._unreleased = [fit for fit in fits if fit.number in self._fitted]
