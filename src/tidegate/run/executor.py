"""The executor: owns the order of a step, whatever store keeps the records and the models.

A step is carried out in this order: admit, survey, stop, score, fit (and refit), then charge and
publish, all together. Nobody sees anything of it before that.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from tidegate.checks import StoppedError, refuse
from tidegate.data.records import NotPacked, Packing, Parts, Piece, Records, Slots, join
from tidegate.data.rows import Rows
from tidegate.learn.learner import Factors, Fitted, Read, Trainer, Weights
from tidegate.learn.preparation import (
    Moments,
    StepSurvey,
    Surveyed,
    SurveyTerms,
    mostly_nobodys,
    preparation_of,
    stopped_because,
    stops,
    whose,
)
from tidegate.learn.refit import Fold
from tidegate.learn.rules import RULES
from tidegate.learn.slot_weights import Counted, EveryRecord, Ownership, Reading, weighted
from tidegate.learn.transform import Prepared
from tidegate.privacy import Line
from tidegate.privacy.noise import Bits
from tidegate.release import Release
from tidegate.run.engine import Engine
from tidegate.run.settings import Settings
from tidegate.schedule.fit import Arrived, SlotWeight, Span
from tidegate.schedule.progress import Progress


@dataclass(frozen=True, kw_only=True, eq=False)
class FitJob:
    """A fit to train, with all it needs except the records, so that any process can train it."""

    stream: str
    line: Line
    trainer: Trainer[Any]  # with random bits for this fit
    prior: Weights | None  # the model that the fit is regularized towards
    start: Weights | None  # the model that a descent may start at
    # No defaults: rows that a forgotten field leaves as they are could exceed the norm.
    transform: Prepared  # what happens to rows before the fit reads them
    counted: Counted  # which slots of the step count
    packing: Packing | NotPacked  # how the store packs records

    def train(self, store: "RecordStore", engine: Engine) -> Fitted:
        """Train on the records in a store, with sums from an engine; return a private model."""
        read = reader(
            store,
            self.stream,
            engine,
            transform=self.transform,
            counted=self.counted,
            packing=self.packing,
        )
        return self.trainer.train(self.line, read, self.prior, self.start)


class EarlierFit(NamedTuple):
    """What later fits need of a fit."""

    weights: Weights  # bit for bit as trained
    transform: Prepared  # what happened to its rows
    fold: Fold  # without a refit it changes nothing

    def unfolded(self) -> Weights:
        """The model before its refit: folds must not add up over the fits."""
        return self.fold.out_of(self.weights)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedFit:
    """A fit that is trained, but not yet charged or published."""

    job: FitJob
    fitted: Fitted

    @property
    def earlier(self) -> EarlierFit:
        """What later fits need of it."""
        return EarlierFit(self.fitted.weights, self.job.transform, self.fitted.fold)

    @property
    def weights(self) -> Weights:
        """The private weights."""
        return self.fitted.weights

    @property
    def line(self) -> Line:
        """The fit and its share."""
        return self.job.line

    def release(self, number: int) -> Release:
        """Make the release with this number from the fit."""
        trainer, d = self.job.trainer, self.weights.shape[0]
        return Release(
            number=number,
            fit=self.line.fit,
            share=self.line.share,
            budget=trainer.budget,
            weights=self.weights,
            transform=self.job.transform.stated,
            fold=self.fitted.fold,
            settings=trainer.settings(self.line, d, self.job.prior),
            private=trainer.bits.private,
            rules=trainer.rules,
        )


@dataclass(kw_only=True, eq=False)
class StepInProgress:
    """A step that is being carried out. Nobody has seen anything of it.

    Attributes:
        stream: Its stream.
        span: Its records.
        lines: Its fits and their shares.
        after: The arrivals of two streams after it.
        counted: Which of its slots count.
        surveys: Its survey, if steps are surveyed; None before that.
        evaluation: How good the newest release is on its records, if that is measured.
        trained_fits: Its fits that are trained, by their numbers.
        stopped: Why no step follows; empty if steps go on.
    """

    stream: str
    span: Span
    lines: Sequence[Line]
    after: Arrived
    counted: Counted
    surveys: tuple[StepSurvey, ...] | None = None
    evaluation: Any = None
    trained_fits: dict[int, TrainedFit] = field(default_factory=dict)
    stopped: str = ""


Published = TypeVar("Published", covariant=True)


class RecordStore(Protocol):
    """Holds the records of the streams."""

    def form(self, stream: str, /) -> Rows | None:
        """An empty array with the stream's schema; None before its first record."""

    def pieces(self, stream: str, span: Span, slots: Slots | None = None, /) -> Sequence[Piece]:
        """The records of a span, or of some of its slots, in pieces that are loaded on demand."""

    def owned(self, stream: str, span: Span, /) -> Ownership:
        """Whose the slots of a span are, and which count.

        The slots of a step that is not published yet do not count.
        """


