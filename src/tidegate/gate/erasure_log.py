"""The erasure log: destroys what a state holds of a record or of a person."""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from tidegate.checks import StoreError
from tidegate.gate.erasure import ERASED, Chosen, Erasure, Target, erased
from tidegate.gate.erasure_lines import erasure_of, line_of, rows_of
from tidegate.gate.failpoints import failpoint
from tidegate.gate.record_log import RecordLog
from tidegate.gate.release_log import ReleaseLog
from tidegate.gate.segment_folder import SegmentFolder
from tidegate.gate.state_database import StateDatabase
from tidegate.gate.store import Segment
from tidegate.learn.records import Records

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Rewritten:
    """A segment without the content of some slots."""

    row: Row  # for the table `segments`
    slots: tuple[int, ...]  # of the stream


class ErasureLog(RecordLog, ReleaseLog):
    """Erases slots of the record log, and adds a line for each erasure to the history.

    New files are written before the transaction that names them. Whoever reads after it finds the
    new content. The old files are deleted last: if that is interrupted, the next opening does it.
    """

    def __init__(self, state: StateDatabase, files: SegmentFolder, segment_records: int) -> None:
        RecordLog.__init__(self, state, files, segment_records)
        ReleaseLog.__init__(self, state)
        self._one_at_a_time = threading.Lock()

    def erase(
        self, target: Target, *, time: datetime, end_fits: Callable[[], object] = int
    ) -> Erasure:
        """Destroy what is held of a record or of a person; the slots stay, as unusable ones.

        Everything is covered that was appended before. Call it only once the database is known to
        be the newest, see `sweep`.

        Args:
            target: What to erase.
            time: The time for its line.
            end_fits: Called after the commit, before the old files are deleted; returns when no fit
                reads them.
        """
        with self._one_at_a_time:
            self._state.held_lock()
            ready: dict[str, Rewritten | None] = {}  # by the name of the old file
            try:
                self._prepare(target, ready)
                with self._state.transaction("erase"):
                    line, gone = self._replace(target, ready, time)
            except BaseException:
                if self._state.lock is not None:  # rolled back: no row names the new files
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
            return erasure_of(line)

    def erased(self) -> list[Erasure]:
        """All erasures, in order."""
        with self._state.explained():
            return [erasure_of(row) for row in rows_of(self._db)]

    def _prepare(self, target: Target, ready: dict[str, Rewritten | None]) -> None:
        """Write the new files beside the old ones, without keeping others from the database."""
        for segment in self._touched(target):
            if segment.file is None:
                continue
            try:
                some = self._chosen(target, segment)
            except StoreError:
                if segment not in self.held():  # it was forgotten meanwhile
                    continue
                raise
            ready[segment.file] = None if some is None else self._rewrite(segment, *some)
        if any(ready.values()):
            with self._state.explained():
                self._files.sync()

    def _replace(
        self, target: Target, ready: dict[str, Rewritten | None], time: datetime
    ) -> tuple[Row, list[str]]:
        """Within the transaction, put new segments in place; return the line and the old files."""
        lines: list[Row] = []
        gone: list[str] = []
        written = False
        for segment in self._touched(target):
            if segment.file in ready:
                new = ready[segment.file]
            else:  # it waits in the database, or arrived just now
                some = self._chosen(target, segment)
                new = None if some is None else self._rewrite(segment, *some)
                ready[segment.file or f"{segment.stream} {segment.span.start}"] = new
                written |= new is not None and segment.file is not None
            if new is None:
                continue
            stream, span = segment.stream, segment.span
            self._state.delete("segments", "stream = ? AND start = ?", stream, span.start)
            self._state.insert("segments", [new.row])
            self._mark(stream, new.slots)
            lines.append((stream, *span, new.row[4], len(new.slots)))
            gone += [] if segment.file is None else [segment.file]
        if written:
            self._files.sync()
        lines += self._forgotten(target)
        line = line_of(self._db, self._history(), target.kind, time, lines)
        self._state.insert("erasures", [line])
        return line, gone

    def _touched(self, target: Target) -> list[Segment]:
        return [each for each in self.held() if target.touches(each.stream, each.span)]

    def _chosen(self, target: Target, segment: Segment) -> tuple[Records, Chosen] | None:
        """A segment and its slots that are to be erased now; None if there are none."""
        (piece,) = self.pieces(segment.stream, segment.span)
        records = piece.load()
        slots = target.chosen(segment.span, records)
        if slots.any():
            slots[self.marked(segment.stream, segment.span) - segment.span.start] = False
        return (records, slots) if slots.any() else None

    def _rewrite(self, segment: Segment, records: Records, slots: Chosen) -> Rewritten:
        stream, span = segment.stream, segment.span
        few = span.size + 1 if segment.file is None else 0  # it stays where it is
        stored = self._written(f"{stream}-{span.start}", erased(records, slots), few)
        erased_slots = tuple((np.flatnonzero(slots) + span.start).tolist())
        return Rewritten((stream, *span, *stored), erased_slots)

    def _mark(self, stream: str, slots: Iterable[int]) -> None:
        """Note in the quarantine that slots were erased; delete what it says about them.

        Rows only get shorter, or are added at the end, see `SqliteDatabase`.
        """
        for slot in slots:
            old = self._state.rows("quarantine", "stream = ? AND slot = ?", stream, slot)
            new = (stream, slot, ERASED, None)
            if not old:
                self._state.insert("quarantine", [new])
                continue
            self._state.sums.remove("quarantine", old)
            self._state.sums.add("quarantine", [new])
            self._db.execute(
                "UPDATE quarantine SET reason = ?, payload = NULL WHERE stream = ? AND slot = ?",
                (ERASED, stream, slot),
            )

    def _forgotten(self, target: Target) -> list[Row]:
        """Erase what the quarantine says about a record that is not held any more."""
        if target.slot is None:
            return []
        stream, slot = target.slot
        old = self._state.rows("quarantine", "stream = ? AND slot = ?", stream, slot)
        if not old or old[0][2] == ERASED:
            return []
        self._mark(stream, [slot])
        return [(stream, slot, slot + 1, None, 1)]

    def _delete(self, files: Iterable[str]) -> None:
        with suppress(OSError):  # the next opening deletes them
            for file in files:
                self._files.delete(file)


def _new_files(ready: dict[str, Rewritten | None]) -> list[str]:
    return [new.row[5] for new in ready.values() if new is not None and new.row[5]]
