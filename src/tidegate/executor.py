"""The executor: trains the fits of a step in order, then charges and publishes them together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from tidegate.checks import StoppedError, refuse
from tidegate.compute import Engine
from tidegate.features.rows import Rows
from tidegate.learn.fold import Fold
from tidegate.learn.learner import Fitted, Weights
from tidegate.learn.packed import Packing
from tidegate.learn.parts import Parts
from tidegate.learn.persons import Admitted, AdmittedStep, Owned, with_persons
from tidegate.learn.records import Piece, Records, Slots
from tidegate.learn.slot_weights import weighted
from tidegate.learn.trainer import Factors, Read, Trainer
from tidegate.learn.transform import Transform
from tidegate.learn.transformed import transformed
from tidegate.privacy import Line
from tidegate.progress import Progress
from tidegate.release import Release
from tidegate.schedule import SlotWeight, Span
from tidegate.schedule.twostream import Arrived


@dataclass(frozen=True, kw_only=True, eq=False)
class FitJob:
    """A fit to train, with all it needs except the records, so that any process can train it."""

    stream: str
    line: Line
    trainer: Trainer[Any]  # with random bits for this fit
    prior: Weights | None  # the model that the fit is regularized towards
    start: Weights | None  # the model that a descent may start at
    transform: Transform | None = None  # how features are centred and scaled, if surveyed
    admitted: AdmittedStep | None = None  # which slots of the step count, if persons are protected
    packing: Packing | None = None  # how the store's records are packed, if they are

    def train(self, store: "RecordStore", engine: Engine) -> Fitted:
        """Train on the records in a store, with sums from an engine; return a private model."""
        if self.packing is not None:
            store = Unpacked(store, self.packing)
        read = reader(store, self.stream, engine, self.transform, self.admitted)
        return self.trainer.train(self.line, read, self.prior, self.start)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedFit:
    """A fit that is trained, but not yet charged or published."""

    job: FitJob
    fitted: Fitted

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
            transform=self.job.transform,
            fold=self.fitted.fold,
            settings=trainer.settings(self.line, d, self.job.prior),
            private=trainer.bits.private,
            rules=trainer.rules,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Surveyed:
    """What the fits of a step use of the surveys so far."""

    transform: Transform  # how features are centred and scaled
    class_shares: tuple[float, ...]
    stopped: str | None = None  # why the stream stops before its first fit, if it does

    def trainer(self, trainer: Trainer[Any]) -> Trainer[Any]:
        """The trainer for transformed records."""
        task = trainer.task.centred()
        return replace(trainer, task=task, class_shares=self.class_shares)

    def carried(self, weights: Weights, before: Transform | None) -> Weights:
        """An earlier model, for records transformed as in this step."""
        if before is None:
            raise LookupError("an earlier model has no transform")
        return self.transform.carried(weights, before)


Published = TypeVar("Published", covariant=True)


class Runtime(Protocol[Published]):
    """Executes a plan: in memory (`MemoryRun`) or in a store (`DurableRun`)."""

    @property
    def progress(self) -> Progress:
        """How far the plan has been executed."""

    @property
    def packing(self) -> Packing | None:
        """How its store packs records; None if it does not."""

    def turn(self) -> str | None:
        """The stream whose complete step is next to be executed; None if no step is complete."""

    def fit(self, number: int, /) -> Weights:
        """The weights of a fit of an earlier step, bit for bit as trained."""

    def transform(self, number: int, /) -> Transform | None:
        """The transform of a fit of an earlier step; None without surveys."""

    def fold(self, number: int, /) -> Fold:
        """The fold of a fit of an earlier step; without a refit it changes nothing."""

    def admit(self, stream: str, step: Span, /) -> Admitted | None:
        """Decide which slots of a complete step count, if persons are protected.

        It depends on owners alone. `publish` or `stop` stores it, in one transaction with the
        charges; until then nobody sees it, and to ask again gives the same answer.
        """

    def survey(self, stream: str, step: Span, /) -> Surveyed | None:
        """Survey a complete step, if the plan pays for that; `publish` or `stop` charges it.

        It raises StoppedError if the stream was stopped earlier.
        """

    def stop(self, stream: str, step: Span, /) -> None:
        """Charge the survey of a stream's first step and nothing else; refuse all later steps."""

    def trainer(self, number: int, /) -> Trainer[Any]:
        """The trainer of the fit with this number, with random bits for it."""

    def train(self, job: FitJob, /) -> Fitted:
        """Train a fit, perhaps in another process, and return a private model."""

    def publish(
        self, stream: str, step: Span, trained_fits: Sequence[TrainedFit], after: Arrived, /
    ) -> Sequence[Published]:
        """Charge the survey and the fits of a step, and publish releases: all of them or none.

        Args:
            stream: The stream whose step is complete.
            step: The records of the step.
            trained_fits: All fits of the step, in order.
            after: The arrivals of two streams after the step.
        """


def advance(runtime: Runtime[Published]) -> Iterator[Published]:
    """Execute every complete step, and yield each release once it is published."""
    while (stream := runtime.turn()) is not None:
        yield from carry_out(runtime, stream)


