"""How far a plan has been executed and what comes next; both depend on public counts only."""

from typing import Protocol

from tidegate.privacy import Line
from tidegate.schedule import Span
from tidegate.schedule.fit import Arrived
from tidegate.schedule.plan import ONLY, AnyPlan

__all__ = ["BEHIND", "ONLY", "Counts", "Progress"]

BEHIND = 2
"""This many complete steps that wait mean that training is behind; one waits while it is made."""


class ByCounts:
    """Steps end when all of their records have arrived."""

    def ended(self, step: Span, arrived: int) -> bool:
        """Whether a step has ended, once so many records of its stream have arrived."""
        return step.stop <= arrived


class WithRecords:
    """Labels come with their records: there is nothing to wait for."""

    def known(self, stream: str, step: Span) -> bool:
        """Whether the labels of a step that has ended are known, as far as they ever will."""
        del stream, step
        return True


BY_COUNTS, WITH_RECORDS = ByCounts(), WithRecords()


class Counts(Protocol):
    """How many records of each stream have arrived, and how many steps are done."""

    def count(self, stream: str, /) -> int:
        """How many records of a stream have arrived."""

    def done(self, stream: str, /) -> int:
        """The number of records up to which all fits are done."""

    def arrived(self) -> Arrived:
        """The arrivals of two streams, which decide their next fits; used only if there are two."""


class Progress:
    """Computes the next step of each stream, the fits that are due then and what they read."""

    def __init__(
        self,
        plan: AnyPlan,
        counts: Counts,
        ends: ByCounts = BY_COUNTS,
        labels: WithRecords = WITH_RECORDS,
    ) -> None:
        self._plan, self._counts, self._steps = plan, counts, plan.streams
        self._ends, self._labels = ends, labels
        self.streams = list(self._steps)

    def arrived(self) -> Arrived:
        """The arrivals of two streams so far."""
        return self._counts.arrived()

    def step(self, stream: str) -> int:
        """How many records a step of a stream has."""
        return self._steps[stream].size

    def next(self, stream: str) -> Span:
        """The records of the next step of a stream."""
        steps = self._steps[stream]
        done = steps.complete(self._counts.done(stream))
        return steps.records(Span(done, done + 1))

    def complete_steps(self, stream: str) -> int:
        """How many steps of a stream are done."""
        return self._steps[stream].complete(self._counts.done(stream))

    def number(self, stream: str, step: Span) -> int:
        """The number of a step of a stream, counted from 0."""
        return self._steps[stream].complete(step.start)

    def next_model(self, stream: str) -> int:
        """How many records of a stream have arrived when its next model is made."""
        return self._plan.next_model(stream, self._counts.done(stream))

    def complete(self, stream: str) -> bool:
        """Whether a stream's next step has ended, and its labels are known."""
        step = self.next(stream)
        ended = self._ends.ended(step, self._counts.count(stream))
        return ended and self._labels.known(stream, step)

    def steps_waiting(self, stream: str) -> int:
        """How many steps of a stream are complete and not done; one of them may be in progress."""
        steps, counts = self._steps[stream], self._counts
        return steps.complete(counts.count(stream)) - steps.complete(counts.done(stream))

    def turn(self, stream: str) -> tuple[bool, int]:
        """The order of two streams that both have complete steps: the smallest key goes first.

        It is as if their records had arrived alternately, one by one. But no fit could read target
        steps before the first source model, so that model comes first.
        """
        early = stream == "target" and self._counts.arrived().model is None
        return early, self.next(stream).stop

    def due(self, stream: str) -> tuple[list[Line], Arrived]:
        """The lines of the next step, and the arrivals of two streams after it."""
        return self._plan.step_lines(self._counts.arrived(), stream, self.next(stream).stop)

    def needed(self, stream: str) -> int:
        """The first record of a stream that a later fit or survey may read."""
        if stream == "target":
            return self._steps[stream].count(self._counts.arrived().phase_start)
        return self._plan.source.needed(self._counts.done(stream))

    def cut(self, stream: str) -> int | None:
        """Records of a stream are forgotten in multiples of this number; None if never."""
        forgets = stream == "target" or bool(self._plan.source.schedule.look_back)
        return self.step(stream) if forgets else None
