"""Bytes into lines: a line is a slot, whatever it holds."""

import io
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from tidegate.gate.sources.chain import BYTES, Chain, ChangedError, Seen, Start, resumed
from tidegate.gate.sources.source import SourceError

BLOCK = 2**22
"""Bytes read at a time."""

LONGEST = 2**24
"""Bytes of the longest line that is read; of a longer one only this many are kept."""

Ends = Callable[[int], int]
"""At which record a batch ends that starts with a given one: a matter of counts alone."""


def multiples(*counts: int) -> Ends:
    """Batches end wherever the number of records is a multiple of one of these.

    >>> ends = multiples(100, 64)
    >>> ends(0), ends(64), ends(100)
    (64, 100, 128)
    """
    return lambda row: min(row - row % count + count for count in counts)


def stops(rows: Iterable[int], ends: Ends) -> Ends:
    """Batches also end before these records.

    >>> ends = stops([70], multiples(64))
    >>> ends(0), ends(64), ends(70)
    (64, 70, 128)
    """
    known = sorted(rows)
    return lambda row: min([ends(row), *known[bisect_right(known, row) :][:1]])


@dataclass(kw_only=True)
class Splitter:
    r"""Bytes taken apart into lines, in batches that end at fixed counts.

    A line ends at a line feed and nowhere else: quotes mean nothing here, for an open one would
    take the records after it along. Neither how long lines are nor how many bytes come at a time
    decides where a batch ends.

    >>> splitter = Splitter(ends=multiples(2))
    >>> list(splitter.feed(b"one\ntw")), list(splitter.feed(b"o\n\nfour")), splitter.at
    ([], [[b'one', b'two']], 8)
    >>> splitter.end(), splitter.at
    ([b'', b'four'], 13)
    """

    ends: Ends
    at: int = 0  # the position of what was handed out
    row: int = 0  # how many lines there are before it
    longest: int = LONGEST  # how much of a line is kept, but for a byte that shows that it was cut
    _whole: list[bytes] = field(default_factory=list, init=False)
    _rest: bytes = field(default=b"", init=False)  # of the line that is not complete
    _dropped: int = field(default=0, init=False)  # what was cut off it
    _lost: dict[int, int] = field(default_factory=dict, init=False)  # and off others, by their row

    def feed(self, data: bytes) -> Iterator[list[bytes]]:
        """Add bytes; the batches that they complete."""
        first, *others = data.split(b"\n")
        self._begin(self._rest + first, self._dropped)
        if others:
            self._end_line(1)
            self._whole += others[:-1]
            self._begin(others[-1], 0)
        while len(self._whole) >= (room := self.ends(self.row) - self.row):
            yield self._batch(room)

    def flush(self) -> list[bytes]:
        """The complete lines that wait for their batch to be full."""
        return self._batch(len(self._whole))

    def end(self) -> list[bytes]:
        """The lines that wait, and the last one, which may lack its line feed."""
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
        return [line[: self.longest + 1] for line in some]


class Bytes(Protocol):
    """What bytes are read from: a read returns what there is, up to so many bytes."""

    def read(self, size: int, /) -> bytes | None:
        """Some bytes, none at the end of what there is."""


