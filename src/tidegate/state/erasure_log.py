"""The erasure log: destroys what a state holds of a record or of a person."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from tidegate.checks import StoreError, nothing
from tidegate.failpoints import failpoint
from tidegate.state.erasure import (
    ERASED,
    Chosen,
    Erasure,
    Target,
    erased,
    erasure_of,
    line_of,
    rows_of,
)
from tidegate.state.record_log import RecordLog
from tidegate.state.release_log import ReleaseLog
from tidegate.state.store import Segment

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Rewritten:
    """A segment without the content of some slots."""

    row: Row  # for the table `segments`
    slots: tuple[int, ...]  # of the stream
    counts: Mapping[int, int]  # how many of the slots each target erases, by its index


UNCHANGED = Rewritten((), (), {})
"""A segment none of whose slots are to be erased: it stays as it is."""

Ready = dict[str, Rewritten]
"""Segments written again, by the names of the old files."""


class ErasureLog(RecordLog, ReleaseLog):
    """Erases slots of the record log, and adds a line for each erasure to the history.

    New files are written before the transaction that names them. Whoever reads after it finds the
    new content. The old files are deleted last: if that is interrupted, the next opening does it.
    """

    _one_erasure: threading.Lock  # at a time

    def erase(
        self,
        targets: Sequence[Target],
        *,
        time: datetime,
        end_fits: Callable[[], object] = nothing,
    ) -> list[Erasure]:
        """Destroy what is held of records or persons; the slots stay, as unusable ones.

        Everything is covered that was appended before. A segment is written again once, however
        many targets it has. Call it only once the database is known to be the newest, see `sweep`.

        Args:
            targets: What to erase, in one transaction.
            time: The time for the lines.
            end_fits: Called after the commit, before the old files are deleted; returns when no fit
                reads them.

        Returns:
            An erasure for each target, in the same order.
        """
        with self._one_erasure:
            self._state.check_writable()
            ready: Ready = {}
            try:
                self._prepare(targets, ready)
                with self._state.transaction("erase"):
                    lines, gone = self._replace(targets, ready, time)
            except BaseException:
                if self._state.lock.held:  # rolled back: no row names the new files
                    self._delete(_new_files(ready))
                raise
            end_fits()
            with self._state.explained():
                for file in gone:
                    failpoint("erase.unlink")
                    self._files.delete(file)
                    self._sound.discard(file)
                failpoint("erase.scrub")
                self.sweep()  # also what an interrupted erasure left behind
                self._state.scrubbing.scrub(now=True)
            return list(map(erasure_of, lines))

    def erased(self) -> list[Erasure]:
        """All erasures, in order."""
        with self._state.explained():
            return [erasure_of(row) for row in rows_of(self._db)]

    def _prepare(self, targets: Sequence[Target], ready: Ready) -> None:
        """Write the new files beside the old ones, without keeping others from the database."""
        for segment in self._touched(targets):
            if not segment.file:
                continue
            try:
                ready[segment.file] = self._rewritten(targets, segment)
            except StoreError:
                if segment in self.held():  # else it was forgotten meanwhile
                    raise
        if _new_files(ready):
            with self._state.explained():
                self._files.sync()

    def _replace(
        self, targets: Sequence[Target], ready: Ready, time: datetime
    ) -> tuple[list[Row], list[str]]:
        """Within the transaction, put new segments in place; return the lines and the old files."""
        segments: list[tuple[Segment, Rewritten]] = []
        written = False
        for segment in self._touched(targets):
            if segment.file in ready:
                new = ready[segment.file]
            else:  # it waits in the database, or arrived just now
                new = self._rewritten(targets, segment)
                ready[segment.file or f"{segment.stream} {segment.span.start}"] = new
                written |= bool(new.slots and segment.file)
            if not new.slots:
                continue
            stream, start = segment.stream, segment.span.start
            self._state.delete("segments", "stream = ? AND start = ?", stream, start)
            self._state.insert("segments", [new.row])
            self._mark(stream, new.slots)
            segments.append((segment, new))
        if written:
            self._files.sync()
        lines: list[Row] = []
        for index, target in enumerate(targets):
            erased_in = [
                (segment.stream, *segment.span, new.row[4], new.counts[index])
                for segment, new in segments
                if index in new.counts
            ]
            history = lines[-1][-1] if lines else self._history()
            erased_in += self._forgotten(target)
            lines.append(line_of(self._state, history, target.kind, time, erased_in))
            self._state.insert("erasures", lines[-1:])
        return lines, [segment.file for segment, _ in segments if segment.file]

    def _touched(self, targets: Sequence[Target]) -> list[Segment]:
        return [
            segment
            for segment in self.held()
            if any(each.touches(segment.stream, segment.span) for each in targets)
        ]

    def _rewritten(self, targets: Sequence[Target], segment: Segment) -> Rewritten:
        """A segment without the slots that are to be erased now."""
        stream, span = segment.stream, segment.span
        (piece,) = self.pieces(stream, span)
        records = piece.load()
        before: Chosen = np.zeros(records.n, np.bool_)
        before[self.marked(stream, span) - span.start] = True
        gone, counts = before.copy(), dict[int, int]()
        for index, target in enumerate(targets):
            if target.touches(stream, span):
                more = target.chosen(span, records) & ~gone
                gone |= more
                counts[index] = int(more.sum())
        gone &= ~before
        if not gone.any():
            return UNCHANGED
        few = 0 if segment.file else span.size + 1  # it stays where it is
        stored = self._written(f"{stream}-{span.start}", erased(records, gone), few)
        slots = tuple((np.flatnonzero(gone) + span.start).tolist())
        counts = {index: count for index, count in counts.items() if count}
        return Rewritten((stream, *span, *stored), slots, counts)

    def _mark(self, stream: str, slots: Iterable[int]) -> None:
        """Note in the quarantine that slots were erased; delete what it says about them.

        Rows only get shorter, or are added at the end, see `SqliteDatabase`.
        """
        for slot in slots:
            where = ("stream = ? AND slot = ?", stream, slot)
            if not self._state.update("quarantine", *where, reason=ERASED, payload=None):
                self._state.insert("quarantine", [(stream, slot, ERASED, None)])

    def _forgotten(self, target: Target) -> list[Row]:
        """Erase what the quarantine says about a record that is not held any more."""
        where = "stream = ? AND slot = ? AND reason != ?"
        held = [
            (stream, slot)
            for stream, slot in target.slots
            if self._state.rows("quarantine", where, stream, slot, ERASED)
        ]
        for stream, slot in held:
            self._mark(stream, [slot])
        return [(stream, slot, slot + 1, None, 1) for stream, slot in held]

    def _delete(self, files: Iterable[str]) -> None:
        with suppress(OSError):  # the next opening deletes them
            for file in files:
                self._files.delete(file)


def _new_files(ready: Ready) -> list[str]:
    return [new.row[5] for new in ready.values() if new.slots and new.row[5]]
