"""How far a plan has been carried out, and what comes next: a matter of counts alone, so public."""

from typing import Protocol

from tidegate.plan import Plan, TwoStreamPlan
from tidegate.privacy import Line
from tidegate.schedule import Schedule, Span, Stream
from tidegate.schedule.twostream import Arrived

ONLY = "records"
"""The name of the stream of a schedule that has but one."""


class Counts(Protocol):
    """How far the streams of a plan have come."""

    def count(self, stream: str, /) -> int:
        """How many records of a stream have arrived."""

    def done(self, stream: str, /) -> int:
        """The time up to which all due fits have been carried out."""

    def arrived(self) -> Arrived:
        """What the future of two streams depends on; asked for only where there are two."""


class Progress:
    """Which step of which stream comes next, which fits it makes due and which records they need.

    Args:
        plan: What is carried out.
        counts: How far it has been.

    Attributes:
        streams: The names of the streams.
    """

    def __init__(self, plan: Plan | TwoStreamPlan, counts: Counts) -> None:
        self.streams = ["source", "target"] if isinstance(plan, TwoStreamPlan) else [ONLY]
        self._plan, self._counts = plan, counts

    def step(self, stream: str) -> int:
        """How many records a step of a stream has."""
        if isinstance(self._plan, TwoStreamPlan) and stream == "source":
            return self._plan.schedule.source.step
        return self._plan.schedule.step

    def next(self, stream: str) -> Span:
        """The records of the next step of a stream."""
        done = self._counts.done(stream)
        return Span(done, done + self.step(stream))

    def next_model(self, stream: str) -> int:
        """How many records of a stream there are when it makes its next model, after the first."""
        if isinstance(self._plan, Plan):
            return next(self._plan.schedule.reads(self._counts.done(stream)))
        return self.next(stream).stop

    def complete(self, stream: str) -> bool:
        """Whether the next step of a stream has all its records."""
        return self.next(stream).stop <= self._counts.count(stream)

    def turn(self, stream: str) -> tuple[bool, int]:
        """What decides which of two streams goes first where both have records, the least.

        As if their records had come in turns, one by one; but target steps before the first model
        of the source would be read by no fit, so that comes before all of them.
        """
        early = stream == "target" and self._counts.arrived().model is None
        return early, self.next(stream).stop

    def due(self, stream: str) -> tuple[list[Line], Arrived | None]:
        """The lines of the next step, and what the future of two streams depends on after it."""
        if isinstance(self._plan, Plan):
            return self._plan.due(self.next(stream).stop), None
        return lines_at(self._plan, self._counts.arrived(), stream, self.next(stream).stop)

    def needed(self, stream: str) -> int:
        """The first record of a stream that a fit to come may read."""
        if isinstance(self._plan, Plan):
            return self._plan.schedule.needed(self._counts.done(stream))
        so_far = self._counts.arrived()
        if stream == "source":
            return self._plan.schedule.source.needed(so_far.source)
        return so_far.phase_start

    def cut(self, stream: str) -> int | None:
        """Where records of a stream are forgotten: after any of so many, or never."""
        if isinstance(self._plan, Plan):
            return _forgets_after(self._plan.schedule)
        if stream == "target":
            return self._plan.schedule.step
        return _forgets_after(self._plan.schedule.source)


def _forgets_after(schedule: Schedule) -> int | None:
    """The step of a schedule that forgets; None for one that never does."""
    return schedule.step if schedule.needed(2**32 * schedule.step) else None


def lines_at(
    plan: Plan | TwoStreamPlan, so_far: Arrived, stream: str, at: int
) -> tuple[list[Line], Arrived]:
    """The lines of a step of a stream, and what the future of two streams depends on after it."""
    if isinstance(plan, Plan):
        return plan.due(at), so_far
    name: Stream = "source" if stream == "source" else "target"
    after, fits = plan.schedule.arrive(so_far, name)
    return [Line(fit, plan.share(fit)) for fit in fits], after