class ReadThrough:
    """A file that is read through, with the chain of its bytes up to a position."""

    def __init__(self, file: Bytes, chain: Chain) -> None:
        self._file, self.chain, self._ahead = file, chain, bytearray()

    def read(self) -> bytes:
        """Some bytes, none at the end of what there is."""
        data = self._file.read(BLOCK) or b""
        self._ahead += data
        return data

    def upto(self, at: int) -> None:
        """Add all bytes before a position that has been read to the chain."""
        size = at - self.chain.at
        with memoryview(self._ahead) as ahead, ahead[:size] as some:
            self.chain.add_bytes(some)
        del self._ahead[:size]

    def pieces(self, at: int) -> Iterator[bytes]:
        """Read on to a position, or to the end of what there is if that comes first."""
        while (left := at - self.chain.at) and (data := self._file.read(min(left, BLOCK))):
            self.chain.add_bytes(data)
            yield data

    def pass_over(self, at: int) -> None:
        """Read on to a position without a look at what is passed over."""
        for _ in self.pieces(at):
            pass

    def end_line(self) -> None:
        """Pass over the line feed of a line that was taken without one; refused if it goes on."""
        following = self._file.read(1) or b""
        if following not in {b"", b"\n"}:
            raise ChangedError(
                "had no line feed at its end when it was read, and its last line has grown since",
                "cut off what was added to it",
            )
        self.chain.add_bytes(following)


def lines_after(
    file: io.FileIO,
    header: bytes,
    start: Start,
    count: int,
    follow: Callable[[], bool] | None,
) -> Iterator[tuple[list[bytes], Seen, bool]]:
    """The lines of a file after what was read of it, which must still be there.

    With some of them comes what was read with them, and whether the file ends there. Each time they
    are `count`, but for the last before the end of what there is. The last line of all may lack its
    line feed, unless the file is followed: then it is not complete yet.
    """
    named = sha256(header.rstrip(b"\r\n")).hexdigest() if header else None
    size = file.seek(0, io.SEEK_END)
    if start.seen is None:
        file.seek(0)
        through, row = ReadThrough(file, Chain(BYTES)), 0
        through.pass_over(len(header))
    elif start.seen.at > size:
        raise ChangedError(f"has {size} bytes, but {start.seen.at} were read before")
    elif start.seen.chain is None and start.seen.at == size:
        return  # nothing is new, and there is nothing to check
    elif start.seen.chain is not None and start.seen.header != named:
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


def check_passed(where: str, found: int, passed: int) -> None:
    """Refuse to pass over more records than there are."""
    if found < passed:
        told = f"{where} has {found} records, fewer than the {passed} that resume names"
        raise SourceError(f"{told}: name at most {found}")


def _taken_up(file: io.FileIO, seen: Seen, head: int, *, thorough: bool) -> tuple[ReadThrough, int]:
    """A file that was read before, behind what was read, and how many records that were."""
    chain = resumed(seen, thorough=thorough)
    file.seek(chain.at)
    through = ReadThrough(file, chain)
    if seen.row is None or seen.chain is None:  # version 0.1.0 kept a position only
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
    """Refuse a file that does not start with what was read of it."""
    if (chain.at, chain.tail) != (seen.at, seen.tail):
        raise ChangedError("does not start with what was read of it before")


def _counted(through: ReadThrough, head: int, at: int) -> int:
    """Read on to a position; how many lines there are after the header."""
    row, last, start = 0, b"\n", 0
    for data in through.pieces(at):
        row += data.count(b"\n", max(0, head - start))
        start, last = start + len(data), data[-1:]
    return row + (last != b"\n" and at > head)


def count_lines(path: Path, head: int) -> int:
    """How many lines a file has after its header."""
    with path.open("rb", buffering=0) as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        return _counted(ReadThrough(file, Chain(BYTES)), head, size)


def tails_of_bytes(path: Path, seen: list[Seen]) -> dict[Seen | None, str]:
    """The digests of as much of a file as was read of others, and under None of all of it."""
    found: dict[Seen | None, str] = {}
    with path.open("rb", buffering=0) as file:
        size = file.seek(0, io.SEEK_END)
        for block in {BYTES, *(each.block for each in seen)}:
            file.seek(0)
            through = ReadThrough(file, Chain(block))
            alike = [each for each in seen if each.block == block and each.at <= size]
            for each in sorted(alike, key=lambda one: one.at):
                through.pass_over(each.at)
                found[each] = through.chain.tail
            if block == BYTES:
                through.pass_over(size)
                found[None] = through.chain.tail
    return found
