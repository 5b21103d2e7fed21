"""The Store in a folder: a database for all that must change together, files for records."""

import hashlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from fractions import Fraction
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import StoreError, refuse
from tidegate.compute.cuts import power_of_two
from tidegate.features.rows import Rows
from tidegate.gate import segments
from tidegate.gate.database import Database
from tidegate.gate.failpoints import failpoint
from tidegate.gate.integrity import BEGINNING, COLUMNS, HISTORY, Sums, after_fit, after_step, digest
from tidegate.gate.layout import LAYOUT, MIGRATIONS, SCHEMA, STEP, migrate, sums_of, with_fits
from tidegate.gate.locations import ELSEWHERE, Elsewhere, Locations
from tidegate.gate.lock import Lock, Witness, held, witness_of
from tidegate.gate.scrubbing import Scrubbing
from tidegate.gate.segment_folder import make_folder
from tidegate.gate.sqlite import FILE, SqliteDatabase
from tidegate.gate.store import (
    DAMAGED,
    RESTORE,
    Batch,
    Evaluation,
    Made,
    NoStateError,
    Problem,
    Quarantined,
    Segment,
    Step,
    readable,
    reported,
)
from tidegate.gate.whole_file import UNFINISHED
from tidegate.learn.records import Piece, Records, Slots, chosen, join
from tidegate.privacy import Ledger, Line
from tidegate.release import FIRST, Card, StoredRelease, canonical, seal
from tidegate.schedule import Fit, SlotWeight, Span

KEEP_OFFSET = """
INSERT INTO offsets VALUES (?, ?, ?, ?, ?) ON CONFLICT (source) DO UPDATE
SET stream = excluded.stream, records = excluded.records, place = excluded.place,
seal = excluded.seal
"""

SEGMENT_BYTES = 2**24
"""Bytes of dense rows that a file has at most, and that wait in the database at most."""

LONGEST_KEY = 1000
"""Bytes in the name of a batch: a database's index has no room for more than a few thousand."""

PATIENCE = 1.0
"""Seconds to wait for another reader that upgrades a state just now."""

OURS = {FILE, f"{FILE}-wal", f"{FILE}-shm", "segments", "lock", ELSEWHERE}
"""All that a state folder holds."""


