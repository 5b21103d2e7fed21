"""JSON lines, in files or on standard input: each line is a slot."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

from tidegate.sources.configured import Follow, Resume, register
from tidegate.sources.file_offset import (
    Chain,
    ChangedError,
    FileOffset,
    Seen,
    Start,
    as_count,
    consented,
    mark,
)
from tidegate.sources.files import IN_CONFIG, STANDARD_INPUT, Files, Part
from tidegate.sources.json_records import json_batch, parsed
from tidegate.sources.lines import (
    TOO_LONG,
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
from tidegate.sources.source import OTHER_SOURCE, RawBatch, Source, SourceColumns, SourceError

OLD_OFFSET = re.compile("([0-9]+):([0-9]+)")
"""An offset of version 0.1.0: a position and the CRC-32 of everything before it."""

NOT_STANDARD_INPUT = f"the offset is not one of standard input: {OTHER_SOURCE}"


@register
@dataclass(frozen=True, kw_only=True)
class JsonLines(Files):
    """Reads JSON lines, see `json_batch`: positions are bytes, and every line is a slot."""

    type = "jsonl"
    about = "files of JSON lines, or standard input"
    suffix = ".jsonl"
    unusable_line = f"its line is not a JSON object in UTF-8, or is {TOO_LONG}"
    odd_number = "text, "

    tails = staticmethod(tails_of_bytes)

    def __post_init__(self) -> None:
        """Take standard input too."""

    def opened(self, name: str, columns: SourceColumns, *, wait: Follow, step: int) -> Source:
        """See `ConfiguredSource`; batches of standard input also end with each step."""
        if not self.piped:
            return super().opened(name, columns, wait=wait, step=step)
        pipe = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115 (not ours to close)
        return StandardInput(name=name, columns=columns, stream=pipe, step=step, resume=self.resume)

    def parts(self, path: Path, start: Start, follow: Follow | None) -> Iterator[Part]:
        """See `Files`."""
        count = self.count or self.columns.batch
        with path.open("rb", buffering=0) as file:
            for lines, seen, last in lines_after(file, b"", start, count, follow):
                yield json_batch(lines, self.columns), seen, last

    def records(self, path: Path) -> int:
        """See `Files`."""
        return count_lines(path, 0)

    def header(self, path: Path) -> None:
        """See `Files`: the keys of an object belong to its record."""

    def sample(self, path: Path, most: int) -> dict[str, list[Any]]:
        """See `Files`."""
        with path.open("rb") as file:
            rows = [row for row in map(parsed, islice(file, most)) if isinstance(row, dict)]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}


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
    resume: Resume | None = None

    def __str__(self) -> str:
        return "standard input"

    def batches(self, offset: str | None) -> Iterator[RawBatch]:
        """See `Source`; an empty batch means that more records have to arrive."""
        place, passed = FileOffset(file=STANDARD_INPUT, seen=Seen(at=0, row=0), records=0), 0
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
            batch = json_batch(lines if split.row > passed else [], self.columns)
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


def _place(offset: str) -> FileOffset:
    """The position in standard input, from an offset of this version or of 0.1.0."""
    try:
        if old := OLD_OFFSET.fullmatch(offset):
            return FileOffset(file=STANDARD_INPUT, seen=Seen(at=int(old[1])))
        place = FileOffset.of(offset)
    except ValueError as error:
        raise SourceError(NOT_STANDARD_INPUT) from error
    if place.file != STANDARD_INPUT:
        raise SourceError(NOT_STANDARD_INPUT)
    return place


def _passed_over(through: ReadThrough, before: FileOffset, offset: str) -> FileOffset:
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
