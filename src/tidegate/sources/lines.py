"""Splits files of lines into slots: each line is one, whatever it holds."""

import io
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from tidegate.sources.file_offset import BYTES, Chain, ChangedError, Seen, Start, resumed
from tidegate.sources.source import SourceError

BLOCK = 2**22
"""Bytes read at a time."""

MAX_LINE_BYTES = 2**24
"""The most bytes that are kept of a line."""

TOO_LONG = f"longer than {MAX_LINE_BYTES // 2**20} MiB"
"""When a line cannot be used for its length, in words."""

Ends = Callable[[int], int]
"""Where a batch ends, given the record at which it starts; it depends on counts alone."""


def multiples(*counts: int) -> Ends:
    """End batches at multiples of each of these counts.

    >>> ends = multiples(100, 64)
    >>> ends(0), ends(64), ends(100)
    (64, 100, 128)
    """
    return lambda row: min(row - row % count + count for count in counts)


def stops(rows: Iterable[int], ends: Ends) -> Ends:
    """End batches before these records too.

    >>> ends = stops([70], multiples(64))
    >>> ends(0), ends(64), ends(70)
    (64, 70, 128)
    """
    ordered = sorted(rows)
    return lambda row: min([ends(row), *ordered[bisect_right(ordered, row) :][:1]])


@dataclass(kw_only=True)
class Splitter:
    r"""Splits bytes into lines, in batches that end at fixed counts.

    A line ends only at a line feed. Quotes are ignored here, since an unclosed one would consume
    the following records. The length of lines and of reads does not affect where a batch ends.

    >>> splitter = Splitter(ends=multiples(2))
    >>> list(splitter.feed(b"one\ntw")), list(splitter.feed(b"o\n\nfour")), splitter.at
    ([], [[b'one', b'two']], 8)
    >>> splitter.end(), splitter.at
    ([b'', b'four'], 13)
    """

    ends: Ends
    at: int = 0  # the position after the lines that were returned
    row: int = 0  # the number of those lines
    longest: int = MAX_LINE_BYTES  # bytes kept of a line; one more shows that it was cut
    _whole: list[bytes] = field(default_factory=list, init=False)
    _rest: bytes = field(default=b"", init=False)  # the incomplete last line
    _dropped: int = field(default=0, init=False)  # bytes cut off it
    _lost: dict[int, int] = field(default_factory=dict, init=False)  # bytes cut off others, by row

    def feed(self, data: bytes) -> Iterator[list[bytes]]:
        """Add bytes, and yield the batches that they complete."""
        first, *others = data.split(b"\n")
        self._begin(self._rest + first, self._dropped)
        if others:
            self._end_line(1)
            self._whole += others[:-1]
            self._begin(others[-1], 0)
        while len(self._whole) >= (room := self.ends(self.row) - self.row):
            yield self._batch(room)

    def flush(self) -> list[bytes]:
        """The complete lines of a batch that is not full yet."""
        return self._batch(len(self._whole))

    def end(self) -> list[bytes]:
        """The remaining lines, including a last one without a line feed."""
        if self._rest:
            self._end_line(0)
        return self.flush()

    def _begin(self, line: bytes, dropped: int) -> None:
        self._rest = line[: self.longest + 1]
        self._dropped = dropped + len(line) - len(self._rest)

    def _end_line(self, feed: int) -> None:
        if lost := self._dropped + feed - 1:
            self._lost[self.row + len(self._whole)] = lost
        self._whole.append(self._rest)
        self._begin(b"", 0)

    def _batch(self, n: int) -> list[bytes]:
        some = self._whole[:n]
        del self._whole[:n]
        self.at += sum(map(len, some)) + n
        if self._lost:
            self.at += sum(self._lost.pop(self.row + index, 0) for index in range(n))
        self.row += n
        if n and max(map(len, some)) > self.longest + 1:
            return [line[: self.longest + 1] for line in some]
        return some


class Bytes(Protocol):
    """An unbuffered binary stream: a read returns what is available, up to a size."""

    def read(self, size: int, /) -> bytes | None:
        """The next bytes; none at the end."""


class ReadThrough:
    """Reads a file in order, and keeps the chain of its bytes up to a position."""

    def __init__(self, file: Bytes, chain: Chain) -> None:
        self._file, self.chain, self._ahead = file, chain, bytearray()

    def read(self) -> bytes:
        """The next bytes; none at the end."""
        data = self._file.read(BLOCK) or b""
        self._ahead += data
        return data

    def upto(self, at: int) -> None:
        """Add the bytes read so far to the chain, up to a position."""
        size = at - self.chain.at
        with memoryview(self._ahead) as ahead, ahead[:size] as some:
            self.chain.add_bytes(some)
        del self._ahead[:size]

    def pieces(self, at: int) -> Iterator[bytes]:
        """Read up to a position, or to the end if that comes first."""
        while (left := at - self.chain.at) and (data := self._file.read(min(left, BLOCK))):
            self.chain.add_bytes(data)
            yield data

    def pass_over(self, at: int) -> None:
        """Skip to a position, adding the bytes to the chain."""
        for _ in self.pieces(at):
            pass

    def end_line(self) -> None:
        """Skip the line feed of a line that was taken without one; ChangedError if it has grown."""
        following = self._file.read(1) or b""
        if following not in {b"", b"\n"}:
            raise ChangedError(
                "had no line feed at its end when it was read, and its last line has grown since",
                "remove what was added to this line",
            )
        self.chain.add_bytes(following)


