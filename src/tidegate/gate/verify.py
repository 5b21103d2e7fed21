"""What `tidegate verify` checks: the state against the plan, and against itself."""

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from tidegate.gate import export, published
from tidegate.gate.gate import Gate
from tidegate.gate.progress import as_text, lines_at
from tidegate.gate.store import RESTORE, Evaluation, Problem, Step
from tidegate.privacy import Line
from tidegate.schedule import Span
from tidegate.schedule.twostream import Arrived

Told = Callable[[str], object]
"""Told what is being checked."""


def verify(gate: Gate, told: Told = str) -> Iterator[Problem]:
    """All that is wrong with a state, nothing if it is sound.

    The store checks what it holds: checksums of the segments, the hash chain of the releases. Here
    the plan is recomputed from the order in which steps completed and held against the lines that
    were charged, the lines are added up, and the folder that releases are published to is read.
    All is read as of one moment, so that a Gate may go on meanwhile.

    Args:
        gate: What to verify; it may be one that only looks.
        told: Told what is being checked, as that takes its time.
    """
    publish = gate.config.publish
    newest = None if publish is None else export.newest_published(publish.folder)
    with gate.store.snapshot():
        told("records, models and releases")
        yield from gate.store.verify()
        told("the plan, step by step")
        yield from _against_plan(gate)
        told("the ledger")
        for stream, ledger in gate.ledgers().items():
            worst = ledger.worst()
            if worst.share > 1:
                what = f"record {worst.record} has paid {worst.share}, more than its whole budget"
                yield Problem(where=stream, what=what)
        if publish is not None:
            told(f"what is published in {publish.folder}")
            yield from published.problems(Path(publish.folder), newest, gate.store)


def _against_plan(gate: Gate) -> Iterator[Problem]:
    """Where what was done is not what the plan says, given the order in which steps completed."""
    planned = _Planned(gate)
    for wanted, found in zip_longest(planned.lines(gate.store.steps()), gate.store.lines()):
        one = wanted or found
        if one is not None and wanted != found:
            what = f"planned is {_line(wanted)}, charged was {_line(found)}: {RESTORE}"
            yield Problem(where=f"fit {one.fit.number}", what=what)
    yield from planned.problems
    for stream in gate.streams:
        if planned.done[stream] != gate.store.done(stream):
            what = f"steps end at {planned.done[stream]}, not {gate.store.done(stream)}: {RESTORE}"
            yield Problem(where=stream, what=what)
    if gate.store.state() not in (None, as_text(planned.so_far)):
        yield Problem(where=gate.store.database, what=f"does not follow from its steps: {RESTORE}")


class _Planned:
    """What the plan makes of the steps, in the order in which they completed."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._releases = 0
        self.so_far = Arrived()
        self.done = dict.fromkeys(gate.streams, 0)
        self.problems: list[Problem] = []

    def lines(self, steps: Iterable[Step]) -> Iterator[Line]:
        """What each step should have charged; on the way each step itself is checked."""
        for step in steps:
            start = self.done[step.stream]
            span = Span(start, start + self._gate.progress.step(step.stream))
            self._expect(step, "is of records", span, step.span)
            self._expect(step, "has paid for", self._evaluation(), _paid(step.evaluation))
            self.done[step.stream] = step.span.stop
            plan, at = self._gate.plan, step.span.stop
            due, self.so_far = lines_at(plan, self.so_far, step.stream, at)
            for line in due:
                self._releases += line.fit.released
                yield line

    def _evaluation(self) -> str:
        share = self._gate.config.quality.share
        bought = share is not None and self._releases > 0
        return f"{share} for release {self._releases - 1}" if bought else "nothing"

    def _expect(self, step: Step, what: str, wanted: object, found: object) -> None:
        if wanted != found:
            where = f"the step of {step.stream} at {step.span.stop}"
            told = f"{what} {found}, planned is {wanted}: {RESTORE}"
            self.problems.append(Problem(where=where, what=told))


def _paid(evaluation: Evaluation | None) -> str:
    if evaluation is None:
        return "nothing"
    return f"{evaluation.share} for release {evaluation.release}"


def _line(line: Line | None) -> str:
    if line is None:
        return "nothing"
    told = f"{line.share} for records [{line.fit.span.start}, {line.fit.span.stop})"
    if line.fit.emphasis:
        told += f", which count for {', '.join(str(part) for _, part in line.fit.emphasis)}"
    return told
