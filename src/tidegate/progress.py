"""How far a plan has been carried out, and what comes next: a matter of counts alone, so public."""

from typing import Protocol

from tidegate.plan import Plan, TwoStreamPlan
from tidegate.privacy import Line
from tidegate.schedule import Span
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
    """Which step of which stream comes next, which fits it makes due, which records they need."""

    def __init__(self, plan: Plan | TwoStreamPlan, counts: Counts) -> None:
        self._plan, self._counts = plan, counts
        self._first = plan if isinstance(plan, Plan) else plan.source
        self._steps = {ONLY: plan.steps} if isinstance(plan, Plan) else plan.schedule.steps
        self.streams = list(self._steps)

    def step(self, stream: str) -> int:
        """How many records a step of a stream has."""
        return self._steps[stream].size

    def next(self, stream: str) -> Span:
        """The records of the next step of a stream."""
        steps = self._steps[stream]
        done = steps.complete(self._counts.done(stream))
        return steps.records(Span(done, done + 1))

    def next_model(self, stream: str) -> int:
        """How many records of a stream there are when it makes its next model, after the first."""
        if isinstance(self._plan, TwoStreamPlan):
            return self.next(stream).stop
        steps = self._plan.steps
        done = steps.complete(self._counts.done(stream))
        return steps.count(next(self._plan.schedule.reads(done)))

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

    def due(self, stream: str) -> tuple[list[Line], Arrived]:
        """The lines of the next step, and what the future of two streams depends on after it."""
        return lines_at(self._plan, self._counts.arrived(), stream, self.next(stream).stop)

    def needed(self, stream: str) -> int:
        """The first record of a stream that a fit to come may read."""
        if stream == "target":
            return self._steps[stream].count(self._counts.arrived().phase_start)
        return self._first.needed(self._counts.done(stream))

    def cut(self, stream: str) -> int | None:
        """Where records of a stream are forgotten: after any of so many, or never."""
        forgets = stream == "target" or self._first.schedule.look_back is not None
        return self.step(stream) if forgets else None


def lines_at(
    plan: Plan | TwoStreamPlan, so_far: Arrived, stream: str, at: int
) -> tuple[list[Line], Arrived]:
    """The lines of a step of a stream, and what the future of two streams depends on after it."""
    if isinstance(plan, Plan):
        return plan.due(at), so_far
    after, lines = plan.arrive(so_far, "source" if stream == "source" else "target")
    return lines, after
