"""JSON lines, in a file or on standard input: each line is a slot."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from tidegate.features.spelling import only_texts
from tidegate.gate.sources.absent import Unseen
from tidegate.gate.sources.chain import Chain, ChangedError, Seen, Start
from tidegate.gate.sources.columns import CHUNK, SourceColumns, as_json
from tidegate.gate.sources.files import IN_CONFIG, Follow, Part
from tidegate.gate.sources.lines import (
    MAX_LINE_BYTES,
    Bytes,
    ReadThrough,
    Splitter,
    check_passed,
    check_same,
    count_lines,
    lines_after,
    multiples,
    stops,
    tails_of_bytes,
)
from tidegate.gate.sources.place import Place, as_count, consented, mark
from tidegate.gate.sources.source import OTHER_SOURCE, RawBatch, SourceError, joined, objects

OLD_OFFSET = re.compile("([0-9]+):([0-9]+)")
"""An offset of version 0.1.0: a position and the CRC-32 of everything before it."""

NOT_STANDARD_INPUT = f"the offset is not one of standard input: {OTHER_SOURCE}"

PIPE = "-"
"""The file name of standard input in an offset."""


@dataclass(frozen=True, kw_only=True)
class JsonLines:
    """Reads JSON lines: positions are bytes.

    Every line is a slot and must hold an object with the columns as its keys. A line that is not
    such an object, or lacks a column, cannot be used. Text is not a number, even if it looks like
    one.
    """

    columns: SourceColumns
    count: int | None = None  # records in a batch; by default it depends on the columns

    suffix = ".jsonl"
    tails = staticmethod(tails_of_bytes)

    def parts(self, path: Path, start: Start, follow: Follow | None) -> Iterator[Part]:
        """See `Format`."""
        count = self.count or self.columns.batch
        with path.open("rb", buffering=0) as file:
            for lines, seen, last in lines_after(file, b"", start, count, follow):
                yield self.part(lines), seen, last

    def records(self, path: Path) -> int:
        """See `Format`."""
        return count_lines(path, 0)

    @staticmethod
    def parsed(line: bytes) -> dict[str, Any] | str:
        """The object in a line, or the reason why it cannot be read."""
        return _parsed(line)

    def part(self, block: list[bytes]) -> RawBatch:
        """A batch of lines."""
        reasons: dict[int, str] = {}
        made, persons, unseen = [], list[Any](), self.unseen()
        for start in range(0, len(block), CHUNK):  # in chunks: objects take more memory than floats
            rows = [_parsed(line) for line in block[start : start + CHUNK]]
            bad = {start + i: row for i, row in enumerate(rows) if isinstance(row, str)}
            reasons.update(bad)
            objs: list[Mapping[str, Any]] = [{} if isinstance(row, str) else row for row in rows]
            made.append(self.slots(objs))
            persons += self.persons(objs) or ()
            unseen.look([row for row in rows if not isinstance(row, str)])
        X, y = zip(*made, strict=True) if made else zip(self.slots([]), strict=True)
        arrived = partial(_arrived, block)
        return RawBatch(
            X=joined(X),
            y=np.concatenate(y),
            arrived=arrived,
            persons=None if self.columns.person is None else persons,
            reasons=reasons,
            absent=unseen.found(),
        )

    def unseen(self) -> Unseen:
        """Looks for columns that no object has."""
        return Unseen(map(self.columns.called, self.columns.read))

    def slots(self, objs: Sequence[Mapping[str, Any]]) -> tuple[Any, NDArray[np.object_]]:
        """The records and labels of some objects, with NaN or None for missing keys."""
        *record, label = map(self.columns.called, self.columns.names)
        if self.columns.text is not None:
            text = self.columns.called(self.columns.text)
            texts = [row.get(text) for row in objs]
            X: Any = objects(only_texts(texts, self.columns.spelling))
        elif self.columns.kinds is not None:
            X = self.columns.table([[row.get(name) for row in objs] for name in record], len(objs))
        else:
            values = [[_number(row.get(name)) for row in objs] for name in record]
            X = self.columns.matrix([np.array(column) for column in values], len(objs))
        return X, objects([row.get(label) for row in objs])

    def persons(self, objs: Sequence[Mapping[str, Any]]) -> list[Any] | None:
        """The ids in some objects, None for missing ones; None if no ids are read."""
        name = self.columns.person
        return None if name is None else [row.get(self.columns.called(name)) for row in objs]


@dataclass(frozen=True, kw_only=True, eq=False)
class StandardInput:
    """JSON lines from a pipe, in which reading cannot start at a position.

    After a restart the sender must send the stream again from its beginning. What was taken is
    skipped; a stream that begins differently is refused, since records could pay twice or be lost.

    Args:
        name: The name under which the offset is kept.
        columns: Which keys are read.
        stream: The pipe, unbuffered, so that a read returns what has arrived.
        step: Batches also end at multiples of this, so that a complete step need not wait.
        resume: The mark of an offset that cannot be continued, and how many records to skip
            instead.
    """

    name: str
    columns: SourceColumns
    stream: Bytes
    step: int | None = None
    resume: tuple[str, str] | None = None

    def batches(self, offset: str | None) -> Iterator[RawBatch]:
        """See `Source`; an empty batch means that more records have to arrive."""
        place, passed = Place(file=PIPE, seen=Seen(at=0, row=0), records=0), 0
        before = place if offset is None else _place(offset)
        through = ReadThrough(self.stream, Chain(before.seen.block))
        if offset is not None:
            if (instead := consented(offset, self.resume)) is not None:
                place, passed = replace(place, records=before.records), as_count(instead)
            else:
                place = _passed_over(through, before, offset)
        size = self.columns.batch
        ends = stops([passed], multiples(size, self.step or size))
        split = Splitter(ends=ends, at=through.chain.at, row=place.seen.row or 0)
        for lines in _as_they_arrive(through, split):
            through.upto(split.at)
            batch = JsonLines(columns=self.columns).part(lines if split.row > passed else [])
            place = place.moved(through.chain.seen(split.row, None), batch.n)
            yield replace(batch, offset=place.text())
        check_passed("standard input", split.row, passed)


def _as_they_arrive(through: ReadThrough, split: Splitter) -> Iterator[list[bytes]]:
    """The lines of a pipe in batches, with an empty list after each read."""
    while data := through.read():
        yield from split.feed(data)
        yield []
    if lines := split.end():
        yield lines


def _place(offset: str) -> Place:
    """The position in standard input, from an offset of this version or of 0.1.0."""
    try:
        if old := OLD_OFFSET.fullmatch(offset):
            return Place(file=PIPE, seen=Seen(at=int(old[1])))
        place = Place.of(offset)
    except ValueError as error:
        raise SourceError(NOT_STANDARD_INPUT) from error
    if place.file != PIPE:
        raise SourceError(NOT_STANDARD_INPUT)
    return place


def _passed_over(through: ReadThrough, before: Place, offset: str) -> Place:
    """Skip what was taken before, which must come first."""
    seen, row, checksum, last = before.seen, 0, 0, b"\n"
    for data in through.pieces(seen.at):
        row, checksum, last = row + data.count(b"\n"), crc32(data, checksum), data[-1:]
    row += last != b"\n"
    here = through.chain.seen(row, None)
    try:
        check_same(through.chain, here if f"{here.at}:{checksum}" == offset else seen)
        if last != b"\n":
            through.end_line()
    except ChangedError as error:
        how = "send the stream again from its beginning"
        if seen.row is not None:
            add_resume = IN_CONFIG.format(mark(offset), seen.row)
            how += f", or to continue after its first {seen.row} records {add_resume}"
        raise SourceError(f"standard input {error}: {how}, see docs/sources.md") from error
    return replace(before, seen=here, records=before.records or row)


def _parsed(line: bytes) -> dict[str, Any] | str:
    """The object in a line, or the reason why it cannot be read."""
    if len(line) > MAX_LINE_BYTES:
        return f"longer than {MAX_LINE_BYTES} bytes"
    try:
        value = json.loads(line.decode())
    except UnicodeDecodeError:
        return "not UTF-8"
    except (ValueError, RecursionError):
        return "not JSON"
    return value if isinstance(value, dict) else "not a JSON object"


def _number(value: object) -> float:
    if not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _arrived(block: list[bytes], index: int) -> str:
    line = block[index]
    return as_json({"line": line}) if isinstance(_parsed(line), str) else line.decode()