def lines_after(
    file: io.FileIO,
    header: bytes,
    start: Start,
    count: int,
    follow: Callable[[], bool] | None,
) -> Iterator[tuple[list[bytes], Seen, bool]]:
    """The lines of a file after `start`, in batches of `count`; the last may be smaller.

    Each batch comes with the position after it, and whether the file ends there. What was read
    before must be unchanged. In a followed file, a last line without a line feed is incomplete.
    """
    named = sha256(header.rstrip(b"\r\n")).hexdigest() if header else None
    size = file.seek(0, io.SEEK_END)
    if not start.seen.at:
        file.seek(0)
        through, row = ReadThrough(file, Chain(BYTES)), 0
        through.pass_over(len(header))
    elif start.seen.at > size:
        raise ChangedError(f"has {size} bytes, but {start.seen.at} were read before")
    elif not start.seen.digested and start.seen.at == size:
        return  # nothing new, and no digest to check
    elif start.seen.digested and start.seen.header != named:
        raise ChangedError("has another header than when it was read")
    else:
        through, row = _taken_up(file, start.seen, len(header), thorough=start.thorough)
    ends = stops([start.passed], multiples(count))
    split = Splitter(ends=ends, at=through.chain.at, row=row)
    for lines in _batches(through, split, follow):
        through.upto(split.at)
        if split.row > start.passed:
            last = follow is None and split.at == size
            yield lines, through.chain.seen(split.row, named), last
    check_passed(str(file.name), split.row, start.passed)


def _batches(
    through: ReadThrough, split: Splitter, follow: Callable[[], bool] | None
) -> Iterator[list[bytes]]:
    while True:
        if data := through.read():
            yield from split.feed(data)
            continue
        if lines := split.end() if follow is None else split.flush():
            yield lines
        if follow is None or not follow():
            return


def check_passed(where: str, present: int, passed: int) -> None:
    """Refuse to skip more records than there are."""
    if present < passed:
        wrong = f"{where} has {present} records, fewer than the {passed} that resume names"
        raise SourceError(f"{wrong}: name at most {present}")


def _taken_up(file: io.FileIO, seen: Seen, head: int, *, thorough: bool) -> tuple[ReadThrough, int]:
    """Check what was read of a file before; the reader after it, and how many records it was."""
    chain = resumed(seen, thorough=thorough)
    file.seek(chain.at)
    through = ReadThrough(file, chain)
    if seen.row is None or not seen.digested:  # version 0.1.0 kept a position only
        row = _counted(through, head, seen.at)
    else:
        row = seen.row
        through.pass_over(seen.at)
        check_same(chain, seen)
    file.seek(max(seen.at - 1, 0))
    if seen.at and file.read(1) != b"\n":
        through.end_line()
    file.seek(chain.at)
    return through, row


def check_same(chain: Chain, seen: Seen) -> None:
    """Refuse a file whose beginning has changed since it was read."""
    if (chain.at, chain.tail) != (seen.at, seen.tail):
        raise ChangedError("does not start with what was read of it before")


def _counted(through: ReadThrough, head: int, at: int) -> int:
    """Read up to a position, and count the lines after the header."""
    row, last, start = 0, b"\n", 0
    for data in through.pieces(at):
        row += data.count(b"\n", max(0, head - start))
        start, last = start + len(data), data[-1:]
    return row + (last != b"\n" and at > head)


def count_lines(path: Path, head: int) -> int:
    """The number of lines of a file after its header."""
    with path.open("rb", buffering=0) as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        return _counted(ReadThrough(file, Chain(BYTES)), head, size)


def tails_of_bytes(path: Path, seen: list[Seen]) -> dict[Seen | None, str]:
    """Digests of a file up to the positions in `seen`, and under None of the whole file."""
    digests: dict[Seen | None, str] = {}
    with path.open("rb", buffering=0) as file:
        size = file.seek(0, io.SEEK_END)
        for block in {BYTES, *(each.block for each in seen)}:
            file.seek(0)
            through = ReadThrough(file, Chain(block))
            alike = [each for each in seen if each.block == block and each.at <= size]
            for each in sorted(alike, key=lambda one: one.at):
                through.pass_over(each.at)
                digests[each] = through.chain.tail
            if block == BYTES:
                through.pass_over(size)
                digests[None] = through.chain.tail
    return digests