class StepStore(RecordStore, Protocol[Published]):
    """Stores what a run makes: in memory, or in a state. It decides nothing that is private."""

    @property
    def progress(self) -> Progress:
        """How far the plan has been carried out."""

    @property
    def advice(self) -> "Advice":
        """What to do about a stream that stops."""

    def turn(self) -> str | None:
        """The stream whose complete step is next; None if no step is complete."""

    def stop_reason(self) -> str:
        """Why no more steps are carried out; empty if they are."""

    def admit(self, stream: str, step: Span, /) -> Counted:
        """Decide which slots of a complete step count, from owners alone.

        `publish` stores it, in one transaction with the charges; until then nobody sees it, and to
        ask again gives the same answer.
        """

    def earlier(self, number: int, /) -> EarlierFit:
        """A fit of an earlier step."""

    def moments(self, stream: str, /) -> Moments | None:
        """The means of the surveys of a stream so far; None before the first."""

    def evaluate(self, read: Callable[[], Records], bits: Bits, rules: int, /) -> Any:
        """How good the newest release is on the records of the next step, if that is measured."""

    def publish(self, step: StepInProgress, /) -> Sequence[Published]:
        """Charge and store a step and publish its releases: all of it or nothing.

        A step that was stopped has no fits: only its survey is charged, and no step follows.
        """


class Advice(NamedTuple):
    """What to do about a stream that stops before its first fit."""

    unusable: str  # if most records cannot be used
    nobodys: str  # if most records have no person