@dataclass(frozen=True, kw_only=True, eq=False)
class EarlierModels:
    """The models that the fits of a step build on, for records transformed as in this step."""

    runtime: Runtime[Any]
    surveyed: Surveyed | None
    trained_fits: Mapping[int, TrainedFit]  # in this step

    def prior(self, number: int | None) -> Weights | None:
        """The model of an earlier fit, as it was released."""
        if number is None:
            return None
        if number in self.trained_fits:
            return self.trained_fits[number].weights
        return self._carried(number, self.runtime.fit(number))

    def start(self, number: int | None) -> Weights | None:
        """The model of an earlier fit before its refit: folds must not add up over the fits."""
        if number is None:
            return None
        if number in self.trained_fits:
            return self.trained_fits[number].fitted.fold.out_of(self.trained_fits[number].weights)
        return self._carried(number, self.runtime.fold(number).out_of(self.runtime.fit(number)))

    def _carried(self, number: int, weights: Weights) -> Weights:
        if self.surveyed is None:
            return weights
        return self.surveyed.carried(weights, self.runtime.transform(number))


def carry_out(runtime: Runtime[Published], stream: str) -> Sequence[Published]:
    """Survey a stream's next step, which must be complete; train, charge and publish its fits.

    If the survey says that the records cannot be used, charge it alone and raise StoppedError. Only
    the noisy survey decides that.
    """
    step = runtime.progress.next(stream)
    lines, after = runtime.progress.due(stream)
    admitted, typical = runtime.admit(stream, step), runtime.progress.typical
    if (admitted is None) != (typical is None):  # fail closed
        raise refuse("admitted", "given if and only if persons are protected", shown="otherwise")
    surveyed = runtime.survey(stream, step)
    if surveyed is not None and surveyed.stopped is not None:
        runtime.stop(stream, step)
        raise StoppedError(surveyed.stopped)
    trained_fits: dict[int, TrainedFit] = {}
    earlier = EarlierModels(runtime=runtime, surveyed=surveyed, trained_fits=trained_fits)
    for line in lines:
        trainer = runtime.trainer(line.fit.number)
        if typical is not None:
            trainer = replace(trainer, typical=typical)
        job = FitJob(
            stream=stream,
            line=line,
            trainer=trainer if surveyed is None else surveyed.trainer(trainer),
            prior=earlier.prior(line.fit.prior),
            start=earlier.start(line.fit.start),
            transform=None if surveyed is None else surveyed.transform,
            admitted=None if admitted is None else AdmittedStep(step, admitted),
            packing=runtime.packing,
        )
        trained_fits[line.fit.number] = TrainedFit(job=job, fitted=runtime.train(job))
    return runtime.publish(stream, step, list(trained_fits.values()), after)


class RecordStore(Protocol):
    """Holds the records of the streams."""

    def form(self, stream: str, /) -> Rows | None:
        """An empty array with the stream's schema; None before its first record."""

    def pieces(self, stream: str, span: Span, slots: Slots | None = None, /) -> Sequence[Piece]:
        """The records of a span, or of some of its slots, in pieces that are loaded on demand."""

    def owned(self, stream: str, span: Span, /) -> Owned | None:
        """Whose the slots of a span are, and which count; None if persons are not protected.

        The slots of a step that is not published yet do not count.
        """


@dataclass(frozen=True)
class Unpacked:
    """A store whose packed records become records when they are read."""

    store: RecordStore
    packing: Packing

    def form(self, stream: str, /) -> Rows | None:
        """See `RecordStore`."""
        packed = self.store.form(stream)
        return None if packed is None else self.packing.rows(packed)

    def pieces(self, stream: str, span: Span, slots: Slots | None = None, /) -> Sequence[Piece]:
        """See `RecordStore`."""
        return self.packing.pieces(self.store.pieces(stream, span, slots))

    def owned(self, stream: str, span: Span, /) -> Owned | None:
        """See `RecordStore`."""
        return self.store.owned(stream, span)


def reader(
    store: RecordStore,
    stream: str,
    engine: Engine,
    transform: Transform | None = None,
    admitted: AdmittedStep | None = None,
) -> Read:
    """The function with which fits read the records of a stream, centred and scaled if surveyed.

    Args:
        store: Where the records are.
        stream: Their stream.
        engine: What computes sums over them.
        transform: How features are centred and scaled, if surveyed.
        admitted: Which slots count of a step that is not published yet, if persons are protected.
    """

    def read(
        span: Span,
        slots: Slots | None = None,
        slot_weights: Sequence[SlotWeight] = (),
        factors: Factors | None = None,
        /,
    ) -> Parts[Records]:
        form = store.form(stream)
        if form is None:
            raise LookupError(f"{stream} has no records")
        pieces = weighted(store.pieces(stream, span, slots), slot_weights)
        if transform is not None:
            form = transform.rows(form)
        owned = store.owned(stream, span)
        if owned is not None:
            if slots is not None:
                raise refuse("sample", "None if persons are protected", shown="a sample")
            if admitted is not None:
                owned = owned.with_step(span, admitted)
            weigh = None if factors is None else factors(span.size, form.shape[1])
            pieces = with_persons(pieces, owned, slot_weights, weigh)
        if transform is not None:  # last: it keeps the rows zero that do not count
            pieces = transformed(pieces, transform)
        return engine.parts(pieces, form)

    return read
