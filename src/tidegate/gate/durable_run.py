"""Carry out a plan in a store: one transaction for each step's charges, models and cards."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from scipy.sparse import issparse
from sklearn.pipeline import make_pipeline

from tidegate.checks import StoppedError, json_of
from tidegate.executor import FitJob, Surveyed, TrainedFit, carry_out
from tidegate.features.rows import Rows
from tidegate.gate import publish_folder, quality
from tidegate.gate.attempts import Attempts
from tidegate.gate.config import Config
from tidegate.gate.integrity import SETTINGS, text_digest
from tidegate.gate.sources.source import checked_first
from tidegate.gate.stopped import nobodys_line, stop_in, stop_of
from tidegate.gate.store import Evaluation, FitToStore, Store, StoredSurvey, readable
from tidegate.learn.fold import Fold
from tidegate.learn.intake import Intake
from tidegate.learn.learner import Fitted, Task, Weights
from tidegate.learn.moments import Moments
from tidegate.learn.persons import Admitted, once
from tidegate.learn.records import Records
from tidegate.learn.rules import RULES
from tidegate.learn.survey import Survey, survey
from tidegate.learn.trainer import Trainer
from tidegate.learn.transform import Transform
from tidegate.plan import Plan, TwoStreamPlan
from tidegate.privacy.bits import Bits, NotPrivateBits, SystemBits
from tidegate.privacy.budget import allowance_of
from tidegate.progress import Progress
from tidegate.release import About, Card, StoredRelease, make_card
from tidegate.release.card import fold_of
from tidegate.schedule import Span, Steps, TwoStream
from tidegate.schedule.twostream import Arrived

Clock = Callable[[], datetime]


def now() -> datetime:
    """The current time in UTC, for cards."""
    return datetime.now(UTC)


class DurableRun:
    """A run of a plan whose records, charges and models are kept in a store.

    An interrupted step was never shown to anybody, so the next run repeats all of it. `train`
    computes a fit, in this process or another.
    """

    rules: ClassVar[int] = RULES
    """The number of the public rules that new surveys, scores and fits follow."""

    def __init__(
        self, store: Store, config: Config, train: Callable[[FitJob], Fitted], clock: Clock = now
    ) -> None:
        self.store, self.config, self._train = store, config, train
        self.plan = config.plan()
        self.progress = Progress(self.plan, self)
        self.clock = clock
        self._surveys: dict[str, tuple[Survey, StoredSurvey]] = {}  # of the step in progress
        self._admitted: dict[str, Admitted] = {}  # of the step in progress
        self._stop: str | None = None  # why the first step cannot begin, if it cannot
        self.attempts = Attempts(store)
        self._task, self._learner = config.task(), config.learner.build()
        self.packing = config.packing()
        self.intake = Intake(
            norm=self._task.norm,
            classes=config.records.classes,
            cuts=config.records.cuts,
            target=config.records.predicted,
            features=config.feature_map(),
            spelling=config.records.rule,
            packed=None if self.packing is None else self.packing.columns,
        )
        maps = config.maps()
        self.about = About(
            plan=self.plan,
            task=self._task,
            learner=self._learner,
            classes=config.records.classes,
            target=config.records.predicted,
            features=make_pipeline(*maps) if maps else None,
            dtype=config.records.dtype,
            columns=config.read,
            label=config.records.label,
            cuts=config.records.cuts,
            spelling=config.records.rule,
        )

    # --- progress

    def count(self, stream: str) -> int:
        """The number of records of a stream that have arrived."""
        return self.store.count(stream)

    def done(self, stream: str) -> int:
        """The record count up to which all due fits of a stream have been carried out."""
        return self.store.done(stream)

    def arrived(self) -> Arrived:
        """The state of the two-stream schedule so far."""
        if isinstance(self.plan, Plan) or (state := self.store.state()) is None:
            return Arrived()
        with readable("the two-stream state in the database"):
            numbers = json_of(state)
            chain = {int(level): number for level, number in numbers.pop("chain").items()}
            return _mapped(Arrived(**numbers, chain=chain), self.plan.schedule, Steps.complete)

    def check_going(self) -> None:
        """Raise StoppedError if the state is stopped."""
        if self._stop is not None:
            raise StoppedError(self._stop)
        stop = stop_in(self.store, self.config)
        if stop is not None:
            raise StoppedError(stop.message)

    def turn(self) -> str | None:
        """The next stream with a complete step, as if records arrived alternately; None if none."""
        ready = filter(self.progress.complete, self.progress.streams)
        return min(ready, key=self.progress.turn, default=None)

    def advance(self) -> Iterator[StoredRelease]:
        """Carry out every complete step, and yield each release once it is published."""
        while (stream := self.turn()) is not None:
            yield from self.carry_out(stream)

    def carry_out(self, stream: str) -> Sequence[StoredRelease]:
        """Carry out a stream's next step, which must be complete; see `executor.carry_out`.

        If records are erased meanwhile, it is carried out again from its beginning: nobody has seen
        anything of it, and nothing was charged.
        """
        step = self.progress.next(stream)

        def attempt() -> Sequence[StoredRelease]:
            try:
                return carry_out(self, stream)
            finally:
                self._surveys.pop(stream, None)
                self._admitted.pop(stream, None)

        return self.attempts.until_done(attempt, lambda: self.progress.next(stream) == step)

    def train(self, job: FitJob) -> Fitted:
        """Train a fit, unless records were erased since its step began."""
        self.attempts.check()
        return self._train(job)

    # --- called by the executor

    def fit(self, number: int) -> Weights:
        """The model of a fit of an earlier step."""
        return self.store.fit(number)

    def transform(self, number: int) -> Transform | None:
        """The transform of a fit of an earlier step."""
        with readable(f"the transform of fit {number}"):
            stated = self.store.card(number).get("transform")
            return None if stated is None else Transform.of_card(stated)

    def fold(self, number: int) -> Fold:
        """The fold of a fit of an earlier step."""
        with readable(f"the refit of fit {number}"):
            return fold_of(self.store.card(number))

    def admit(self, stream: str, step: Span) -> Admitted | None:
        """Which slots of a step count. Nothing is stored before `publish`."""
        if self.plan.admission is None:
            return None
        if step.start == 0:
            owned = self.store.owned(stream, step)
            self._stop = None if owned is None else nobodys_line(owned.owners, stream)
            self.check_going()
        self._admitted[stream] = self.store.admit(stream, step, self.plan.admission)
        return self._admitted[stream]

    def _counted(self, stream: str, step: Span) -> Records:
        """The records of a step; if persons are protected, each counts like one record."""
        records = self._unpacked(self.store.read(stream, step))
        if self.plan.admission is None:
            return records
        return once(records, self._admitted[stream])

    def _unpacked(self, records: Records) -> Records:
        return records if self.packing is None else self.packing.records(records)

    def form(self, stream: str) -> Rows | None:
        """An empty array of the records of a stream; None before the first."""
        form = self.store.form(stream)
        return form if form is None or self.packing is None else self.packing.rows(form)

    def survey(self, stream: str, step: Span) -> Surveyed | None:
        """Survey a step, if that is configured. Nobody sees it before it is charged."""
        self.check_going()
        share, task = self.plan.survey, self._task
        if not share:
            return None
        classes, records = task.groups, self._counted(stream, step)
        seen = survey(
            task.grouped(records),
            norm=task.norm,
            classes=classes,
            allowance=allowance_of(self.plan.budget, share),
            bits=self._bits(self.progress.streams.index(stream), step.stop, 2),
            persons=self.plan.person is not None,
            rules=self.rules,
        )
        before = self.store.survey(stream)
        if before is None:
            moments = Moments.before_first(seen.features, classes).after(seen)
        else:
            moments = before.means(classes).after(seen)
        stored = StoredSurvey.of(seen, moments, share)
        self._surveys[stream] = seen, stored
        stop = stop_of(self.config, stream, step, stored)
        return Surveyed(
            transform=moments.transform(norm=task.norm, sparse=issparse(records.X)),
            class_shares=moments.class_shares,
            stopped=None if stop is None else stop.message,
        )

    def stop(self, stream: str, step: Span) -> None:
        """Charge the survey of a first step in one transaction; the state is stopped after it."""
        _, survey = self._surveys.pop(stream)
        state = as_text(self.plan, self.arrived())
        admitted, erasures = self._admitted.pop(stream, None), self.attempts.erasures
        self.store.publish(
            stream, step.stop, [], state, survey=survey, admitted=admitted, erasures=erasures
        )
        self.after_commit()

    def trainer(self, number: int) -> Trainer[Task]:
        """The trainer of a fit, with its own random bits."""
        return Trainer(
            task=self._task,
            learner=self._learner,
            budget=self.plan.budget,
            bits=self._bits(number),
            rules=self.rules,
        )

    def _bits(self, *place: int) -> Bits:
        """Fresh random bits. With a seed they depend only on `place`, so a restart repeats them."""
        seed = self.config.not_private_seed
        return SystemBits() if seed is None else NotPrivateBits(seed, *place)

    def publish(
        self, stream: str, step: Span, made: Sequence[TrainedFit], after: Arrived
    ) -> list[StoredRelease]:
        """Charge, store and release the fits of a step in one transaction."""
        evaluation = self._evaluation(stream, step)
        measured = None if evaluation is None else quality.on_card(evaluation, step)
        seen, survey = self._surveys.pop(stream, (None, None))
        surveyed = None
        if seen is not None and survey is not None:
            counted = quality.counted_by(self._task)
            surveyed = quality.survey_on_card(seen, survey.share, step, counted=counted)
        fits = [self._made(each, measured, surveyed) for each in made]
        state = as_text(self.plan, after)
        admitted = self._admitted.pop(stream, None)
        released = self.store.publish(
            stream,
            step.stop,
            fits,
            state,
            evaluation,
            survey=survey,
            admitted=admitted,
            erasures=self.attempts.erasures,
        )
        self.after_commit()
        return released

    def _made(self, fit: TrainedFit, measured: Card | None, surveyed: Card | None) -> FitToStore:
        release = fit.release(0)  # the store assigns the number
        evaluations = {"step_before": measured, "holdout": self._on_holdout(fit)}
        card = make_card(
            release,
            self.about,
            time=self.clock(),
            evaluation={name: each for name, each in evaluations.items() if each} or None,
            survey=surveyed,
        )
        settings = {SETTINGS: text_digest(self.store.settings())}
        return FitToStore(line=fit.line, weights=fit.weights, card={**card, **settings})

    # --- quality of the releases

    def _evaluation(self, stream: str, step: Span) -> Evaluation | None:
        """How good the newest release is on the step that just arrived, if configured."""
        share, newest = self.config.quality.share, self.store.newest()
        if not share or newest is None:
            return None
        return quality.evaluate(
            newest,
            self._counted(stream, step),
            with_scores=bool(self.config.quality.scores),
            norm=self._task.norm,
            budget=self.plan.budget,
            share=share,
            bits=self._bits(self.progress.streams.index(stream), step.stop, 1),
            rules=self.rules,
        )

    @cached_property
    def holdout(self) -> Records | None:
        """The public records on which releases are tested."""
        source = self.config.holdout()
        if source is None:
            return None
        batches = checked_first(source.batches(None), str(self.config.quality.holdout))
        parts = (self._unpacked(self.intake.records(raw.X, raw.y)) for raw in batches)
        return quality.public_records(self.config.quality.holdout, parts)

    def _on_holdout(self, fit: TrainedFit) -> Card | None:
        if self.holdout is None:
            return None
        predicted = self.config.records.predicted or self._task.groups
        norm, transform = self._task.norm, fit.job.transform
        return quality.on_public(fit.weights, self.holdout, transform, predicted, norm=norm)

    # --- after a commit

    @property
    def published(self) -> Path | None:
        """The publish folder, if one is configured."""
        return None if self.config.publish is None else Path(self.config.publish.folder)

    def after_commit(self) -> None:
        """Publish new releases, and delete records that no future fit can read."""
        if self.published is not None:
            publish_folder.catch_up(self.published, self.store)
        for stream in self.progress.streams:  # a source model can free target records
            self.store.forget(stream, self.progress.needed(stream))


def as_text(plan: Plan | TwoStreamPlan, so_far: Arrived) -> str | None:
    """The state of a two-stream schedule as JSON, counted in records; None for one stream."""
    if isinstance(plan, Plan):
        return None
    return json.dumps(asdict(_mapped(so_far, plan.schedule, Steps.count)))


def _mapped(so_far: Arrived, schedule: TwoStream, by: Callable[[Steps, int], int]) -> Arrived:
    """Convert the two-stream state from steps to records, or back."""
    source, target = schedule.steps["source"], schedule.steps["target"]
    return replace(
        so_far,
        source=by(source, so_far.source),
        target=by(target, so_far.target),
        phase_start=by(target, so_far.phase_start),
    )
