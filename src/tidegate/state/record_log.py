"""The record log: stores records in files and in the database, and deletes them."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np

from tidegate.checks import StoreError, refuse
from tidegate.data.records import Owners, Piece, Records, Slots, chosen, join
from tidegate.data.rows import Rows
from tidegate.failpoints import failpoint
from tidegate.run.engine import power_of_two
from tidegate.schedule import Span
from tidegate.state import segments
from tidegate.state.damage import DAMAGED, readable
from tidegate.state.erasure import ERASED
from tidegate.state.segment_folder import SegmentFolder
from tidegate.state.state_database import StateDatabase
from tidegate.state.store import Batch, Quarantined, Segment

KEEP_OFFSET = """
INSERT INTO offsets VALUES (?, ?, ?, ?, ?) ON CONFLICT (source) DO UPDATE
SET stream = excluded.stream, records = excluded.records, place = excluded.place,
seal = excluded.seal
"""

SEGMENT_BYTES = 2**24
"""The most bytes of dense rows in a file, and waiting in the database."""

LONGEST_KEY = 1000
"""The most bytes in the key of a batch; database indexes allow only a few thousand."""


class RecordLog:
    """The records that a state still holds, and its quarantine.

    Most records are in files (segments). Those of an incomplete segment wait in the database, and
    a tiny segment stays there. Where segments end depends only on the number of records, never on
    the batches they came in.

    Args:
        segment_records: The most records in a file; fewer for wide rows, see `segment_slots`. A
            segment of fewer than 1/1024 of it is tiny.
    """

    def __init__(self, state: StateDatabase, files: SegmentFolder, segment_records: int) -> None:
        self._state, self._db, self._files = state, state.db, files
        self._most = segment_records
        self._few = max(1, segment_records // 1024)
        self._sound: set[str] = set()  # files whose checksum has been verified

    def form(self, stream: str) -> Rows | None:
        """An empty array with the stream's width, dtype and kind; None before its first record."""
        row = self._state.of_stream(stream)
        with readable(f"the kind of {stream}"):
            return None if row is None else segments.form(row.kind)

    def count(self, stream: str) -> int:
        """The number of durable records of a stream."""
        row = self._state.of_stream(stream)
        return 0 if row is None else row.records

    def offset(self, source: str) -> str | None:
        """The offset up to which a source has been read; None if never."""
        row = self._state.fact("SELECT place, seal FROM offsets WHERE source = ?", source)
        with readable(f"the offset of {source}"):
            sound = row is None or row[1] == segments.checksum(row[0].encode())
        if not sound:
            raise StoreError(f"{self._db.where}: {DAMAGED}")
        return None if row is None else str(row[0])

    def sources(self) -> list[str]:
        """The names of all sources that have been read."""
        with self._state.explained():
            rows = self._db.execute("SELECT source FROM offsets ORDER BY source").fetchall()
        return [str(source) for (source,) in rows]

    def append(self, batch: Batch) -> int:
        """Add records, their quarantine, the source's offset and the key; return the new count."""
        stream, n = batch.stream, batch.records.n
        if not stream.isidentifier():
            raise refuse("stream", "a name of letters, digits and _", stream)
        if batch.key is not None and not 0 < len(batch.key.encode(errors="replace")) <= LONGEST_KEY:
            length = f"{len(batch.key)} letters"
            raise refuse("key", f"a name of 1 to {LONGEST_KEY} bytes", shown=length)
        query = "SELECT 1 FROM keys WHERE stream = ? AND name = ?"
        if batch.key is not None and self._state.one(query, stream, batch.key):
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
            if placed and placed[0][1] < start:  # waiting records are part of it now
                self._state.delete("segments", "stream = ? AND start >= ?", *placed[0][:2])
            self._state.insert("segments", placed)
            self._state.insert(
                "quarantine",
                [(stream, start + bad.slot, bad.reason, bad.payload) for bad in batch.quarantine],
            )
            self._record_arrival(batch, Span(start, start + n))
            if batch.key is not None:
                self._state.insert("keys", [(stream, batch.key)])
        return start + n

    def _record_arrival(self, batch: Batch, span: Span) -> None:
        """Store which source records came from, and its offset."""
        if batch.source is not None:
            place = str(batch.offset)
            old = self._state.rows("offsets", "source = ?", batch.source)
            self._state.sums.remove("offsets", old)
            with readable(f"the offset of {batch.source}"):
                taken = span.size + sum(row[2] for row in old)
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
        row, kind = self._state.of_stream(stream), segments.kind(records)
        if row is not None and row.kind != kind:
            raise refuse(f"a batch of {stream}", f"{row.kind}, like earlier batches", kind)

    def _place(self, stream: str, start: int, records: Records, cut: int) -> list[tuple[Any, ...]]:
        """The rows of new records, which replace all waiting rows from the start of the first.

        A segment ends at each multiple of `cut`, and before that after a fixed number of slots.
        Batches wait separately until their segment is complete. Then they are joined and written to
        a file, or kept in the database if they are few.
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
                if end > stop:  # incomplete: the records wait
                    begin, end, few = max(begin, start), stop, self._most
                some = segments.part(records, max(begin, start) - start, end - start)
                if begin < start:  # only the first segment can have waiting records
                    some = join([self.read(stream, Span(begin, start)), some])
                rows.append((stream, begin, end, *self._written(f"{stream}-{begin}", some, few)))
                begin = end
            if any(file for *_, file, _ in rows):
                self._files.sync()
        except OSError:  # leave no unusable files on a full disk
            for *_, file, _ in rows:
                if file:
                    self._files.delete(file)
            raise
        return rows

    def _written(self, stem: str, records: Records, few: int) -> tuple[Any, ...]:
        """Store a segment, in the database if it is small: its size, checksum, file and data."""
        if records.n < few:
            data = segments.pack(records)
            padded = b"".join([self._db.pad, data])
            return data.size, segments.checksum(data), None, padded
        file, size, checksum = segments.write(self._files, stem, records)
        return size, checksum, file, None

    def read(self, stream: str, span: Span, slots: Slots | None = None) -> Records:
        """The records of a span; a read-only view without a copy if one segment holds them all.

        Args:
            stream: The stream.
            span: The span.
            slots: Copy only these slots: ascending, counted from the start of the span.
        """
        return join([piece.load() for piece in self.pieces(stream, span, slots)])

    def owners(self, stream: str, span: Span) -> Owners | None:
        """Whose the slots of a span are; None if records are protected."""
        row = self._state.of_stream(stream)
        if row is None or not row.kind.endswith(segments.OWNED):
            return None
        found = [piece.load().owners for piece in self.pieces(stream, span)]
        return np.concatenate([each for each in found if each is not None])

    def pieces(self, stream: str, span: Span, slots: Slots | None = None) -> list[Piece]:
        """Like `read`, segment by segment. A file's checksum is verified when it is first loaded.

        Records in the database are one piece, so a fit cannot see in which batches they came.
        """
        pieces: list[segments.Stored] = []
        reached = span.start
        for start, stop, size, checksum, file, data in self._stored(stream, span):
            if start > reached or (pieces and start < reached):  # a gap or an overlap
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
                "they were deleted, or have not arrived; tidegate status shows what is held"
            )
        result: list[Piece] = []
        held = (piece for piece in pieces if piece.n)
        for in_file, group in groupby(held, key=lambda piece: piece.data is None):
            some = list(group)
            result += some if in_file else [join([piece.load() for piece in some])]
        return result

    def _stored(self, stream: str, span: Span) -> list[Any]:
        """The rows of the segments that overlap a span, found with two index lookups."""
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
        """Verify the checksum of every file again at its next read."""
        self._sound.clear()

    def quarantine(self, stream: str) -> Iterator[Quarantined]:
        """The records that cannot be used, in order. They are private."""
        query = "SELECT slot, reason, payload FROM quarantine WHERE stream = ? ORDER BY slot"
        with self._state.explained():
            for slot, reason, payload in self._db.execute(query, (stream,)):
                yield Quarantined(slot=slot, reason=reason or "erased", payload=payload)

    def marked(self, stream: str, span: Span) -> Slots:
        """The slots of a span that were erased, in order."""
        where = "stream = ? AND slot >= ? AND slot < ? AND reason = ?"
        rows = self._state.rows("quarantine", where, stream, *span, ERASED)
        return np.sort(np.array([slot for _, slot, *_ in rows], np.intp))

    def quarantined(self, stream: str) -> int:
        """The number of records that cannot be used. It is private."""
        return int(self._state.one("SELECT count(*) FROM quarantine WHERE stream = ?", stream)[0])

    def forget(self, stream: str, before: int) -> None:
        """Delete all segments entirely before a slot, with the payloads of their quarantine.

        They are erased from the database's files too, as soon as no reader needs them.
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
            self._state.delete("admitted", "stream = ? AND stop <= ?", stream, gone[-1][1])
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
        """The segments of raw records that are still held."""
        query = "SELECT stream, start, stop, size, file FROM segments ORDER BY stream, start"
        with self._state.explained():
            return [
                Segment(stream=stream, span=Span(start, stop), size=size, file=file)
                for stream, start, stop, size, file in self._db.execute(query)
            ]

    def sweep(self) -> None:
        """Delete what a crash left behind: files without a row, and deleted rows in the log.

        Call it only once the database is known to be the newest. An older copy would lack the rows
        of newer files, and delete those.
        """
        with self._state.explained():
            registered = {file for (file,) in self._db.execute("SELECT file FROM segments")}
            for name in sorted(self._files.names() - registered):
                failpoint("sweep.unlink")
                self._files.delete(name)
            self._state.scrubbing.scrub()


def segment_slots(rows: Rows, most: int) -> int:
    """The number of slots in a segment: it depends only on the kind and width of the rows.

    Both are public. Dense rows take at most `SEGMENT_BYTES`. The length of sparse rows depends on
    the records, so their segments have `most // 8` slots.

    >>> [segment_slots(np.zeros((0, width), np.float32), 65_536) for width in (30, 784, 10**6)]
    [65536, 4096, 64]
    """
    if not isinstance(rows, np.ndarray):
        return max(1, most // 8)
    fitting = SEGMENT_BYTES // (rows.dtype.itemsize * max(1, rows.shape[1]))
    return max(1, most // 1024, min(most, power_of_two(fitting)))
