"""The executor: train the fits of a step in order, then charge and publish them together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tidegate.compute import Engine
from tidegate.features.rows import Rows
from tidegate.learn.learner import Weights
from tidegate.learn.parts import Parts
from tidegate.learn.records import Piece, Records, Slots, weighted
from tidegate.learn.trainer import Read, Trainer
from tidegate.privacy import Line
from tidegate.progress import Progress
from tidegate.release import Release
from tidegate.schedule import SlotWeight, Span
from tidegate.schedule.twostream import Arrived


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedFit:
    """A fit that has been trained, and is neither charged nor published yet.

    Attributes:
        line: The fit and what it costs.
        weights: Its model.
        prior: The model that it was drawn to.
        trainer: What has made it.
    """

    line: Line
    weights: Weights
    prior: Weights | None
    trainer: Trainer[Any]

    def release(self, number: int) -> Release:
        """The fit as a release of this number."""
        return Release(
            number=number,
            fit=self.line.fit,
            share=self.line.share,
            budget=self.trainer.budget,
            weights=self.weights,
            settings=self.trainer.settings(self.line, self.weights.shape[0], self.prior),
            private=self.trainer.bits.private,
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

    def train(
        self,
        trainer: Trainer[Any],
        stream: str,
        line: Line,
        prior: Weights | None,
        start: Weights | None,
        /,
    ) -> Weights:
        """The private weights of a fit of a stream; it may run in another process."""

    def publish(
        self, stream: str, step: Span, made: Sequence[TrainedFit], after: Arrived | None, /
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
    """Train all fits of the next step of a stream, then charge and publish them.

    Args:
        runtime: Where models come from and go to.
        stream: One whose next step is complete.
    """
    step = runtime.progress.next(stream)
    lines, after = runtime.progress.due(stream)
    made: dict[int, TrainedFit] = {}

    def model(number: int | None) -> Weights | None:
        if number is None:
            return None
        return made[number].weights if number in made else runtime.fit(number)

    for line in lines:
        prior, start = model(line.fit.prior), model(line.fit.start)
        trainer = runtime.trainer(line.fit.number)
        weights = runtime.train(trainer, stream, line, prior, start)
        made[line.fit.number] = TrainedFit(line=line, weights=weights, prior=prior, trainer=trainer)
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
