"""JSON lines, in a file or on standard input: a line is a slot."""

import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.gate.sources.columns import Columns, as_json
from tidegate.gate.sources.files import Files, Follow, Part
from tidegate.gate.sources.lines import BLOCK, LONGEST, Bytes, lines, resume
from tidegate.gate.sources.source import RawBatch, SourceError, objects


def json_source(
    name: str, path: str | Path, columns: Columns, *, follow: Follow | None = None
) -> Files:
    """The lines of a file or of a folder of them; with `follow`, as they are added."""
    return Files(name=name, path=Path(path), format=JsonLines(columns=columns), follow=follow)


@dataclass(frozen=True, kw_only=True)
class JsonLines:
    """How JSON lines are read: positions are bytes.

    Every line is a slot and should hold an object with the columns as its keys. A line that does
    not cannot be used, nor one that lacks a column: without a header that is a fact of one record.
    Text is no number here, even if it looks like one.

    Args:
        columns: Which keys are read.
        block: Bytes read at a time.
    """

    columns: Columns
    block: int = BLOCK

    suffix = ".jsonl"

    def parts(self, path: Path, at: int, follow: Follow | None) -> Iterator[Part]:
        """See `Format`."""
        with path.open("rb", buffering=0) as file:
            start, end = resume(file, at)
            for block, here in lines(file, start, follow=follow, block=self.block):
                yield self.part(block, here, last=follow is None and here == end)

    def part(self, block: list[bytes], at: int, *, last: bool) -> Part:
        """The slots of some lines."""
        rows = [_parsed(line) for line in block]
        reasons = {index: row for index, row in enumerate(rows) if isinstance(row, str)}
        X, y = self.slots([{} if isinstance(row, str) else row for row in rows])
        return Part(X, y, partial(_arrived, block), reasons, at, last)

    def slots(self, objs: Sequence[Mapping[str, Any]]) -> tuple[Any, NDArray[np.object_]]:
        """The records and labels of some objects: what an object lacks cannot be used."""
        *record, label = self.columns.names
        if self.columns.text is not None:
            texts = [row.get(self.columns.text) for row in objs]
            X: Any = objects([text if isinstance(text, str) else None for text in texts])
        else:
            values = [[_number(row.get(name)) for row in objs] for name in record]
            X = self.columns.matrix([np.array(column) for column in values], len(objs))
        return X, objects([row.get(label) for row in objs])


@dataclass(frozen=True, kw_only=True, eq=False)
class StandardInput:
    """JSON lines from a pipe, which has no positions.

    After a restart the sender must send the stream again from its beginning: what was taken is
    skipped, and a stream that starts with anything else is refused. A record that is taken
    twice would pay twice, and one that is skipped unseen would be lost.

    Args:
        name: What the offset is kept under.
        columns: Which keys are read.
        stream: The pipe, unbuffered, so that a read returns what has arrived.
    """

    name: str
    columns: Columns
    stream: Bytes

    def batches(self, offset: str | None) -> Iterator[RawBatch]:
        """See `Source`; an offset is a position and a checksum of all up to it."""
        at, checksum = (0, 0) if offset is None else self._skip(offset)
        lines_of = JsonLines(columns=self.columns)
        for block, here in lines(summed := _Summed(self.stream, at, checksum), at):
            part = lines_of.part(block, here, last=False)
            yield RawBatch(
                X=part.X,
                y=part.y,
                offset=f"{here}:{summed.upto(here)}",
                arrived=part.arrived,
                reasons=part.reasons,
            )

    def _skip(self, offset: str) -> tuple[int, int]:
        try:
            at, checksum = map(int, offset.split(":"))
        except ValueError as error:
            raise SourceError("the offset is not one of standard input") from error
        left, found = at, 0
        while left and (data := self.stream.read(min(left, BLOCK))):
            left, found = left - len(data), zlib.crc32(data, found)
        if left or found != checksum:
            raise SourceError(
                f"standard input does not start with the {at} bytes that were taken from it before:"
                " send the stream again from its beginning"
            )
        return at, checksum


class _Summed:
    """Bytes that are read through, with the checksum of all up to a position."""

    def __init__(self, stream: Bytes, at: int, checksum: int) -> None:
        self._stream, self._at, self._checksum, self._ahead = stream, at, checksum, b""

    def read(self, size: int, /) -> bytes | None:
        """Some bytes."""
        data = self._stream.read(size)
        self._ahead += data or b""
        return data

    def upto(self, at: int) -> int:
        """The checksum of all bytes before a position that has been read."""
        size = at - self._at
        self._checksum = zlib.crc32(self._ahead[:size], self._checksum)
        self._at, self._ahead = at, self._ahead[size:]
        return self._checksum


def _parsed(line: bytes) -> dict[str, Any] | str:
    """The object a line holds, or why it holds none."""
    if len(line) > LONGEST:
        return f"longer than {LONGEST} bytes"
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