class FolderStore:
    """A state folder, held by one process at a time.

    Records are in files, but for a few: those of a file that is not complete wait in the database,
    and what would be a tiny file stays there. Where files end depends on how many records there
    are, never on the batches they came in. One thread may append while another reads, publishes and
    forgets: they take turns at the database, not at what they do besides.

    Args:
        folder: Where the state is.
        config: Given to make a new state; None to open the one that is there. One of an older
            layout is brought to the newest first.
        settings: Of a new state: what of the configuration shapes privacy, and never changes.
        locations: Where its database and segments are to be, by default in the folder. If given for
            a state that is there, they must be as they were: it would not be found elsewhere.
        segment_records: The most records in a file; wide rows have fewer, see `segment_slots`. A
            file of less than 1/1024 of it is tiny.
        read_only: Only look, also while another process holds the state.

    >>> from tempfile import TemporaryDirectory
    >>> records = Records(np.ones((3, 2), np.float32), np.zeros(3, np.intp), np.ones(3, np.bool_))
    >>> with TemporaryDirectory() as folder:
    ...     store = FolderStore(Path(folder), "{}")
    ...     store.append(Batch(stream="records", records=records, key="monday"))
    ...     store.append(Batch(stream="records", records=records, key="monday"))
    ...     store.read("records", Span(1, 3)).X.tolist()
    ...     store.close()
    3
    3
    [[1.0, 1.0], [1.0, 1.0]]
    """

    def __init__(  # noqa: PLR0913, a parameter for each thing that may be told
        self,
        folder: Path,
        config: str | None = None,
        *,
        settings: str = "",
        locations: Locations | None = None,
        segment_records: int = 65_536,
        read_only: bool = False,
    ) -> None:
        self.folder = Path(folder)
        self._most = segment_records
        self._few = max(1, segment_records // 1024)
        self._sound: set[str] = set()  # files whose checksum has been verified
        self._lock: Lock | None = None
        self._turn = threading.RLock()
        self._witness: Witness | None = None  # as of the last snapshot
        self._ready = False  # whether its tables are those of the newest layout
        self._sums = Sums()  # of the transaction under way
        self._ledgers: dict[str, Ledger] = {}  # of streams that were charged since the opening
        self._scrubbing = Scrubbing(self._turn, self._scrub)
        self._db: Database = SqliteDatabase(self.folder, writes=not read_only)
        with self._explained():
            if config is not None:
                self._make_folder()
            elif not holds_state(self.folder):
                self._refuse_remains()
                raise NoStateError(f"{self.folder} holds no state: tidegate run makes one")
            self._lock = None if read_only else Lock(self.folder)
            try:
                elsewhere = self._elsewhere(locations)
                self._files = elsewhere.segments(self.folder)
                if config is not None:
                    self._files.make()  # refused before anything is decided
                self._db = elsewhere.database(self.folder, writes=not read_only)
                self._db.connect()
                if read_only and 0 < self._db.layout() < LAYOUT:
                    self._upgrade(elsewhere)
                self._open(config, settings, elsewhere)
            except BaseException:
                self.close()
                raise

    @property
    def database(self) -> str:
        """What `verify` calls its database."""
        return self._db.name

    # --- opening

    def _refuse_remains(self) -> None:
        """Refuse a folder that has the records of a state, but not its database."""
        if _any(self.folder / "segments") and (self.folder / "lock").exists():
            known = Elsewhere.of(self.folder)
            where = self.folder / FILE if known is None else f"what {self.folder / ELSEWHERE} names"
            raise StoreError(f"{where} is missing: {RESTORE}")

    def _make_folder(self) -> None:
        self._refuse_remains()
        files = self.folder / "segments"
        there = set(os.listdir(self.folder)) if self.folder.exists() else set()
        if any(not UNFINISHED.fullmatch(name) for name in there - OURS) or _any(files):
            raise StoreError(f"{self.folder} holds other files: choose a folder of its own")
        make_folder(self.folder)
        self.folder.chmod(0o700)

    def _elsewhere(self, wanted: Locations | None) -> Elsewhere:
        """Where all is: decided once and for all, when the state is made."""
        known = Elsewhere.of(self.folder)
        if known is None:
            here = (self.folder / FILE).exists()
            known = Elsewhere.new(Locations() if here or wanted is None else wanted)
        for name, place in asdict(known.locations).items():
            if wanted is not None and (other := getattr(wanted, name)) != place:
                told = f"{self.folder} has its {name} in {place or 'the folder'}"
                said = f"{told}, but [store] says {other or 'the folder'}"
                raise StoreError(f"{said}: set it back, or see docs/store.md for how to move it")
        return known

    def _upgrade(self, elsewhere: Elsewhere) -> None:
        """Bring a state of an older layout to the newest, then go on to look at it."""
        layout = self._db.layout()
        self._db.close()
        until = time.monotonic() + PATIENCE
        while True:
            try:
                FolderStore(self.folder).close()
                break
            except StoreError as error:
                if time.monotonic() > until or not held(self.folder):
                    told = f"{self.folder} has layout {layout}"
                    what = f"must be upgraded to {LAYOUT} first"
                    raise StoreError(f"{told} and {what}: {error}") from error
            time.sleep(PATIENCE / 20)
        self._db = elsewhere.database(self.folder, writes=False)
        self._db.connect()

    def _open(self, config: str | None, settings: str, elsewhere: Elsewhere) -> None:
        layout = self._db.layout()
        self._ready = layout == LAYOUT
        if config is not None:
            if layout:
                raise StoreError(f"{self.folder} holds a state already: open it, or choose another")
            self._create(config, settings, elsewhere)
        elif layout == 0:
            raise NoStateError(f"{self.folder} holds no state: the making of it was cut short")
        elif layout > LAYOUT:
            told = f"{self.folder} has layout {layout}, of a newer Tidegate than this"
            raise StoreError(f"{told}, which reads layouts up to {LAYOUT}: upgrade Tidegate")
        elif layout < LAYOUT and layout not in MIGRATIONS:
            told = f"{self.folder} has layout {layout}, which no released version has written"
            raise StoreError(f"{told}: start a new state")
        if self._lock is not None:
            with readable(self._db.where):
                self._go_on(layout)

    def _go_on(self, layout: int) -> None:
        """See that a state is whole, and of the newest layout."""
        self._check_nothing_is_lost(self._one("SELECT committed FROM state")[0])
        if 0 < layout < LAYOUT:
            with self._transaction("migrate"):
                self._sums = migrate(self._db)
        self._ready = True
        if self._one("SELECT seal FROM state")[0] != self._seal():
            raise StoreError(f"{self._db.where} {DAMAGED}")

    def _create(self, config: str, settings: str, elsewhere: Elsewhere) -> None:
        self._check_nothing_is_lost(0)
        if self._files.names():  # they would be swept
            raise StoreError(f"{self._db.where} is missing, but not its records: {RESTORE}")
        if elsewhere.locations != Locations():
            elsewhere.keep(self.folder)
        with self._transaction("create"):
            self._db.create(SCHEMA, LAYOUT)
            values = (config, settings)
            self._db.execute("INSERT INTO state VALUES (?, ?, 0, NULL, '{}', '')", values)

    def _check_nothing_is_lost(self, committed: int) -> None:
        lost = 0 if self._lock is None else self._lock.committed - committed
        if lost > 0:
            raise StoreError(f"{self._db.where} has lost the last {lost} transaction(s): {RESTORE}")

    def _seal(self) -> str:
        """A digest of the rows on which all else depends, beside what the database keeps."""
        state = self._one("SELECT config, settings, committed, arrived, sums FROM state")
        with self._explained():
            streams = self._db.execute("SELECT * FROM streams ORDER BY stream").fetchall()
        return digest([list(state), [list(row) for row in streams]])

    def sweep(self) -> None:
        """Delete what a crash has left: files that no row knows, and what is deleted in the log.

        Not before it is certain that the database is the newest: an older one would take the files
        of what it has forgotten.
        """
        with self._explained():
            known = {file for (file,) in self._db.execute("SELECT file FROM segments")}
            for name in sorted(self._files.names() - known):
                failpoint("sweep.unlink")
                self._files.delete(name)
            self._scrubbing.scrub()

    def _scrub(self) -> bool:
        return self._db.scrub()

    def close(self) -> None:
        """Let go of the state, when who has a turn at the database is done with it."""
        with self._turn:
            self._scrubbing.close()
            self._db.close()
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    # --- one way in and out of the database

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Have a turn at the database; say in one line what it or the disk refused."""
        try:
            with self._turn:
                yield
        except OSError as error:
            if self.folder.is_file():
                raise StoreError(f"{self.folder} is a file: name the folder of a state") from error
            if self._lock is not None and not self.folder.exists():
                told = f"{self.folder} is gone, and with it what its records have paid"
                raise StoreError(f"{told}: {RESTORE}") from error
            where = error.filename or self.folder
            raise StoreError(
                f"{where}: {error.strerror or error}; the state is intact: "
                "see that the disk has room and the folder can be written, then do it again"
            ) from error
        except self._db.errors as error:
            again = "see to the cause, then open the state again"
            advice = RESTORE if self._db.damaged(error) else again
            told = self._db.told(error)
            if self._db.lost:
                self.close()
            raise StoreError(f"{self._db.where}: {told}; {advice}") from error

    @contextmanager
    def _transaction(self, name: str) -> Iterator[None]:
        """All or nothing, durable at the end.

        After an error of the database the store is closed: whether a failed commit has reached the
        disk is known only to the recovery that the next opening does.
        """
        with self._explained():
            if self._lock is None:
                told = "is closed, or open for reading only: open it again"
                raise StoreError(f"{self.folder} {told}")
            try:
                self._db.begin()
                self._sums = self._kept_sums() if self._ready else Sums()
                yield
                values = (self._sums.text(),)
                self._db.execute("UPDATE state SET committed = committed + 1, sums = ?", values)
                self._db.execute("UPDATE state SET seal = ?", (self._seal(),))
                committed = self._one("SELECT committed FROM state")[0]
                failpoint(f"{name}.commit")
                self._db.commit()
            except self._db.errors:
                self.close()
                raise
            except BaseException:
                self._db.rollback()
                self._ledgers.clear()  # they may know of charges that are undone
                raise
            with suppress(OSError):  # only a witness: what it would say is true without it
                self._lock.witness(committed)
        failpoint(f"{name}.done")

    def _one(self, query: str, *values: Any) -> Any:
        """The first row of an answer, None if it has none."""
        with self._explained():
            return self._db.execute(query, values).fetchone()

    def _kept_sums(self) -> Sums:
        """The sums of the tables, as the last transaction has left them."""
        with readable("the sums of the tables"):
            return Sums(self._one("SELECT sums FROM state")[0])

    def _rows(self, table: str, where: str, *values: Any) -> list[Any]:
        """Some rows of a table that has a sum."""
        query = f"SELECT {COLUMNS[table]} FROM {table} WHERE {where}"  # noqa: S608
        with self._explained():
            return self._db.execute(query, values).fetchall()

    def _delete(self, table: str, where: str, *values: Any) -> list[Any]:
        """Within a transaction, delete some rows of a table that has a sum; what they were."""
        rows = self._rows(table, where, *values)
        self._sums.remove(table, rows)
        self._db.execute(f"DELETE FROM {table} WHERE {where}", values)  # noqa: S608
        return rows

    def _insert(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Within a transaction, add rows to a table that has a sum."""
        if rows:
            self._sums.add(table, (row[: COLUMNS[table].count(",") + 1] for row in rows))
            marks = ", ".join("?" * len(rows[0]))
            self._db.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608

    # --- records

    def config(self) -> str:
        """The configuration that the state was made with, or given since."""
        return str(self._one("SELECT config FROM state")[0])

    def settings(self) -> str:
        """What shapes privacy, as it was when the state was made."""
        return str(self._one("SELECT settings FROM state")[0])

    def reconfigure(self, config: str) -> None:
        """Keep another configuration; the caller sees to it that privacy does not depend on it."""
        with self._transaction("configure"):
            self._db.execute("UPDATE state SET config = ?", (config,))

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Within it all that is read is of one moment, whatever another process writes."""
        self._witness = witness_of(self.folder)  # before: a gate may go on
        with self._explained():
            self._db.begin_looking()
        try:
            yield
        finally:
            with suppress(self._db.errors):
                self._db.rollback()

    def form(self, stream: str) -> Rows | None:
        """No rows, but of the width, dtype and kind that all of a stream have; None before them."""
        row = self._one("SELECT kind FROM streams WHERE stream = ?", stream)
        with readable(f"the kind of {stream}"):
            return None if row is None else segments.form(row[0])

    def count(self, stream: str) -> int:
        """How many records of the stream are durable."""
        return self._of_stream("count", stream)

    def done(self, stream: str) -> int:
        """The time up to which all due fits have been carried out."""
        return self._of_stream("done", stream)

    def _of_stream(self, column: str, stream: str) -> int:
        row = self._one(f"SELECT {column} FROM streams WHERE stream = ?", stream)  # noqa: S608
        return 0 if row is None else int(row[0])

    def offset(self, source: str) -> str | None:
        """How far a source has been read; None if never."""
        row = self._one("SELECT place, seal FROM offsets WHERE source = ?", source)
        with readable(f"the offset of {source}"):
            sound = row is None or row[1] == segments.checksum(row[0].encode())
        if not sound:
            raise StoreError(f"{self._db.where} {DAMAGED}")
        return None if row is None else str(row[0])

    def sources(self) -> list[str]:
        """The names of all sources that have been read."""
        with self._explained():
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
        if batch.key is not None and self._one(known, stream, batch.key):
            return self.count(stream)
        self._check_kind(stream, batch.records)
        with self._transaction("append"):
            start = self.count(stream)
            cut = batch.cut or self._most
            placed = self._place(stream, start, batch.records, cut) if n else []
            self._db.execute(
                "INSERT INTO streams VALUES (?, ?, 0, 0) ON CONFLICT DO NOTHING",
                (stream, segments.kind(batch.records)),
            )
            self._db.execute("UPDATE streams SET count = ? WHERE stream = ?", (start + n, stream))
            if placed and placed[0][1] < start:  # what waited has been joined
                self._delete("segments", "stream = ? AND start >= ?", *placed[0][:2])
            self._insert("segments", placed)
            self._insert(
                "quarantine",
                [(stream, start + bad.slot, bad.reason, bad.payload) for bad in batch.quarantine],
            )
            self._note_arrival(batch, Span(start, start + n))
            if batch.key is not None:
                self._insert("keys", [(stream, batch.key)])
        return start + n

    def _note_arrival(self, batch: Batch, span: Span) -> None:
        """Keep where records came from, and how far that has been read."""
        if batch.source is not None:
            place = str(batch.offset)
            known = self._rows("offsets", "source = ?", batch.source)
            self._sums.remove("offsets", known)
            with readable(f"the offset of {batch.source}"):
                taken = span.size + sum(row[2] for row in known)
            row = (batch.source, batch.stream, taken, place, segments.checksum(place.encode()))
            self._sums.add("offsets", [row])
            self._db.execute(KEEP_OFFSET, row)
        if span.size:
            before = self._rows("arrivals", "stream = ? AND stop = ?", batch.stream, span.start)
            start = span.start
            if before and before[0][3] == batch.source:
                start = before[0][1]
                self._delete("arrivals", "stream = ? AND start = ?", batch.stream, start)
            self._insert("arrivals", [(batch.stream, start, span.stop, batch.source)])

    def _check_kind(self, stream: str, records: Records) -> None:
        row = self._one("SELECT kind FROM streams WHERE stream = ?", stream)
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
        (waiting,) = self._one(block, stream, start - start % cut % size)
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
        with self._explained():
            return self._db.execute(query, values).fetchall()

    def quarantine(self, stream: str) -> Iterator[Quarantined]:
        """The records that could not be used, in order: private."""
        query = "SELECT slot, reason, payload FROM quarantine WHERE stream = ? ORDER BY slot"
        with self._explained():
            for slot, reason, payload in self._db.execute(query, (stream,)):
                yield Quarantined(slot=slot, reason=reason, payload=payload)

    def quarantined(self, stream: str) -> int:
        """How many records could not be used: private."""
        return int(self._one("SELECT count(*) FROM quarantine WHERE stream = ?", stream)[0])

    def forget(self, stream: str, before: int) -> None:
        """Delete every segment that lies wholly before a slot, and what its quarantine held.

        Nothing of them stays in the database's files, but for as long as somebody reads in those.
        """
        old = "FROM segments WHERE stream = ? AND start < ? AND stop <= ?"
        with self._explained():
            query = f"SELECT start, stop, file {old} ORDER BY start"
            gone = self._db.execute(query, (stream, before, before)).fetchall()
        if not gone:
            return
        with self._transaction("forget"):
            self._delete(
                "segments", "stream = ? AND start < ? AND stop <= ?", stream, *[before] * 2
            )
            slots = "stream = ? AND slot >= ? AND slot < ? AND payload IS NOT NULL"
            values = (stream, gone[0][0], gone[-1][1])
            held = self._rows("quarantine", slots, *values)
            self._sums.remove("quarantine", held)
            self._sums.add("quarantine", [(*row[:3], None) for row in held])
            self._db.execute(f"UPDATE quarantine SET payload = NULL WHERE {slots}", values)  # noqa: S608
            if stream in self._ledgers:
                self._ledgers[stream].forget(before)
        with self._explained():
            for _, _, file in gone:
                if file is not None:
                    failpoint("forget.unlink")
                    self._files.delete(file)
                    self._sound.discard(file)
            failpoint("forget.scrub")
            self._scrubbing.scrub()

    def held(self) -> list[Segment]:
        """Which raw records are there."""
        query = "SELECT stream, start, stop, size, file FROM segments ORDER BY stream, start"
        with self._explained():
            return [
                Segment(stream=stream, span=Span(start, stop), size=size, file=file)
                for stream, start, stop, size, file in self._db.execute(query)
            ]

    # --- fits and releases

    def state(self) -> str | None:
        """What the last `publish` that had a state said it was."""
        arrived: str | None = self._one("SELECT arrived FROM state")[0]
        return arrived

    def publish(
        self,
        stream: str,
        at: int,
        made: Sequence[Made],
        state: str | None = None,
        evaluation: Evaluation | None = None,
    ) -> list[StoredRelease]:
        """Charge a step's fits and evaluation, keep the models, release those to be; done = at."""
        done = self.done(stream)
        if not done < at <= self.count(stream):
            raise StoreError(
                f"{stream} is done up to {done} and has {self.count(stream)} records: "
                f"cannot publish at {at}"
            )
        numbers = [self._one("SELECT coalesce(max(number), -1) FROM fits")[0]]
        numbers += [one.line.fit.number for one in made]
        if any(before >= after for before, after in pairwise(numbers)):
            raise StoreError(f"fits come once and in order, after {numbers[0]}: {numbers[1:]}")
        with self._transaction("publish"):
            self._charge(stream, Span(done, at), made, evaluation)
            newest = self.newest()  # refused if it is damaged: what follows is chained to it
            first, previous = (newest.number + 1, newest.hash) if newest else (0, FIRST)
            number = first
            history = self._history()
            for one in made:
                row = self._fit_row(stream, one, previous, number, history)
                if one.line.fit.released:
                    number, previous = number + 1, row[-1]
                marks = ", ".join("?" * len(row))
                self._db.execute(f"INSERT INTO fits VALUES ({marks})", row)  # noqa: S608
                history = after_fit(history, [*row[:6], *row[7:]])
            self._db.execute("UPDATE streams SET done = ? WHERE stream = ?", (at, stream))
            step = Step(stream=stream, span=Span(done, at), evaluation=evaluation)
            self._insert_step(step, history)
            if state is not None:
                self._db.execute("UPDATE state SET arrived = ?", (state,))
        return list(self.releases(first))

    def _charge(
        self, stream: str, span: Span, made: Sequence[Made], evaluation: Evaluation | None
    ) -> None:
        """Within a transaction, charge a step to a ledger that takes no record above its budget.

        It is added up from what the database holds, whatever a plan says. A transaction that is
        undone, for whatever reason, leaves no trace in it.
        """
        if stream not in self._ledgers:
            self._ledgers[stream] = self._charged_so_far(stream)
        ledger = self._ledgers[stream]
        for one in made:
            ledger.post(one.line)
        if evaluation is not None:
            ledger.charge(span, evaluation.share)

    def _charged_so_far(self, stream: str) -> Ledger:
        ledger = Ledger()
        for line in self.lines(stream):
            ledger.post(line)
        for step in self.steps():
            if step.stream == stream and step.evaluation is not None:
                ledger.charge(step.span, step.evaluation.share)
        return ledger

    def _history(self) -> str:
        """The digest of all steps so far."""
        row = self._one("SELECT history FROM steps ORDER BY number DESC LIMIT 1")
        return BEGINNING if row is None else str(row[0])

    def _insert_step(self, step: Step, history: str) -> None:
        known = step.evaluation
        paid: tuple[Any, ...] = (None,) * 4
        if known is not None:
            paid = (known.release, str(known.share), known.accuracy, known.deviation)
        number = self._one("SELECT coalesce(max(number), 0) + 1 FROM steps")[0]
        sources = canonical(self._settle_arrivals(step.stream, step.span.stop))
        row = (number, step.stream, *step.span, *paid, sources)
        marks = ", ".join("?" * (len(row) + 1))
        values = (*row, after_step(history, row))
        self._db.execute(f"INSERT INTO steps VALUES ({marks})", values)  # noqa: S608

    def _settle_arrivals(self, stream: str, stop: int) -> list[tuple[str | None, int]]:
        """How many records of a step came from each source, in the order of their arrival."""
        rows = self._delete("arrivals", "stream = ? AND start < ?", stream, stop)
        late = [(stream, stop, end, source) for _, _, end, source in rows if end > stop]
        self._insert("arrivals", late)
        return [(source, min(end, stop) - start) for _, start, end, source in sorted(rows)]

    def steps(self, after: int = 0) -> Iterator[Step]:
        """The steps that have been carried out, in the order of their arrival, after so many."""
        columns = "stream, start, stop, release, share, accuracy, deviation"
        query = f"SELECT {columns} FROM steps WHERE number > ? ORDER BY number"  # noqa: S608
        with self._explained():
            for stream, start, stop, *paid in self._db.execute(query, (after,)):
                known = None if paid[0] is None else _evaluation(*paid)
                yield Step(stream=stream, span=Span(start, stop), evaluation=known)

    def _released(self) -> int:
        """How many releases there are."""
        with readable("the number of releases in the database"):
            return int(self._one("SELECT coalesce(max(release), -1) + 1 FROM fits")[0])

    def _fit_row(
        self, stream: str, made: Made, previous: str, number: int, history: str
    ) -> tuple[Any, ...]:
        """The row of a fit; number, hash before and hash if it is released.

        Args:
            stream: The stream that it has read.
            made: The fit.
            previous: The hash of the newest release.
            number: Of the next release.
            history: The digest of all that was done before it, which its card names.
        """
        (fit, share), weights = made.line, np.ascontiguousarray(made.weights, "<f8")
        card = {**made.card, HISTORY: history}
        place: tuple[int | None, str | None, str | None] = (None, None, None)
        if fit.released:
            card["release"] = number
            place = (number, previous, seal(card, weights, previous).hash)
        known = {name: value for name, value in fit._asdict().items() if name != "slot_weights"}
        if fit.slot_weights:
            known["emphasis"] = [(span, str(part)) for span, part in fit.slot_weights]
        line = (fit.number, stream, canonical(known), str(share))
        model = (json.dumps(weights.shape), weights.tobytes(), _digest(weights))
        return (*line, canonical(card), *model, *place)

    def releases(self, start: int = 0) -> Iterator[StoredRelease]:
        """The releases from a number on, in order."""
        number = start
        while number < self._released():
            yield self.release(number)
            number += 1

    def release(self, number: int) -> StoredRelease:
        """One release."""
        columns = "card, shape, weights, previous, hash"
        row = self._one(f"SELECT {columns} FROM fits WHERE release = ?", number)  # noqa: S608
        if row is None:
            raise StoreError(f"there is no release {number}")
        card, shape, data, previous, stored_hash = row
        with readable(f"release {number}"):
            release = StoredRelease(
                card=json.loads(card),
                weights=_weights(shape, data),
                previous=previous,
                hash=stored_hash,
            )
            same = release.intact and release.number == number
        if not same:
            raise StoreError(f"release {number} is not what was published, by its hash: {RESTORE}")
        return release

    def published(self) -> dict[int, dict[str, str]]:
        """The digests of the files of each release that is published, by their names."""
        with readable("what is published, in the database"):
            return {number: json.loads(files) for number, files in self._rows("published", "1 = 1")}

    def unpublished(self) -> int:
        """The first release whose files are not known to be published."""
        return int(self._one("SELECT coalesce(max(release), -1) + 1 FROM published")[0])

    def note_published(self, files: Mapping[int, Mapping[str, str]]) -> None:
        """Keep the digests of the files of some releases, in place of those known before."""
        with self._transaction("published"):
            for number, names in files.items():
                self._delete("published", "release = ?", number)
                self._insert("published", [(number, canonical(dict(names)))])

    def newest(self) -> StoredRelease | None:
        """The newest release, None if there is none yet."""
        after = self._released()
        return self.release(after - 1) if after else None

    def fit(self, number: int) -> NDArray[np.float64]:
        """The model of a fit, released or not, read-only: a prior bit for bit as it was made."""
        row = self._one("SELECT shape, weights, digest FROM fits WHERE number = ?", number)
        if row is None:
            raise StoreError(f"there is no fit {number}")
        weights = _weights(*row[:2])
        if _digest(weights) != row[2]:
            raise StoreError(f"the model of fit {number} is not what was made: {RESTORE}")
        return weights

    def cards(self) -> Iterator[tuple[str, Card]]:
        """The card of every fit, released or not, in order, with the stream that was read."""
        with self._explained():
            for number, stream, card in self._db.execute(
                "SELECT number, stream, card FROM fits ORDER BY number"
            ):
                with readable(f"the card of fit {number}"):
                    yield stream, json.loads(card)

    def lines(self, stream: str | None = None, after: int = -1) -> Iterator[Line]:
        """What has been charged for fits to the records of a stream, or of all, after a fit."""
        of, values = ("", (after,)) if stream is None else ("AND stream = ?", (after, stream))
        query = f"SELECT fit, share FROM fits WHERE number > ? {of} ORDER BY number"  # noqa: S608
        with self._explained():
            for fit, share in self._db.execute(query, values):
                yield _line(fit, share)

    def verify(self) -> Iterator[Problem]:
        """Read everything, and say what is wrong."""
        checks = (
            self._verify_state,
            self._verify_tables,
            self._verify_segments,
            self._verify_fits,
            self._verify_history,
        )
        for check in checks:
            yield from reported(self.database, self._explaining(check()))

    def _explaining(self, problems: Iterator[Problem]) -> Iterator[Problem]:
        with self._explained():
            yield from problems

    def _verify_state(self) -> Iterator[Problem]:
        if self._one("SELECT seal FROM state")[0] != self._seal():
            yield Problem(where=self.database, what=DAMAGED)
        known = self._witness or witness_of(self.folder)
        if known is None:
            what = "is missing or damaged: nothing shows whether the newest transactions are there"
            yield Problem(where="lock", what=f"{what}; see docs/store.md")
        elif known.committed > (committed := self._one("SELECT committed FROM state")[0]):
            what = f"has lost the last {known.committed - committed} transaction(s): {RESTORE}"
            yield Problem(where=self.database, what=what)
        for source in self.sources():
            yield from _problem(f"the offset of {source}", self.offset, source)
        for what in self._db.problems():
            yield Problem(where=self.database, what=f"{what}; {RESTORE}")

    def _verify_tables(self) -> Iterator[Problem]:
        """Whether each table has the rows that were written, and only those."""
        kept, found = self._kept_sums(), sums_of(self._db)
        for table in COLUMNS:
            if kept[table] != found[table]:
                what = f"rows of the table {table} were changed, added or deleted: {RESTORE}"
                yield Problem(where=self.database, what=what)
        made = self._db.schema()
        if made is not None and sorted(made) != sorted(each.strip() for each in SCHEMA.split(";")):
            what = f"its tables are not those of layout {LAYOUT}: {RESTORE}"
            yield Problem(where=self.database, what=what)

    def _verify_history(self) -> Iterator[Problem]:
        """Whether steps and fits are as they were written, and each card knows those before it."""
        history, named, fits = BEGINNING, False, 0
        sources: Counter[str | None] = Counter()
        steps = self._db.execute(f"SELECT {STEP}, history FROM steps ORDER BY number").fetchall()  # noqa: S608
        for (*step, kept), made in with_fits(self._db, steps):
            fits += len(made)
            for fit in made:
                with readable(f"the card of fit {fit[0]}"):
                    card = json.loads(fit[4])
                named = named or HISTORY in card
                if named and card.get(HISTORY) != history:
                    what = f"its card names another history than the state has: {RESTORE}"
                    yield Problem(where=f"fit {fit[0]}", what=what)
                history = after_fit(history, fit)
            history = after_step(history, step)
            if history != kept:
                what = f"it, or a fit that it made, is not what was written: {RESTORE}"
                yield Problem(where=f"step {step[0]}", what=what)
                history = kept  # one line for each that is wrong
            came: list[tuple[str | None, int]] = json.loads(step[-1] or "[]")
            for source, count in came:
                sources[source] += count
            # of a step from before an upgrade the sources are not known
            if step[-1] is not None and sum(count for _, count in came) != step[3] - step[2]:
                what = f"its sources do not add up to its records: {RESTORE}"
                yield Problem(where=f"step {step[0]}", what=what)
        if fits != self._one("SELECT count(*) FROM fits")[0]:
            what = f"it has fits that no step has made: {RESTORE}"
            yield Problem(where=self.database, what=what)
        yield from self._verify_arrivals(sources)

    def _verify_arrivals(self, sources: "Counter[str | None]") -> Iterator[Problem]:
        """Whether each source gave as many records as its offset says, and all as many as wait."""
        streams = self._db.execute("SELECT stream, done, count FROM streams").fetchall()
        reached = {stream: done for stream, done, _ in streams}
        for stream, start, stop, source in sorted(self._rows("arrivals", "1 = 1")):
            sources[source] += stop - start
            reached[stream] = stop if start < stop and start == reached.get(stream) else -1
        counts = {stream: count for stream, _, count in streams}
        for stream in sorted(name for name, stop in reached.items() if stop != counts.get(name)):
            what = f"the sources of records that wait do not add up to them: {RESTORE}"
            yield Problem(where=stream, what=what)
        offsets = {row[0]: row[2] for row in self._rows("offsets", "records >= ?", 0)}
        for source in sorted({*offsets, *(each for each in sources if each is not None)}):
            if offsets.get(source) != sources[source]:
                told = f"{sources[source]} records came from it, its offset says"
                what = f"{told} {offsets.get(source, 'nothing')}: {RESTORE}"
                yield Problem(where=f"the source {source}", what=what)

    def _verify_segments(self) -> Iterator[Problem]:
        self._sound.clear()
        reached: dict[str, int] = {}
        for segment in self.held():
            stream, (start, stop) = segment.stream, segment.span
            if start != reached.get(stream, start):
                what = f"segments end at {reached[stream]} and go on at {start}"
                yield Problem(where=stream, what=what)
            reached[stream] = stop
            for problem in _problem(segment.file or stream, self._check_segment, segment):
                if self._holds(segment):
                    yield problem
        for stream, total in self._db.execute("SELECT stream, count FROM streams"):
            if reached.get(stream, total) != total:
                what = f"segments end at {reached[stream]}, but {total} records were taken"
                yield Problem(where=stream, what=what)

    def _check_segment(self, segment: Segment) -> None:
        """Read a segment; refuse it if its rows are not like those of its stream."""
        found = segments.kind(self.read(segment.stream, segment.span))
        (kind,) = self._one("SELECT kind FROM streams WHERE stream = ?", segment.stream)
        if found != kind:
            raise StoreError(f"its rows are {found}, those of the stream {kind}: {RESTORE}")

    def _verify_fits(self) -> Iterator[Problem]:
        expected, previous = 0, FIRST
        query = "SELECT number, fit, release, previous, hash FROM fits ORDER BY number"
        for row in self._db.execute(query):
            number, fit, release, chained_to, stored_hash = row
            yield from _problem(f"fit {number}", self.fit, number)
            if (release is not None) != ('"released":true' in fit):
                yield Problem(where=f"fit {number}", what="is released, or should be")
            if release is not None:
                yield from _problem(f"release {release}", self.release, release)
                if (release, chained_to) != (expected, previous):
                    what = f"should be release {expected}, after {previous}"
                    yield Problem(where=f"release {release}", what=what)
                expected, previous = release + 1, stored_hash

    def _holds(self, segment: Segment) -> bool:
        """Whether a segment is still there: beside a snapshot a Gate may go on and delete some."""
        query = "SELECT file FROM segments WHERE stream = ? AND start = ?"
        with closing(self._db.beside()) as present:
            row = present.execute(query, (segment.stream, segment.span.start)).fetchone()
            return row is not None and row[0] == segment.file


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


def holds_state(folder: Path) -> bool:
    """Whether a state is in a folder, or at least begun."""
    known = Elsewhere.of(folder)
    on_server = known is not None and known.locations.database is not None
    return on_server or (folder / FILE).is_file()


def _any(folder: Path) -> bool:
    return folder.exists() and bool(os.listdir(folder))


def _problem(where: str, read: Callable[..., object], *what: Any) -> Iterator[Problem]:
    """What is wrong with something, if reading it finds that."""
    try:
        read(*what)
    except StoreError as error:
        yield Problem(where=where, what=str(error))


@readable("an evaluation in the database")
def _evaluation(release: int, share: str, accuracy: float, deviation: float) -> Evaluation:
    return Evaluation(
        release=release, share=Fraction(share), accuracy=accuracy, deviation=deviation
    )


@readable("a charge in the database")
def _line(fit: str, share: str) -> Line:
    fields = json.loads(fit)
    fields["span"] = Span(*fields["span"])
    fields["slot_weights"] = tuple(
        SlotWeight(Span(*span), Fraction(part)) for span, part in fields.pop("emphasis", ())
    )
    return Line(Fit(**fields), Fraction(share))


@readable("a model in the database")
def _weights(shape: str, data: bytes) -> NDArray[np.float64]:
    """The weights of a row, read-only because they are views of bytes."""
    return np.frombuffer(data, "<f8").reshape(json.loads(shape))


def _digest(weights: NDArray[np.float64]) -> str:
    """What a model is known by that is not released and so has no hash."""
    return hashlib.sha256(weights.tobytes()).hexdigest()
