"""The Store in a folder: a database for all that must change together, files for records."""

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import StoreError, refuse
from tidegate.features.rows import Rows
from tidegate.gate import segments
from tidegate.gate.database import Database
from tidegate.gate.failpoints import failpoint
from tidegate.gate.lock import Lock
from tidegate.gate.places import ELSEWHERE, UNFINISHED, Elsewhere, Places
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
)
from tidegate.learn.records import Records, Slots, chosen, join
from tidegate.privacy import Line
from tidegate.release import FIRST, StoredRelease, canonical, seal
from tidegate.schedule import Emphasis, Fit, Span

LAYOUT = 2
"""Version of the layout of a state, kept in its database."""

SCHEMA = """
CREATE TABLE state (
    config TEXT NOT NULL, committed INTEGER NOT NULL, arrived TEXT, seal INTEGER NOT NULL
);
CREATE TABLE streams (
    stream TEXT PRIMARY KEY, kind TEXT NOT NULL, count INTEGER NOT NULL, done INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE segments (
    stream TEXT NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL,
    size INTEGER NOT NULL, checksum INTEGER NOT NULL, file TEXT, data BLOB
);
CREATE UNIQUE INDEX segments_by_start ON segments (stream, start);
CREATE INDEX segments_waiting ON segments (stream, start, stop) WHERE file IS NULL;
CREATE TABLE quarantine (
    stream TEXT NOT NULL, slot INTEGER NOT NULL, reason TEXT NOT NULL, payload TEXT,
    PRIMARY KEY (stream, slot)
) WITHOUT ROWID;
CREATE TABLE offsets (
    source TEXT PRIMARY KEY, place TEXT NOT NULL, seal INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE keys (stream TEXT, name TEXT, PRIMARY KEY (stream, name)) WITHOUT ROWID;
CREATE TABLE fits (
    number INTEGER PRIMARY KEY, stream TEXT NOT NULL, fit TEXT NOT NULL, share TEXT NOT NULL,
    card TEXT NOT NULL, shape TEXT NOT NULL, weights BLOB NOT NULL, digest TEXT NOT NULL,
    release INTEGER UNIQUE, previous TEXT, hash TEXT
);
CREATE INDEX fits_by_stream ON fits (stream, number);
CREATE TABLE steps (
    number INTEGER PRIMARY KEY, stream TEXT NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL,
    release INTEGER, share TEXT, accuracy REAL, deviation REAL
)
"""

KEEP_OFFSET = """
INSERT INTO offsets VALUES (?, ?, ?)
ON CONFLICT (source) DO UPDATE SET place = excluded.place, seal = excluded.seal
"""


LONGEST_KEY = 1000
"""Bytes in the name of a batch: a database's index has no room for more than a few thousand."""

OURS = {FILE, f"{FILE}-wal", f"{FILE}-shm", "segments", "lock", ELSEWHERE, UNFINISHED}
"""All that a state folder holds."""


