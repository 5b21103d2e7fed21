"""Carry out a plan in a store: one transaction for each step's charges, models and cards."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from tidegate.data.records import Piece, Records, Slots
from tidegate.data.rows import Rows
from tidegate.learn.learner import Fitted
from tidegate.learn.preparation import Moments
from tidegate.learn.slot_weights import Counted, Ownership
from tidegate.learn.transform import prepared_on_card
from tidegate.privacy.noise import Bits
from tidegate.release import Card, StoredRelease, make_card
from tidegate.release.card import fold_of
from tidegate.run.config import Config
from tidegate.run.executor import (
    Advice,
    EarlierFit,
    FitJob,
    Run,
    StepInProgress,
    TrainedFit,
)
from tidegate.schedule import Span
from tidegate.schedule.fit import Arrived
from tidegate.sources.source import checked_first
from tidegate.state import publish_folder, quality
from tidegate.state.attempts import Attempts
from tidegate.state.damage import readable
from tidegate.state.integrity import SETTINGS, text_digest
from tidegate.state.protected import protected_by
from tidegate.state.stopped import CORRECT, NOBODYS, stop_in
from tidegate.state.store import Evaluation, FitToStore, Store, StoredSurvey

Clock = Callable[[], datetime]


def now() -> datetime:
    """The current time in UTC, for cards."""
    return datetime.now(UTC)


class StateSteps:
    """The steps of a run whose records, charges and models are kept in a state.

    A step's charges, models and cards are stored in one transaction.

    Args:
        store: The state.
        config: Its configuration.
        clock: Returns the time, for cards.
    """

    advice = Advice(unusable=CORRECT, nobodys=NOBODYS)

    def __init__(self, store: Store, config: Config, clock: Clock) -> None:
        self.store, self.config, self.settings = store, config, config.settings
        self.plan, self.clock = self.settings.plan, clock
        self.progress = self.settings.progress(self)
        self.attempts = Attempts(store)
        self.protected = protected_by(store, config)

    # --- records

    def form(self, stream: str, /) -> Rows | None:
        """See `RecordStore`."""
        return self.store.form(stream)

    def pieces(self, stream: str, span: Span, slots: Slots | None = None, /) -> Sequence[Piece]:
        """See `RecordStore`."""
        return self.store.pieces(stream, span, slots)

    def owned(self, stream: str, span: Span, /) -> Ownership:
        """See `RecordStore`."""
        return self.store.owned(stream, span)

    # --- progress

    def count(self, stream: str, /) -> int:
        """The number of records of a stream that have arrived."""
        return self.store.count(stream)

    def done(self, stream: str, /) -> int:
        """The record count up to which all due fits of a stream have been carried out."""
        return self.store.done(stream)

    def arrived(self) -> Arrived:
        """The state of the two-stream schedule so far."""
        with readable("the two-stream state in the database"):
            return Arrived.of_text(self.store.state(), self.plan.streams)

    def turn(self) -> str | None:
        """The next stream with a complete step, as if records arrived alternately; None if none."""
        ready = filter(self.progress.complete, self.progress.streams)
        return min(ready, key=self.progress.turn, default=None)

    def stop_reason(self) -> str:
        """See `StepStore`."""
        stop = stop_in(self.store, self.config)
        return "" if stop is None else stop.message

    # --- steps

    def admit(self, stream: str, step: Span, /) -> Counted:
        """See `StepStore`."""
        return self.protected.admit(stream, step)

    def earlier(self, number: int, /) -> EarlierFit:
        """See `StepStore`."""
        weights = self.store.fit(number)
        with readable(f"the card of fit {number}"):
            card = self.store.card(number)
            return EarlierFit(weights, prepared_on_card(card), fold_of(card))

    def moments(self, stream: str, /) -> Moments | None:
        """See `StepStore`."""
        stored = self.store.survey(stream)
        return None if stored is None else stored.means(self.settings.task.groups)

    def evaluate(self, read: Callable[[], Records], bits: Bits, rules: int, /) -> Evaluation | None:
        """See `StepStore`."""
        newest = self.store.newest()
        if newest is None:
            return None
        return quality.evaluate(
            newest,
            read(),
            with_scores=self.settings.scores,
            norm=self.settings.task.norm,
            budget=self.plan.budget,
            share=self.plan.reserve,
            bits=bits,
            rules=rules,
        )

    def publish(self, step: StepInProgress, /) -> list[StoredRelease]:
        """Charge, store and release the fits of a step in one transaction."""
        evaluation: Evaluation | None = step.evaluation
        measured = None if evaluation is None else quality.on_card(evaluation, step.span)
        surveyed, stored = None, None
        for each in step.surveys or ():
            stored = StoredSurvey.of(each.survey, each.moments, each.share)
            surveyed = quality.survey_on_card(
                each.survey, each.share, step.span, counted=self.settings.about.predicted.counted
            )
        released = self.store.publish(
            step.stream,
            step.span.stop,
            [self._made(each, measured, surveyed) for each in step.trained_fits.values()],
            step.after.as_text(self.plan.streams),
            evaluation,
            survey=stored,
            counted=step.counted,
            erasures=self.attempts.erasures,
        )
        self.after_commit()
        return released

    def _made(self, fit: TrainedFit, measured: Card | None, surveyed: Card | None) -> FitToStore:
        release = fit.release(0)  # the store assigns the number
        evaluations = {"step_before": measured, "holdout": self._on_holdout(fit)}
        card = make_card(
            release,
            self.settings.about,
            time=self.clock(),
            evaluation={name: each for name, each in evaluations.items() if each} or None,
            survey=surveyed,
        )
        settings = {SETTINGS: text_digest(self.store.settings())}
        return FitToStore(line=fit.line, weights=fit.weights, card={**card, **settings})

    # --- quality on public records

    @cached_property
    def holdout(self) -> Records | None:
        """The public records on which releases are tested."""
        source = self.config.holdout()
        if source is None:
            return None
        batches = checked_first(source.batches(None), str(self.config.quality.holdout))
        intake, packing = self.settings.intake, self.settings.packing
        parts = (packing.records(intake.records(raw.X, raw.y)) for raw in batches)
        return quality.public_records(self.config.quality.holdout, parts)

    def _on_holdout(self, fit: TrainedFit) -> Card | None:
        if self.holdout is None:
            return None
        predicted, norm = self.settings.intake.predicted, self.settings.task.norm
        transform = fit.job.transform
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


class DurableRun(Run[StoredRelease]):
    """A run whose steps begin again if records are erased while they are carried out.

    Args:
        steps: What it stores.
        train: Computes a fit, in this process or another.
    """

    steps: StateSteps

    def __init__(self, steps: StateSteps, train: Callable[[FitJob], Fitted]) -> None:
        super().__init__(steps.settings, steps)
        self.store, self.attempts, self._train = steps.store, steps.attempts, train

    def carry_out(self, stream: str) -> Sequence[StoredRelease]:
        """Carry out a stream's next step, which must be complete; see `Run.carry_out`.

        If records are erased meanwhile, it is carried out again from its beginning: nobody has seen
        anything of it, and nothing was charged.
        """
        step, once = self.progress.next(stream), super().carry_out

        def attempt() -> Sequence[StoredRelease]:
            try:
                return once(stream)
            finally:
                self.forget_step()

        return self.attempts.until_done(attempt, lambda: self.progress.next(stream) == step)

    def train(self, job: FitJob) -> Fitted:
        """Train a fit, unless records were erased since its step began."""
        self.attempts.check()
        return self._train(job)
