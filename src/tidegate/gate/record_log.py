"""The record log: records in files and in the database, where they came from, and their end."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np

from tidegate.checks import StoreError, refuse
from tidegate.compute.cuts import power_of_two
from tidegate.features.rows import Rows
from tidegate.gate import segments
from tidegate.gate.failpoints import failpoint
from tidegate.gate.segment_folder import SegmentFolder
from tidegate.gate.state_database import StateDatabase
from tidegate.gate.store import DAMAGED, Batch, Quarantined, Segment, readable
from tidegate.learn.records import Piece, Records, Slots, chosen, join
from tidegate.schedule import Span

KEEP_OFFSET = """
INSERT INTO offsets VALUES (?, ?, ?, ?, ?) ON CONFLICT (source) DO UPDATE
SET stream = excluded.stream, records = excluded.records, place = excluded.place,
seal = excluded.seal
"""

SEGMENT_BYTES = 2**24
"""Bytes of dense rows that a file has at most, and that wait in the database at most."""

LONGEST_KEY = 1000
"""Bytes in the name of a batch: a database's index has no room for more than a few thousand."""


class RecordLog:
    """All records of a state that are still held, and those that could not be used.

    Records are in files, but for a few: those of a file that is not complete wait in the database,
    and what would be a tiny file stays there. Where files end depends on how many records there
    are, never on the batches they came in.

    Args:
        segment_records: The most records in a file; wide rows have fewer, see `segment_slots`. A
            file of less than 1/1024 of it is tiny.
    """

    def __init__(self, state: StateDatabase, files: SegmentFolder, segment_records: int) -> None:
        self._state, self._db, self._files = state, state.db, files
        self._most = segment_records
        self._few = max(1, segment_records // 1024)
        self._sound: set[str] = set()  # files whose checksum has been verified

    def form(self, stream: str) -> Rows | None:
        """No rows, but of the width, dtype and kind that all of a stream have; None before them."""
        row = self._state.one("SELECT kind FROM streams WHERE stream = ?", stream)
        with readable(f"the kind of {stream}"):
            return None if row is None else segments.form(row[0])

    def count(self, stream: str) -> int:
        """How many records of the stream are durable."""
        return self._state.of_stream("count", stream)

    def offset(self, source: str) -> str | None:
        """How far a source has been read; None if never."""
        row = self._state.one("SELECT place, seal FROM offsets WHERE source = ?", source)
        with readable(f"the offset of {source}"):
            sound = row is None or row[1] == segments.checksum(row[0].encode())
        if not sound:
            raise StoreError(f"{self._db.where} {DAMAGED}")
        return None if row is None else str(row[0])

    def sources(self) -> list[str]:
        """The names of all sources that have been read."""
        with self._state.explained():
            rows = self._db.execute("SELECT source FROM offsets ORDER BY source").fetchall()
        return [str(source) for (source,) in rows]

    def append(self, batch: Batch) -> int:
        """Add records, their quarantine, the source's offset and the key; the new count."""
        stream, n = batch.stream, batch.records.n
        if not stream.isidentifier():
            raise refuse("stream", "a name made of letters", stream)
        if batch.key is not None and not 0 < len(batch.key.encode(errors="replace")) <= LONGEST_KEY:
            told = f"{len(batch.key)} letters"
            raise refuse("key", f"a name of at most {LONGEST_KEY} bytes", told=told)
        known = "SELECT 1 FROM keys WHERE stream = ? AND name = ?"
        if batch.key is not None and self._state.one(known, stream, batch.key):
            return self.count(stream)
        self._check_kind(stream, batch.records)
        with self._state.transaction("append"):
            start = self.count(stream)
            cut = batch.cut or self._most
            placed = self._place(stream, start, batch.records, cut) if n else []
            self._db.execute(
                "INSERT INTO streams VALUES (?, ?, 0, 0) ON CONFLICT DO NOTHING",
                (stream, segments.kind(batch.records)),
            )
            self._db.execute("UPDATE streams SET count = ? WHERE stream = ?", (start + n, stream))
            if placed and placed[0][1] < start:  # what waited has been joined
                self._state.delete("segments", "stream = ? AND start >= ?", *placed[0][:2])
            self._state.insert("segments", placed)
            self._state.insert(
                "quarantine",
                [(stream, start + bad.slot, bad.reason, bad.payload) for bad in batch.quarantine],
            )
            self._note_arrival(batch, Span(start, start + n))
            if batch.key is not None:
                self._state.insert("keys", [(stream, batch.key)])
        return start + n

    def _note_arrival(self, batch: Batch, span: Span) -> None:
        """Keep where records came from, and how far that has been read."""
        if batch.source is not None:
            place = str(batch.offset)
            known = self._state.rows("offsets", "source = ?", batch.source)
            self._state.sums.remove("offsets", known)
            with readable(f"the offset of {batch.source}"):
                taken = span.size + sum(row[2] for row in known)
            row = (batch.source, batch.stream, taken, place, segments.checksum(place.encode()))
            self._state.sums.add("offsets", [row])
            self._db.execute(KEEP_OFFSET, row)
        if span.size:
            before = self._state.rows(
                "arrivals", "stream = ? AND stop = ?", batch.stream, span.start
            )
            start = span.start
            if before and before[0][3] == batch.source:
                start = before[0][1]
                self._state.delete("arrivals", "stream = ? AND start = ?", batch.stream, start)
            self._state.insert("arrivals", [(batch.stream, start, span.stop, batch.source)])

    def _check_kind(self, stream: str, records: Records) -> None:
        row = self._state.one("SELECT kind FROM streams WHERE stream = ?", stream)
        kind = segments.kind(records)
        if row is not None and row[0] != kind:
            raise refuse(f"a batch of {stream}", f"like those before ({row[0]})", kind)

    def _place(self, stream: str, start: int, records: Records, cut: int) -> list[tuple[Any, ...]]:
        """The rows of new records, which replace those that waited from the first of them on.

        A segment ends where the stream may be cut off and, before that, after a fixed number of
        slots, whatever batches came. Until then batches wait by themselves; then they are joined,
        and go to a file unless they are few.
        """
        stop, size = start + records.n, segment_slots(records.X, self._most)
        block = "SELECT min(start) FROM segments WHERE stream = ? AND file IS NULL AND start >= ?"
        (waiting,) = self._state.one(block, stream, start - start % cut % size)
        rows: list[tuple[Any, ...]] = []
        begin = start if waiting is None else waiting
        try:
            while begin < stop:
                end = begin + min(size - begin % cut % size, cut - begin % cut)
                few = self._few
                if end > stop:  # to wait
                    begin, end, few = max(begin, start), stop, self._most
                some = segments.part(records, max(begin, start) - start, end - start)
                if begin < start:  # only the first: more than one segment's never wait
                    some = join([self.read(stream, Span(begin, start)), some])
                rows.append((stream, begin, end, *self._written(f"{stream}-{begin}", some, few)))
                begin = end
            if any(file for *_, file, _ in rows):
                self._files.sync()
        except OSError:  # on a full disk, what cannot be used must not stay
            for *_, file, _ in rows:
                if file:
                    self._files.delete(file)
            raise
        return rows

    def _written(self, stem: str, records: Records, few: int) -> tuple[Any, ...]:
        """Size, checksum, file and data of a segment: few records are kept in the database."""
        if records.n < few:
            data = segments.pack(records)
            padded = b"".join([self._db.pad, data])
            return data.size, segments.checksum(data), None, padded
        file, size, checksum = segments.write(self._files, stem, records)
        return size, checksum, file, None

    def read(self, stream: str, span: Span, slots: Slots | None = None) -> Records:
        """The records of a span: read-only views of one segment where that holds them all.

        Given slots, counted from the span's start and ascending, only their records are copied.
        """
        return join([piece.load() for piece in self.pieces(stream, span, slots)])

    def pieces(self, stream: str, span: Span, slots: Slots | None = None) -> list[Piece]:
        """The same, segment by segment; a checksum is verified when a file is first loaded.

        Records in the database are one piece: a fit does not see which batches wait there.
        """
        pieces: list[segments.Stored] = []
        reached = span.start
        for start, stop, size, checksum, file, data in self._stored(stream, span):
            if start > reached or (pieces and start < reached):  # a gap, or twice the same slots
                break
            reached = min(stop, span.stop)
            pieces.append(
                segments.Stored(
                    where=self._files.where(file) if file else self._db.where,
                    data=None if file else data or b"",
                    size=size,
                    checksum=checksum,
                    count=stop - start,
                    slots=chosen(Span(start, stop), span, slots),
                    sound=self._sound,
                )
            )
        if not span.start < span.stop == reached:
            raise StoreError(
                f"records [{span.start}, {span.stop}) of {stream} are not held: "
                "they are forgotten, or have not arrived"
            )
        found: list[Piece] = []
        held = (piece for piece in pieces if piece.n)
        for in_file, group in groupby(held, key=lambda piece: piece.data is None):
            some = list(group)
            found += some if in_file else [join([piece.load() for piece in some])]
        return found

    def _stored(self, stream: str, span: Span) -> list[Any]:
        """The segments that a span touches, found by two steps down an index."""
        query = """
            SELECT start, stop, size, checksum, file, data FROM segments
            WHERE stream = ? AND start < ? AND stop > ? AND start >= coalesce((
                SELECT max(start) FROM segments WHERE stream = ? AND start <= ?
            ), 0) ORDER BY start"""
        values = (stream, span.stop, span.start, stream, span.start)
        with self._state.explained():
            rows: list[Any] = self._db.execute(query, values).fetchall()
            return rows

    def distrust(self) -> None:
        """Verify the checksum of every file again when it is next read."""
        self._sound.clear()

    def quarantine(self, stream: str) -> Iterator[Quarantined]:
        """The records that could not be used, in order: private."""
        query = "SELECT slot, reason, payload FROM quarantine WHERE stream = ? ORDER BY slot"
        with self._state.explained():
            for slot, reason, payload in self._db.execute(query, (stream,)):
                yield Quarantined(slot=slot, reason=reason, payload=payload)

    def quarantined(self, stream: str) -> int:
        """How many records could not be used: private."""
        return int(self._state.one("SELECT count(*) FROM quarantine WHERE stream = ?", stream)[0])

    def forget(self, stream: str, before: int) -> None:
        """Delete every segment that lies wholly before a slot, and what its quarantine held.

        Nothing of them stays in the database's files, but for as long as somebody reads in those.
        """
        old = "FROM segments WHERE stream = ? AND start < ? AND stop <= ?"
        with self._state.explained():
            query = f"SELECT start, stop, file {old} ORDER BY start"
            gone = self._db.execute(query, (stream, before, before)).fetchall()
        if not gone:
            return
        with self._state.transaction("forget"):
            self._state.delete(
                "segments", "stream = ? AND start < ? AND stop <= ?", stream, *[before] * 2
            )
            slots = "stream = ? AND slot >= ? AND slot < ? AND payload IS NOT NULL"
            values = (stream, gone[0][0], gone[-1][1])
            held = self._state.rows("quarantine", slots, *values)
            self._state.sums.remove("quarantine", held)
            self._state.sums.add("quarantine", [(*row[:3], None) for row in held])
            self._db.execute(f"UPDATE quarantine SET payload = NULL WHERE {slots}", values)  # noqa: S608
        with self._state.explained():
            for _, _, file in gone:
                if file is not None:
                    failpoint("forget.unlink")
                    self._files.delete(file)
                    self._sound.discard(file)
            failpoint("forget.scrub")
            self._state.scrubbing.scrub()

    def held(self) -> list[Segment]:
        """Which raw records are there."""
        query = "SELECT stream, start, stop, size, file FROM segments ORDER BY stream, start"
        with self._state.explained():
            return [
                Segment(stream=stream, span=Span(start, stop), size=size, file=file)
                for stream, start, stop, size, file in self._db.execute(query)
            ]

    def sweep(self) -> None:
        """Delete what a crash has left: files that no row knows, and what is deleted in the log.

        Not before it is certain that the database is the newest: an older one would take the files
        of what it has forgotten.
        """
        with self._state.explained():
            known = {file for (file,) in self._db.execute("SELECT file FROM segments")}
            for name in sorted(self._files.names() - known):
                failpoint("sweep.unlink")
                self._files.delete(name)
            self._state.scrubbing.scrub()


def segment_slots(rows: Rows, most: int) -> int:
    """The number of slots in a file: a function of the kind and width of rows, which are public.

    Dense rows fill at most `SEGMENT_BYTES`. The length of sparse rows depends on the records, so
    their files hold an eighth of the most.

    >>> [segment_slots(np.zeros((0, width), np.float32), 65_536) for width in (30, 784, 10**6)]
    [65536, 4096, 64]
    """
    if not isinstance(rows, np.ndarray):
        return max(1, most // 8)
    fitting = SEGMENT_BYTES // (rows.dtype.itemsize * max(1, rows.shape[1]))
    return max(1, most // 1024, min(most, power_of_two(fitting)))
