"""The records that a stream still needs, kept in memory."""

from typing import Any

from tidegate.data.records import Records, Slots, chosen, join
from tidegate.data.rows import Rows
from tidegate.schedule import Span


class Held:
    """The records that a stream still needs, kept in memory.

    They are stored in runs of decreasing length. A new run is joined with the runs before it that
    are not longer, so a record is copied once per doubling, however small the batches are.

    >>> from tidegate.data.intake import Intake
    >>> held = Held()
    >>> held.append(Intake(norm=9.0).records([[1.0], [2.0], [3.0]], None))
    >>> held.forget(1)
    >>> held.count, held.read(Span(1, 3)).X.ravel()
    (3, array([2., 3.]))
    """

    def __init__(self) -> None:
        self.first = 0
        self._runs: tuple[tuple[int, Records], ...] = ()  # each with its first slot

    @property
    def count(self) -> int:
        """How many records have arrived, including forgotten ones."""
        if not self._runs:
            return self.first
        start, newest = self._runs[-1]
        return start + newest.n

    @property
    def form(self) -> Rows:
        """An empty array of the stream's width, dtype and kind (dense or sparse)."""
        return self._runs[0][1].form

    def append(self, records: Records) -> None:
        """Add records at the end of the stream."""
        runs = [*self._runs, (self.count, records)]
        while len(runs) > 1 and runs[-2][1].n <= runs[-1][1].n:
            (_, newest), (start, older) = runs.pop(), runs.pop()
            runs.append((start, join([older, newest])))
        self._runs = tuple(runs)  # last, so that an interruption leaves the stream as it was

    def read(self, span: Span, slots: Slots | None = None) -> Records:
        """The records of a span, or some of its slots; those before `first` are forgotten."""
        return join(self.pieces(span, slots))

    def pieces(self, span: Span, slots: Slots | None = None) -> list[Records]:
        """The records that `read` returns, run by run."""
        if not self.first <= span.start < span.stop <= self.count:
            raise LookupError(f"{span} is not in memory, only [{self.first}, {self.count}) is")
        return [
            run.take(chosen(Span(start, start + run.n), span, slots))
            for start, run in self._runs
            if start < span.stop and span.start < start + run.n
        ]

    def forget(self, before: int) -> None:
        """Drop all records before this one; later ones are kept as they arrive."""
        before = min(before, self.count)  # or records to come would count as arrived
        if before > self.first:
            self.first = before
            runs = [(start, run) for start, run in self._runs if start + run.n > before]
            if runs and 2 * (before - runs[0][0]) > runs[0][1].n:  # rarely, to keep it cheap
                runs[0] = (before, runs[0][1].take(slice(before - runs[0][0], None)).copy())
            self._runs = tuple(runs)

    def __getstate__(self) -> dict[str, Any]:
        """The state to pickle, without forgotten records."""
        kept = self.read(Span(self.first, self.count)) if self._runs else None
        return {"first": self.first, "_runs": () if kept is None else ((self.first, kept),)}
