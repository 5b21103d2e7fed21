"""Carry out a plan in a store: one transaction for each step's charges, models and cards.

An erasure ends an attempt to carry out a step: a step never mixes old and new content. Attempts and
erasures take turns, first come, first served. An attempt has its turn when it begins, an erasure
from before its commit until the old content is destroyed. So an erasure ends an attempt that runs,
and the step begins again after it. After `RESTARTS` of those the next attempt keeps its turn until
it ends, and erasures wait. Hence no erasure waits for more than one attempt, and no step is
attempted more than RESTARTS + 1 times because of erasures, whatever comes (docs/erasure.md).
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from tidegate.checks import StoppedError, StoreError
from tidegate.data.records import Parts, Piece, Records, Slots
from tidegate.data.rows import Rows
from tidegate.learn.learner import Fitted
from tidegate.learn.preparation import Moments
from tidegate.learn.slot_weights import Counted, Ownership
from tidegate.learn.transform import prepared_on_card
from tidegate.privacy.noise import Bits
from tidegate.release.card import Card, StoredRelease, fold_of, make_card
from tidegate.run.config import Config
from tidegate.run.engine import Engine
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
from tidegate.state.damage import SETTINGS, readable, text_digest
from tidegate.state.protected import protected_by
from tidegate.state.source_loop import holdouts
from tidegate.state.stopped import CORRECT, NOBODYS, stop_in
from tidegate.state.store import ErasedError, Evaluation, FitToStore, Store, StoredSurvey

RESTARTS = 2
"""How often erasures may make a step begin again; the attempt after that keeps them waiting."""

Result = TypeVar("Result")


class Turns:
    """A lock whose next owner is always the thread that has waited longest.

    A plain lock may be taken again and again by the thread that has just released it.

    >>> turns = Turns()
    >>> with turns:
    ...     turns.waiting
    0
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()  # the owner, then those that wait

    @property
    def waiting(self) -> int:
        """How many threads wait."""
        return max(0, len(self._queue) - 1)

    def __enter__(self) -> None:
        mine = object()
        with self._changed:
            self._queue.append(mine)
            try:
                self._changed.wait_for(lambda: self._queue[0] is mine)
            except BaseException:  # interrupted while waiting: let those behind move up
                self._queue.remove(mine)
                self._changed.notify_all()
                raise

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._queue.popleft()
            self._changed.notify_all()


class Attempts:
    """The attempts of one thread to carry out steps; other threads may erase records meanwhile.

    Args:
        store: The store, which counts erasures.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turns = Turns()
        self._ended = threading.Event()  # set while no attempt runs
        self._ended.set()
        self.erasures: int | None = None  # how many there were when the newest attempt began
        self.restarts = 0  # of the step in progress, because of erasures

    def until_done(self, attempt: Callable[[], Result], again: Callable[[], bool]) -> Result:
        """Carry out a step, again from its beginning if records are erased meanwhile.

        Args:
            attempt: Carries the step out. Nobody has seen anything of it if it raises.
            again: Returns whether the step is still to be done, after an attempt that raised.
        """
        while True:
            try:
                with self._one():
                    result = attempt()
                    self.restarts = 0
                    return result
            except StoppedError:
                raise
            except Exception:  # whatever a fit does whose files and workers are gone
                if not self._outdated() or not again():
                    raise
                self.restarts += 1

    @contextmanager
    def _one(self) -> Iterator[None]:
        """Make an attempt, which lasts as long as the context."""
        with ExitStack() as turn:
            turn.enter_context(self._turns)
            self.erasures = self._store.erasures()
            self._ended.clear()
            try:
                if self.restarts < RESTARTS:
                    turn.close()  # otherwise erasures wait until the attempt has ended
                yield
            finally:
                self._ended.set()

    def _outdated(self) -> bool:
        """Whether records were erased since the newest attempt began."""
        try:
            return self._store.erasures() != self.erasures
        except StoreError:  # the store is closed
            return False

    def check(self) -> None:
        """Raise ErasedError if records were erased since the newest attempt began."""
        if self._outdated():
            raise ErasedError("records were erased since this step began: it begins again")

    def erasing(self) -> AbstractContextManager[None]:
        """The turn of an erasure: no attempt begins, and none that keeps its turn runs."""
        return self._turns

    def end_outdated(self, end: Callable[[], object]) -> None:
        """In the turn of an erasure, after its commit: call `end`, and wait until no attempt runs.

        An attempt that `end` comes too early for sees that it is outdated before it trains a fit.
        """
        end()
        self._ended.wait()


@dataclass(frozen=True)
class CheckedEngine:
    """An engine whose fits end at once if their step is outdated by the time they have records.

    A cluster that starts with a fit cannot be ended before it runs, so it is checked after that.
    """

    engine: Engine
    attempts: Attempts

    def parts(self, pieces: Sequence[Piece], form: Rows) -> Parts[Records]:
        """See `Engine`."""
        parts = self.engine.parts(pieces, form)
        self.attempts.check()
        return parts

    def close(self) -> None:
        """See `Engine`."""
        self.engine.close()


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
        return quality.evaluate(newest, read(), self.settings, bits, rules)

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
        evaluations = {"step_before": measured}
        for public in self.holdout:
            model = (fit.weights, fit.job.transform)
            evaluations["holdout"] = quality.on_public(*model, public, self.settings)
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
    def holdout(self) -> list[Records]:
        """The public records on which releases are tested, if the configuration names any."""
        intake, packing = self.settings.intake, self.settings.packing
        name, found = str(self.config.quality.holdout), []
        for source in holdouts(self.config):
            batches = checked_first(source.batches(None), name)
            parts = (packing.records(intake.records(raw.X, raw.y)) for raw in batches)
            found.append(quality.public_records(name, parts))
        return found

    # --- after a commit

    @property
    def published(self) -> list[Path]:
        """The publish folder, if one is configured."""
        return [Path(self.config.publish.folder)] if self.config.publish else []

    def after_commit(self) -> None:
        """Publish new releases, and delete records that no future fit can read."""
        for folder in self.published:
            publish_folder.catch_up(folder, self.store)
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
