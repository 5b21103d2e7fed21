"""Bytes into lines: a line is a slot, whatever it holds."""

import io
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from tidegate.gate.sources.source import SourceError

BLOCK = 2**22
"""Bytes read at a time."""

LONGEST = 2**24
"""Bytes of the longest line that is read; of a longer one only this many are kept."""


class Bytes(Protocol):
    """What bytes are read from: a read returns what there is, up to so many bytes."""

    def read(self, size: int, /) -> bytes | None:
        """Some bytes, none at the end of what there is."""


class Lines(NamedTuple):
    """Lines one after the other, and the position after them."""

    lines: list[bytes]
    at: int


def lines(
    file: Bytes,
    at: int,
    *,
    follow: Callable[[], bool] | None = None,
    block: int = BLOCK,
    longest: int = LONGEST,
) -> Iterator[Lines]:
    r"""All lines of a file that stands at a position, in blocks of as many as were read at once.

    A line ends at a line feed and nowhere else: quotes mean nothing here, for an open one would
    take the records after it along. The last line may lack its line feed, unless the file is
    followed: then it is not complete yet.

    Args:
        file: Where to read.
        at: The position it stands at.
        follow: Called at the end of what there is: whether to look again. None is never.
        block: Bytes to read at a time.
        longest: How much of a line is kept, but for one byte that shows that it was cut.

    >>> import io
    >>> list(lines(io.BytesIO(b"one\ntwo\n\nfour"), 0, block=6))
    [Lines(lines=[b'one'], at=4), Lines(lines=[b'two', b''], at=9), Lines(lines=[b'four'], at=13)]
    """
    rest, dropped = b"", 0  # the line that is not complete, and what was cut off it
    while True:
        data = file.read(block)
        if data:
            at += len(data)
            first, *others = data.split(b"\n")
            dropped += max(0, len(rest) + len(first) - longest - 1)
            rest = (rest + first)[: longest + 1]
            if others:
                complete = [rest, *(line[: longest + 1] for line in others[:-1])]
                rest = others[-1][: longest + 1]
                dropped = len(others[-1]) - len(rest)
                yield Lines(complete, at - len(rest) - dropped)
        elif follow is None or not follow():
            break
    if rest and follow is None:
        yield Lines([rest], at)


def resume(file: io.FileIO, at: int) -> tuple[int, int]:
    """Put a file of lines where it was left, or as far as its next line; that and the size.

    A file that was read to its end may have lacked the last line feed, and got it since.
    """
    size = file.seek(0, io.SEEK_END)
    if at > size:
        raise SourceError(
            f"{file.name} has {size} bytes, but {at} were read before: it may only grow"
        )
    file.seek(max(at - 1, 0))
    if 0 < at < size and file.read(1) != b"\n":
        if file.read(1) != b"\n":
            raise SourceError(f"the line of {file.name} that was the last when read has grown")
        at += 1
    return file.seek(at), size