class Run(Generic[Published]):
    """Carries out the plan of some settings, one step after the other.

    An interrupted step was never shown to anybody. What it has decided, surveyed and trained is
    kept, and the next call completes it; see `forget_step`.

    Args:
        settings: What the run is told.
        store: Where it stores what it makes.
    """

    rules: ClassVar[int] = RULES
    """The number of the public rules that new surveys, scores and fits follow."""

    def __init__(self, settings: Settings, store: StepStore[Published]) -> None:
        self.settings, self.plan, self.steps = settings, settings.plan, store
        self.progress = store.progress
        self._step: StepInProgress | None = None
        self._nobodys = ""  # why the first step cannot begin, if it cannot

    def check_going(self) -> None:
        """Raise StoppedError if the run is stopped."""
        if reason := self._nobodys or self.steps.stop_reason():
            raise StoppedError(reason)

    def advance(self) -> Iterator[Published]:
        """Carry out every complete step, and yield each release once it is published."""
        while stream := self.steps.turn():
            yield from self.carry_out(stream)

    def carry_out(self, stream: str) -> Sequence[Published]:
        """Carry out a stream's next step, which must be complete.

        If the survey says that the records cannot be used, charge it alone and raise StoppedError.
        Only the noisy survey decides that.
        """
        step = self._begin(stream)
        surveyed = self.survey(stream, step.span)
        step.stopped = surveyed.stopped
        if step.stopped:
            step.lines, step.after = (), self.progress.arrived()
        else:
            step.evaluation = self.score(stream, step.span)
            self._fit(step, surveyed)
        published = self.steps.publish(step)
        self._step = None
        if step.stopped:  # its survey is charged: only now may anybody see what it says
            raise StoppedError(step.stopped)
        return published

    def forget_step(self) -> None:
        """Begin the step in progress again: nobody has seen anything of it."""
        self._step = None

    def _begin(self, stream: str) -> StepInProgress:
        """The step in progress: that of an interruption, or a new one."""
        span, begun = self.progress.next(stream), self._step
        if not begun or (begun.stream, begun.span) != (stream, span):
            counted = self.admit(stream, span)
            if isinstance(counted, EveryRecord) == self.plan.protects.persons:  # fail closed
                allowed = "given if and only if persons are protected"
                raise refuse("admitted", allowed, shown="otherwise")
            lines, after = self.progress.due(stream)
            begun = StepInProgress(
                stream=stream, span=span, lines=lines, after=after, counted=counted
            )
            self._step = begun
        return begun

    def admit(self, stream: str, step: Span) -> Counted:
        """Decide which slots of a step count; refuse a first step of which most are nobody's."""
        if step.start == 0:
            owners = self.steps.owned(stream, step).owners
            if line := mostly_nobodys(owners, whose(stream)):
                self._nobodys = f"{line}: {self.steps.advice.nobodys}"
        self.check_going()
        return self.steps.admit(stream, step)

    def records(self, stream: str, step: Span) -> Records:
        """The records of the step in progress; each person counts like one record."""
        pieces = [piece.load() for piece in self.steps.pieces(stream, step)]
        return self._begin(stream).counted.once(self.settings.packing.records(join(pieces)))

    def survey(self, stream: str, step: Span) -> Surveyed:
        """Survey a step once, if the plan pays for that; `publish` charges it."""
        begun = self._begin(stream)
        if begun.surveys is None:
            begun.surveys = preparation_of(self.plan.survey).look(
                partial(self.records, stream, step),
                partial(self.steps.moments, stream),
                SurveyTerms(
                    task=self.settings.task,
                    budget=self.plan.budget,
                    persons=self.plan.protects.persons,
                    rules=self.rules,
                ),
                self._bits(stream, step, 2),
            )
        for each in begun.surveys:
            return each.surveyed(stopped=self._stop_before_harm(stream, step, each))
        return Surveyed()

    def _stop_before_harm(self, stream: str, step: Span, seen: StepSurvey) -> str:
        """Why a stream stops whose first survey says that its records cannot be used."""
        if step.start or not stops(seen.survey):
            return ""
        line = stopped_because(seen.survey, seen.share, whose(stream))
        return f"{line}: {self.steps.advice.unusable}"

    def score(self, stream: str, step: Span) -> Any:
        """How good the newest release is on the step that just arrived, if that is measured."""
        if not self.plan.reserve:
            return None
        bits = self._bits(stream, step, 1)
        return self.steps.evaluate(partial(self.records, stream, step), bits, self.rules)

    def _fit(self, step: StepInProgress, surveyed: Surveyed) -> None:
        """Train the fits of a step, each once."""
        trained, prepared = step.trained_fits, surveyed.transform

        def model(number: int | None, of: Callable[[EarlierFit], Weights]) -> Weights | None:
            """The model of an earlier fit, for records that are prepared as in this step."""
            if number is None:
                return None
            if number in trained:
                return of(trained[number].earlier)
            earlier = self.steps.earlier(number)
            return prepared.carried(of(earlier), earlier.transform)

        for line in step.lines:
            if line.fit.number in trained:
                continue
            started = model(line.fit.start, EarlierFit.unfolded)
            first = line.fit.prior is line.fit.start is None
            job = FitJob(
                stream=step.stream,
                line=line,
                trainer=surveyed.trainer(self.trainer(line.fit.number)),
                prior=model(line.fit.prior, attrgetter("weights")),
                start=self.settings.start.model(prepared) if first else started,
                transform=prepared,
                counted=step.counted,
                packing=self.settings.packing,
            )
            fitted = self.train(job)
            fitted.weights.flags.writeable = False
            trained[line.fit.number] = TrainedFit(job=job, fitted=fitted)

    def trainer(self, number: int) -> Trainer[Any]:
        """The trainer of the fit with this number, with random bits for it."""
        return Trainer(
            task=self.settings.task,
            learner=self.settings.learner,
            budget=self.plan.budget,
            bits=self.settings.noise.bits(number),
            protects=self.plan.protects,
            rules=self.rules,
        )

    def train(self, job: FitJob) -> Fitted:
        """Train a fit, and return a private model."""
        return job.train(self.steps, self.settings.engine)

    def _bits(self, stream: str, step: Span, purpose: int) -> Bits:
        """Random bits for the survey (2) or the scores (1) of a step."""
        return self.settings.noise.bits(self.progress.streams.index(stream), step.stop, purpose)


def reader(  # noqa: PLR0913 (all that decides what a fit sees of its records)
    store: RecordStore,
    stream: str,
    engine: Engine,
    *,
    transform: Prepared,
    counted: Counted,
    packing: Packing | NotPacked,
) -> Read:
    """The function with which fits read the records of a stream, prepared for them.

    Args:
        store: Where the records are.
        stream: Their stream.
        engine: What computes sums over them.
        transform: What happens to rows before a fit reads them.
        counted: Which slots count of the step that is not published yet.
        packing: How the store packs records.
    """

    def read(
        span: Span,
        slots: Slots | None = None,
        slot_weights: Sequence[SlotWeight] = (),
        factors: Factors | None = None,
        /,
    ) -> Parts[Records]:
        stored = store.form(stream)
        if stored is None:
            raise LookupError(f"{stream} has no records")
        form = transform.rows(packing.rows(stored))
        pieces: Sequence[Piece] = packing.pieces(store.pieces(stream, span, slots))
        weigh = factors(span.size, form.shape[1]) if factors else None
        reading = Reading(span, slots, slot_weights, weigh)
        owned = store.owned(stream, span)
        weighed = counted.weighed(weighted(pieces, slot_weights), owned, reading)
        return engine.parts(transform.pieces(weighed), form)  # last: rows that do not count stay 0

    return read
