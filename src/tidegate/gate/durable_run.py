"""A plan carried out in a store: each step's charges, models and cards in one transaction."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from sklearn.pipeline import make_pipeline

from tidegate.executor import FitJob, TrainedFit
from tidegate.gate import publish_folder, quality
from tidegate.gate.config import Config
from tidegate.gate.integrity import SETTINGS, text_digest
from tidegate.gate.store import Evaluation, Made, Store, readable
from tidegate.learn.intake import Intake
from tidegate.learn.learner import Task, Weights
from tidegate.learn.records import Records
from tidegate.learn.trainer import Trainer
from tidegate.plan import Plan, TwoStreamPlan
from tidegate.privacy.bits import Bits, NotPrivateBits, SystemBits
from tidegate.progress import Progress
from tidegate.release import About, Card, StoredRelease, make_card
from tidegate.schedule import Span, Steps, TwoStream
from tidegate.schedule.twostream import Arrived

Clock = Callable[[], datetime]


def now() -> datetime:
    """The time for cards."""
    return datetime.now(UTC)


class DurableRun:
    """What the executor carries out a plan with, where everything is kept in a store.

    A step that is cut short has been seen by nobody: it is made again as a whole. `train` makes a
    fit here or in another process.
    """

    def __init__(
        self, store: Store, config: Config, train: Callable[[FitJob], Weights], clock: Clock = now
    ) -> None:
        self.store, self.config, self.train = store, config, train
        self.plan = config.plan()
        self.progress = Progress(self.plan, self)
        self._clock = clock
        self._task, self._learner = config.task(), config.learner.build()
        self.intake = Intake(
            norm=self._task.norm, classes=config.records.classes, features=config.feature_map()
        )
        maps = [each.build() for each in config.features]
        self.about = About(
            plan=self.plan,
            task=self._task,
            learner=self._learner,
            classes=config.records.classes,
            features=make_pipeline(*maps) if maps else None,
            dtype=config.records.dtype,
            columns=config.records.read,
            label=config.records.label,
        )

    # --- how far it is

    def count(self, stream: str) -> int:
        """How many records of a stream have arrived."""
        return self.store.count(stream)

    def done(self, stream: str) -> int:
        """The time up to which all due fits of a stream have been carried out."""
        return self.store.done(stream)

    def arrived(self) -> Arrived:
        """What the future of two streams depends on."""
        if isinstance(self.plan, Plan) or (state := self.store.state()) is None:
            return Arrived()
        with readable("the state of the two streams in the database"):
            numbers = json.loads(state)
            chain = {int(level): number for level, number in numbers.pop("chain").items()}
            return _mapped(Arrived(**numbers, chain=chain), self.plan.schedule, Steps.complete)

    def turn(self) -> str | None:
        """Of two streams that are complete, the one that would be if records came in turns."""
        ready = filter(self.progress.complete, self.progress.streams)
        return min(ready, key=self.progress.turn, default=None)

    # --- what the executor asks for

    def fit(self, number: int) -> Weights:
        """The model of a fit of an earlier step."""
        return self.store.fit(number)

    def trainer(self, number: int) -> Trainer[Task]:
        """What makes a fit: each has bits of its own."""
        return Trainer(
            task=self._task, learner=self._learner, budget=self.plan.budget, bits=self._bits(number)
        )

    def _bits(self, *place: int) -> Bits:
        """Fresh bits; with a seed, those of this place alone, so that a restart repeats them."""
        seed = self.config.not_private_seed
        return SystemBits() if seed is None else NotPrivateBits(seed, *place)

    def publish(
        self, stream: str, step: Span, made: Sequence[TrainedFit], after: Arrived
    ) -> list[StoredRelease]:
        """Charge, keep and release the fits of a step in one transaction."""
        evaluation = self._evaluation(stream, step)
        measured = None if evaluation is None else quality.on_card(evaluation, step)
        fits = [self._made(each, measured) for each in made]
        state = as_text(self.plan, after)
        released = self.store.publish(stream, step.stop, fits, state, evaluation)
        self.after_commit()
        return released

    def _made(self, fit: TrainedFit, measured: Card | None) -> Made:
        release = fit.release(0)  # the store gives the number
        evaluations = {"step_before": measured, "holdout": self._on_holdout(fit.weights)}
        card = make_card(
            release,
            self.about,
            time=self._clock(),
            evaluation={name: each for name, each in evaluations.items() if each} or None,
        )
        settings = {SETTINGS: text_digest(self.store.settings())}
        return Made(line=fit.line, weights=fit.weights, card={**card, **settings})

    # --- how good the releases are

    def _evaluation(self, stream: str, step: Span) -> Evaluation | None:
        """How good the newest release is on the step that has just come in, if that is bought."""
        share, newest = self.config.quality.share, self.store.newest()
        if share is None or newest is None:
            return None
        return quality.evaluate(
            newest,
            self.store.read(stream, step),
            budget=self.plan.budget,
            share=share,
            bits=self._bits(self.progress.streams.index(stream), step.stop, 1),
        )

    @cached_property
    def holdout(self) -> Records | None:
        """The public records that releases are tried on."""
        source = self.config.holdout()
        if source is None:
            return None
        parts = (self.intake.records(raw.X, raw.y) for raw in source.batches(None))
        return quality.public_records(self.config.quality.holdout, parts)

    def _on_holdout(self, weights: Weights) -> Card | None:
        return None if self.holdout is None else quality.on_public(weights, self.holdout)

    # --- what follows a commit

    @property
    def published(self) -> Path | None:
        """Where releases are published, if anywhere."""
        return None if self.config.publish is None else Path(self.config.publish.folder)

    def after_commit(self) -> None:
        """Publish what is released, and let go of what no fit to come can read."""
        if self.published is not None:
            publish_folder.catch_up(self.published, self.store)
        for stream in self.progress.streams:  # a model of the source ends what the target needs
            self.store.forget(stream, self.progress.needed(stream))


def as_text(plan: Plan | TwoStreamPlan, so_far: Arrived) -> str | None:
    """What the future of two streams depends on, as the store keeps it: in records."""
    if isinstance(plan, Plan):
        return None
    return json.dumps(asdict(_mapped(so_far, plan.schedule, Steps.count)))


def _mapped(so_far: Arrived, schedule: TwoStream, by: Callable[[Steps, int], int]) -> Arrived:
    """The state of two streams with its steps mapped to records, or the other way round."""
    source, target = schedule.steps["source"], schedule.steps["target"]
    return replace(
        so_far,
        source=by(source, so_far.source),
        target=by(target, so_far.target),
        phase_start=by(target, so_far.phase_start),
    )