class FolderStore:
    """A state folder, held by one process at a time.

    Records are in files, but for a few: small batches wait in the database until there are enough
    for a file, and what would be a tiny file stays there. One thread may append while another
    reads, publishes and forgets: they take turns at the database, not at what they do besides.

    Args:
        folder: Where the state is.
        config: Given to make a new state; None to open the one that is there.
        places: Where its database and segments are to be, by default in the folder. If given for a
            state that is there, they must be as they were: it would not be found elsewhere.
        segment_records: The most records in a file. A file of less than 1/1024 of it is tiny.
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

    def __init__(
        self,
        folder: Path,
        config: str | None = None,
        *,
        places: Places | None = None,
        segment_records: int = 65_536,
        read_only: bool = False,
    ) -> None:
        self.folder = Path(folder)
        self._most = segment_records
        self._few = max(1, segment_records // 1024)
        self._sound: set[str] = set()  # files whose checksum has been verified
        self._lock: Lock | None = None
        self._turn = threading.RLock()
        self._db: Database = SqliteDatabase(self.folder, writes=not read_only)
        with self._explained():
            if config is not None:
                self._make_folder()
            elif not holds_state(self.folder):
                self._refuse_remains()
                raise NoStateError(f"{self.folder} holds no state: tidegate run makes one")
            self._lock = None if read_only else Lock(self.folder)
            try:
                elsewhere = self._elsewhere(places)
                self._files = elsewhere.segments(self.folder)
                if config is not None:
                    self._files.make()  # refused before anything is decided
                self._db = elsewhere.database(self.folder, writes=not read_only)
                self._db.connect()
                self._open(config, elsewhere)
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
        if self.folder.exists() and (set(os.listdir(self.folder)) - OURS or _any(files)):
            raise StoreError(f"{self.folder} holds other files: choose a folder of its own")
        make_folder(self.folder)
        self.folder.chmod(0o700)

    def _elsewhere(self, wanted: Places | None) -> Elsewhere:
        """Where all is: decided once and for all, when the state is made."""
        known = Elsewhere.of(self.folder)
        if known is None:
            here = (self.folder / FILE).exists()
            known = Elsewhere.new(Places() if here or wanted is None else wanted)
        for name, place in asdict(known.places).items():
            if wanted is not None and (other := getattr(wanted, name)) != place:
                told = f"{self.folder} has its {name} in {place or 'the folder'}"
                said = f"{told}, but [store] says {other or 'the folder'}"
                raise StoreError(f"{said}: set it back, or see docs/store.md for how to move it")
        return known

    def _open(self, config: str | None, elsewhere: Elsewhere) -> None:
        layout = self._db.layout()
        if config is not None and layout:
            raise StoreError(f"{self.folder} holds a state already: open it, or choose another")
        if config is not None:
            self._check_nothing_is_lost(0)
            if self._files.names():  # they would be swept
                raise StoreError(f"{self._db.where} is missing, but not its records: {RESTORE}")
            if elsewhere.places != Places():
                elsewhere.keep(self.folder)
            with self._transaction("create"):
                self._db.create(SCHEMA, LAYOUT)
                self._db.execute("INSERT INTO state VALUES (?, 0, NULL, 0)", (config,))
        elif layout == 0:
            raise NoStateError(f"{self.folder} holds no state: the making of it was cut short")
        elif layout != LAYOUT:
            raise StoreError(f"{self.folder} has layout {layout}, this program reads {LAYOUT}")
        if self._lock is not None:
            self._check_nothing_is_lost(self._one("SELECT committed FROM state")[0])
            if self._one("SELECT seal FROM state")[0] != self._seal():
                raise StoreError(f"{self._db.where} {DAMAGED}")

    def _check_nothing_is_lost(self, committed: int) -> None:
        lost = 0 if self._lock is None else self._lock.committed - committed
        if lost > 0:
            raise StoreError(f"{self._db.where} has lost the last {lost} transaction(s): {RESTORE}")

    def _seal(self) -> int:
        """A checksum of the rows on which all else depends, beside what the database keeps."""
        state = self._one("SELECT config, committed, arrived FROM state")
        with self._explained():
            streams = self._db.execute("SELECT * FROM streams ORDER BY stream").fetchall()
        return segments.checksum(repr([state, streams]).encode())

    def sweep(self) -> None:
        """Delete files that no row knows: a crash came between the file and its row.

        Not before it is certain that the database is the newest: an older one would take the files
        of what it has forgotten.
        """
        with self._explained():
            known = {file for (file,) in self._db.execute("SELECT file FROM segments")}
            for name in sorted(self._files.names() - known):
                failpoint("sweep.unlink")
                self._files.delete(name)

    def close(self) -> None:
        """Let go of the state, when who has a turn at the database is done with it."""
        with self._turn:
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
                yield
                self._db.execute("UPDATE state SET committed = committed + 1")
                self._db.execute("UPDATE state SET seal = ?", (self._seal(),))
                committed = self._one("SELECT committed FROM state")[0]
                failpoint(f"{name}.commit")
                self._db.commit()
            except self._db.errors:
                self.close()
                raise
            except BaseException:
                self._db.rollback()
                raise
            with suppress(OSError):  # only a witness: what it would say is true without it
                self._lock.witness(committed)
        failpoint(f"{name}.done")

    def _one(self, query: str, *values: Any) -> Any:
        """The first row of an answer, None if it has none."""
        with self._explained():
            return self._db.execute(query, values).fetchone()

    # --- records

    def config(self) -> str:
        """The configuration that the state was made with, or given since."""
        return str(self._one("SELECT config FROM state")[0])

    def reconfigure(self, config: str) -> None:
        """Keep another configuration; the caller sees to it that privacy does not depend on it."""
        with self._transaction("configure"):
            self._db.execute("UPDATE state SET config = ?", (config,))

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Within it all that is read is of one moment, whatever another process writes."""
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
        if row is not None and row[1] != segments.checksum(row[0].encode()):
            raise StoreError(f"{self._db.where} {DAMAGED}")
        return None if row is None else str(row[0])

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
                self._db.execute(
                    "DELETE FROM segments WHERE stream = ? AND start >= ?", placed[0][:2]
                )
            self._db.executemany("INSERT INTO segments VALUES (?, ?, ?, ?, ?, ?, ?)", placed)
            self._db.executemany(
                "INSERT INTO quarantine VALUES (?, ?, ?, ?)",
                [(stream, start + bad.slot, bad.reason, bad.payload) for bad in batch.quarantine],
            )
            if batch.source is not None:
                place = str(batch.offset)
                row = (batch.source, place, segments.checksum(place.encode()))
                self._db.execute(KEEP_OFFSET, row)
            if batch.key is not None:
                self._db.execute("INSERT INTO keys VALUES (?, ?)", (stream, batch.key))
        return start + n

    def _check_kind(self, stream: str, records: Records) -> None:
        row = self._one("SELECT kind FROM streams WHERE stream = ?", stream)
        kind = segments.kind(records)
        if row is not None and row[0] != kind:
            raise refuse(f"a batch of {stream}", f"like those before ({row[0]})", kind)

    def _place(self, stream: str, start: int, records: Records, cut: int) -> list[tuple[Any, ...]]:
        """The rows of new records, which replace those that waited from the first of them on.

        Segments end where the stream may be cut off. Until that is reached, or enough have come,
        batches wait by themselves; then they are joined, and go to a file unless they are few.
        """
        stop = start + records.n
        block = "SELECT min(start) FROM segments WHERE stream = ? AND file IS NULL AND start >= ?"
        (waiting,) = self._one(block, stream, start - start % cut)
        rows: list[tuple[Any, ...]] = []
        begin = start if waiting is None else waiting
        try:
            while begin < stop:
                end = min(begin + self._most, begin - begin % cut + cut, stop)
                few = self._few
                if end % cut and end - begin < max(few, min(cut, self._most) // 8):  # to wait
                    begin, few = max(begin, start), self._most
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
            return data.size, segments.checksum(data), None, memoryview(data)
        file, size, checksum = segments.write(self._files, stem, records)
        return size, checksum, file, None

    def read(self, stream: str, span: Span, slots: Slots | None = None) -> Records:
        """The records of a span: read-only views of one segment where that holds them all.

        Given slots, counted from the span's start and ascending, only their records are copied.
        """
        return join([piece.load() for piece in self.pieces(stream, span, slots)])

    def pieces(self, stream: str, span: Span, slots: Slots | None = None) -> list[segments.Stored]:
        """The same, segment by segment; a checksum is verified when a file is first loaded."""
        pieces, reached = [], span.start
        for start, stop, size, checksum, file, data in self._stored(stream, span):
            if start > reached:
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
        return [piece for piece in pieces if piece.n]

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
        """Delete every segment that lies wholly before a slot, and what its quarantine held."""
        old = "FROM segments WHERE stream = ? AND start < ? AND stop <= ?"
        with self._explained():
            query = f"SELECT start, stop, file {old} ORDER BY start"
            gone = self._db.execute(query, (stream, before, before)).fetchall()
        if not gone:
            return
        with self._transaction("forget"):
            self._db.execute(f"DELETE {old}", (stream, before, before))
            self._db.execute(
                "UPDATE quarantine SET payload = NULL WHERE stream = ? AND slot >= ? AND slot < ?",
                (stream, gone[0][0], gone[-1][1]),
            )
        with self._explained():
            for _, _, file in gone:
                if file is not None:
                    failpoint("forget.unlink")
                    self._files.delete(file)
                    self._sound.discard(file)

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
            newest = self.newest()  # refused if it is damaged: what follows is chained to it
            first, previous = (newest.number + 1, newest.hash) if newest else (0, FIRST)
            number = first
            for one in made:
                previous, number = self._insert(stream, one, previous, number)
            self._db.execute("UPDATE streams SET done = ? WHERE stream = ?", (at, stream))
            self._insert_step(Step(stream=stream, span=Span(done, at), evaluation=evaluation))
            if state is not None:
                self._db.execute("UPDATE state SET arrived = ?", (state,))
        return list(self.releases(first))

    def _insert_step(self, step: Step) -> None:
        known = step.evaluation
        paid: tuple[Any, ...] = (None,) * 4
        if known is not None:
            paid = (known.release, str(known.share), known.accuracy, known.deviation)
        row = (step.stream, *step.span, *paid)
        number = "(SELECT coalesce(max(number), 0) + 1 FROM steps)"
        self._db.execute(f"INSERT INTO steps VALUES ({number}, ?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608

    def steps(self, after: int = 0) -> Iterator[Step]:
        """The steps that have been carried out, in the order of their arrival, after so many."""
        query = "SELECT * FROM steps WHERE number > ? ORDER BY number"
        with self._explained():
            for _, stream, start, stop, *paid in self._db.execute(query, (after,)):
                known = None if paid[0] is None else _evaluation(*paid)
                yield Step(stream=stream, span=Span(start, stop), evaluation=known)

    def _released(self) -> int:
        """How many releases there are."""
        return int(self._one("SELECT coalesce(max(release), -1) + 1 FROM fits")[0])

    def _insert(self, stream: str, made: Made, previous: str, number: int) -> tuple[str, int]:
        """Add a fit; what the next release is chained to, and its number."""
        (fit, share), weights = made.line, np.ascontiguousarray(made.weights, "<f8")
        card = dict(made.card)
        place: tuple[int | None, str | None, str | None] = (None, None, None)
        if fit.released:
            card["release"] = number
            chained = seal(card, weights, previous).hash
            previous, place = chained, (number, previous, chained)
        known = {name: value for name, value in fit._asdict().items() if name != "emphasis"}
        if fit.emphasis:
            known["emphasis"] = [(span, str(part)) for span, part in fit.emphasis]
        line = (fit.number, stream, canonical(known), str(share))
        model = (json.dumps(weights.shape), weights.tobytes(), _digest(weights))
        row = (*line, canonical(card), *model, *place)
        self._db.execute(f"INSERT INTO fits VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
        return previous, number + fit.released

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

    def lines(self, stream: str | None = None, after: int = -1) -> Iterator[Line]:
        """What has been charged for fits to the records of a stream, or of all, after a fit."""
        of, values = ("", (after,)) if stream is None else ("AND stream = ?", (after, stream))
        query = f"SELECT fit, share FROM fits WHERE number > ? {of} ORDER BY number"  # noqa: S608
        with self._explained():
            for fit, share in self._db.execute(query, values):
                yield _line(fit, share)

    def verify(self) -> Iterator[Problem]:
        """Read everything, and say what is wrong."""
        with self._explained():
            if self._one("SELECT seal FROM state")[0] != self._seal():
                yield Problem(where=self.database, what=DAMAGED)
            for (source,) in self._db.execute("SELECT source FROM offsets").fetchall():
                yield from _problem(f"the offset of {source}", self.offset, source)
            for what in self._db.problems():
                yield Problem(where=self.database, what=f"{what}; {RESTORE}")
            yield from self._verify_segments()
            yield from self._verify_fits()

    def _verify_segments(self) -> Iterator[Problem]:
        self._sound.clear()
        reached: dict[str, int] = {}
        for segment in self.held():
            stream, (start, stop) = segment.stream, segment.span
            if start != reached.get(stream, start):
                what = f"segments end at {reached[stream]} and go on at {start}"
                yield Problem(where=stream, what=what)
            reached[stream] = stop
            for problem in _problem(segment.file or stream, self.read, stream, segment.span):
                if self._holds(segment):
                    yield problem
        for stream, total in self._db.execute("SELECT stream, count FROM streams"):
            if reached.get(stream, total) != total:
                what = f"segments end at {reached[stream]}, but {total} records were taken"
                yield Problem(where=stream, what=what)

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


def holds_state(folder: Path) -> bool:
    """Whether a state is in a folder, or at least begun."""
    known = Elsewhere.of(folder)
    on_server = known is not None and known.places.database is not None
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
    fields["emphasis"] = tuple(
        Emphasis(Span(*span), Fraction(part)) for span, part in fields.get("emphasis", ())
    )
    return Line(Fit(**fields), Fraction(share))


@readable("a model in the database")
def _weights(shape: str, data: bytes) -> NDArray[np.float64]:
    """The weights of a row, read-only because they are views of bytes."""
    return np.frombuffer(data, "<f8").reshape(json.loads(shape))


def _digest(weights: NDArray[np.float64]) -> str:
    """What a model is known by that is not released and so has no hash."""
    return hashlib.sha256(weights.tobytes()).hexdigest()
