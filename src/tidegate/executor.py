"""The executor: train the fits of a step in order, then charge and publish them together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tidegate.compute import Engine
from tidegate.features.rows import Rows
from tidegate.learn.learner import Weights
from tidegate.learn.parts import Parts
from tidegate.learn.records import Piece, Records, Slots
from tidegate.learn.slot_weights import weighted
from tidegate.learn.trainer import Read, Trainer
from tidegate.privacy import Line
from tidegate.progress import Progress
from tidegate.release import Release
from tidegate.schedule import SlotWeight, Span
from tidegate.schedule.twostream import Arrived


@dataclass(frozen=True, kw_only=True, eq=False)
class FitJob:
    """A fit to be trained; all that it takes but the records, so that any process can do it."""

    stream: str
    line: Line
    trainer: Trainer[Any]  # with the bits that are the fit's own
    prior: Weights | None  # the model that it is drawn to
    start: Weights | None  # the model that a descent may start at

    def train(self, store: "RecordStore", engine: Engine) -> Weights:
        """The private weights, from the records in a store as an engine sums them up."""
        read = reader(store, self.stream, engine)
        return self.trainer.train(self.line, read, self.prior, self.start)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedFit:
    """A fit that has been trained, and is neither charged nor published yet."""

    job: FitJob
    weights: Weights

    @property
    def line(self) -> Line:
        """The fit and what it costs."""
        return self.job.line

    def release(self, number: int) -> Release:
        """The fit as a release of this number."""
        trainer, d = self.job.trainer, self.weights.shape[0]
        return Release(
            number=number,
            fit=self.line.fit,
            share=self.line.share,
            budget=trainer.budget,
            weights=self.weights,
            settings=trainer.settings(self.line, d, self.job.prior),
            private=trainer.bits.private,
        )


Published = TypeVar("Published", covariant=True)


class Runtime(Protocol[Published]):
    """What carries out a plan: in memory (`MemoryRun`) or in a store (`DurableRun`)."""

    @property
    def progress(self) -> Progress:
        """How far the plan has been carried out."""

    def turn(self) -> str | None:
        """The stream whose next step is complete and comes first, None if none is."""

    def fit(self, number: int, /) -> Weights:
        """The model of a fit of an earlier step, bit for bit as it was made."""

    def trainer(self, number: int, /) -> Trainer[Any]:
        """What makes the fit of this number, with the bits that are its own."""

    def train(self, job: FitJob, /) -> Weights:
        """The private weights of a fit; another process may compute them."""

    def publish(
        self, stream: str, step: Span, made: Sequence[TrainedFit], after: Arrived, /
    ) -> Sequence[Published]:
        """Charge the fits of a step and publish those to be released: all of them or none.

        Args:
            stream: The stream whose step is complete.
            step: Its records.
            made: All fits that it makes due, in order.
            after: What the future of two streams depends on from now on.
        """


def advance(runtime: Runtime[Published]) -> Iterator[Published]:
    """Carry out every complete step; each release is handed out once it is published."""
    while (stream := runtime.turn()) is not None:
        yield from carry_out(runtime, stream)


def carry_out(runtime: Runtime[Published], stream: str) -> Sequence[Published]:
    """Train all fits of the next step of a stream, which is complete; charge and publish them."""
    step = runtime.progress.next(stream)
    lines, after = runtime.progress.due(stream)
    made: dict[int, TrainedFit] = {}

    def model(number: int | None) -> Weights | None:
        if number is None:
            return None
        return made[number].weights if number in made else runtime.fit(number)

    for line in lines:
        job = FitJob(
            stream=stream,
            line=line,
            trainer=runtime.trainer(line.fit.number),
            prior=model(line.fit.prior),
            start=model(line.fit.start),
        )
        made[line.fit.number] = TrainedFit(job=job, weights=runtime.train(job))
    return runtime.publish(stream, step, list(made.values()), after)


class RecordStore(Protocol):
    """Where the records of the streams are."""

    def form(self, stream: str, /) -> Rows | None:
        """An empty array with the stream's schema; None before its first record."""

    def pieces(self, stream: str, span: Span, slots: Slots | None = None, /) -> Sequence[Piece]:
        """The records of a span, or some of its slots, to be loaded piece by piece."""


def reader(store: RecordStore, stream: str, engine: Engine) -> Read:
    """How the fits of a stream read its records."""

    def read(
        span: Span, slots: Slots | None = None, slot_weights: Sequence[SlotWeight] = (), /
    ) -> Parts[Records]:
        form = store.form(stream)
        if form is None:
            raise LookupError(f"{stream} has no records")
        return engine.parts(weighted(store.pieces(stream, span, slots), slot_weights), form)

    return read
