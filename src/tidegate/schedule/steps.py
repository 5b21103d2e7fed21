"""The mapping between the steps of a schedule and records."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidegate.schedule.fit import Fit, RecordFit, SlotWeight, Span

_record_fit: Callable[[tuple[Any, ...]], RecordFit] = partial(tuple.__new__, RecordFit)
"""Faster than calling RecordFit with its 13 arguments, which a plan does for every fit."""


@dataclass(frozen=True)
class Steps:
    """Steps of `size` records each.

    Schedules count in steps; only this class converts between steps and records.

    Args:
        size: Records in a step.

    >>> steps = Steps(1024)
    >>> steps.count(7), steps.complete(8191), steps.step_of(7168)
    (7168, 7, 7)
    >>> steps.records(Span(3, 7)), steps.whole(Span(3072, 7168))
    (Span(start=3072, stop=7168), Span(start=3, stop=7))
    """

    size: int = 1

    def count(self, step: int) -> int:
        """How many records the first `step` steps hold."""
        return step * self.size

    def complete(self, count: int) -> int:
        """How many steps are complete once `count` records have arrived."""
        return count // self.size

    def step_of(self, record: int) -> int:
        """The step that holds a record."""
        return record // self.size

    def records(self, span: Span) -> Span:
        """The records of a span of steps."""
        size = self.size
        return span if size == 1 else Span(span[0] * size, span[1] * size)

    def whole(self, span: Span) -> Span | None:
        """The steps that hold exactly a span of records; None if the span splits a step."""
        size = self.size
        if size == 1:
            return span
        (start, before), (stop, after) = divmod(span[0], size), divmod(span[1], size)
        return None if before or after else Span(start, stop)

    def read(self, sizes: Sequence[float], sample: int) -> int:
        """How many records fits of these sizes in steps read in total, each at most `sample`."""
        return sum(min(round(size * self.size), sample) for size in sizes)

    def fit(self, fit: Fit, power: int = 2) -> RecordFit:
        """Convert a fit from steps to records.

        Args:
            fit: In steps.
            power: The budget's, for fits that weigh slots.

        >>> Steps(10).fit(Fit(1, 5, Span(4, 5), 0, "update", 0, sample=30, behind=(4,)))[7:11]
        (True, None, None, 30)
        """
        number, at, span, prior, role, level, phase, released, cap, stream, behind, start, parts = (
            fit
        )
        size, read = self.size, None
        if size != 1:
            at, span = at * size, self.records(span)
        if behind:
            read = (round(sum(behind) * size) if cap is None else self.read(behind, cap)) or 1
        if cap is not None and cap >= span.size:
            cap = None
        if parts:
            parts = tuple([SlotWeight(self.records(steps), part) for steps, part in parts])
        else:
            power = 2  # as the default: nothing depends on it
        # fmt: off
        return _record_fit((
            number, at, span, prior, role, level, phase, released, cap, stream, read, start, parts,
            power,
        ))
        # fmt: on
