"""What `tidegate verify` checks: the state against the plan, and against itself."""

from collections.abc import Iterator
from itertools import zip_longest

from tidegate.gate.export import verify as verify_published
from tidegate.gate.gate import ONLY, Gate
from tidegate.gate.sqlite import RESTORE
from tidegate.gate.store import Problem
from tidegate.plan import Plan
from tidegate.privacy import Line


def verify(gate: Gate) -> Iterator[Problem]:
    """All that is wrong with a state, nothing if it is sound.

    The store checks what it holds: checksums of the segments, the hash chain of the releases. Here
    the plan is recomputed and held against the lines that were charged, the lines are added up, and
    the folder that releases are published to is read.

    Args:
        gate: What to verify; it may be one that only looks.
    """
    yield from gate.store.verify()
    for wanted, found in _lines(gate):
        one = wanted or found
        if one is not None and wanted != found:
            what = f"planned is {_told(wanted)}, charged was {_told(found)}: {RESTORE}"
            yield Problem(where=f"fit {one.fit.number}", what=what)
    for stream, ledger in gate.ledgers().items():
        worst = ledger.worst()
        if worst.share + gate.reserve > 1:
            what = f"record {worst.record} has paid {worst.share}, more than its whole budget"
            yield Problem(where=stream, what=what)
    if gate.config.publish is not None:
        folder = gate.config.publish.folder
        yield from (Problem(where=folder, what=what) for what in verify_published(folder))


def _lines(gate: Gate) -> Iterator[tuple[Line | None, Line | None]]:
    """What the plan says and what was charged, fit by fit.

    The order in which steps of two streams completed is known from the fits alone, so there it is
    the shares that are held against the plan.
    """
    if isinstance(gate.plan, Plan):
        charged = gate.store.lines(ONLY)
        yield from zip_longest(gate.plan.lines(gate.store.done(ONLY)), charged)
        return
    for stream in gate.streams:
        for line in gate.store.lines(stream):
            yield Line(line.fit, gate.plan.share(line.fit)), line


def _told(line: Line | None) -> str:
    if line is None:
        return "nothing"
    return f"{line.share} for records [{line.fit.span.start}, {line.fit.span.stop})"
