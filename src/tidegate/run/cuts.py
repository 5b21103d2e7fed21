"""Cuts the slots of a fit into parts, however the records are stored."""

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil
from pathlib import Path

from tidegate.data.records import Piece, Records, join
from tidegate.learn.objective import CHUNK


def equal_sizes(n: int, size: int) -> tuple[int, ...]:
    """Cut n slots into parts of `size` slots; the last part holds the remainder.

    >>> equal_sizes(10, 4), equal_sizes(3, 4)
    ((4, 4, 2), (3,))
    """
    rest = (n % size,) if n % size else ()
    return (size,) * (n // size) + rest


def part_sizes(n: int, workers: int, most: int) -> tuple[int, ...]:
    """Cut n slots into parts of at most `most` slots, about equally many slots per worker.

    A part's size is rounded up, by at most an eighth, to a multiple of a power of two, so that few
    parts begin in the middle of a segment.

    >>> part_sizes(70_000, 2, 2**22), part_sizes(10_000_000, 2, 2**22)
    ((36864, 33136), (3407872, 3407872, 3184256))
    """
    even = ceil(n / max(workers, ceil(n / most)))
    unit = max(CHUNK, power_of_two(even // 8))
    return equal_sizes(n, min(ceil(even / unit) * unit, most))


def power_of_two(number: int) -> int:
    """The largest power of two that is at most `number`, and 1 for numbers below 1.

    >>> power_of_two(5), power_of_two(0)
    (4, 1)
    """
    return 1 << max(0, number.bit_length() - 1)


@dataclass(frozen=True)
class Run:
    """Pieces that are loaded together; its repr shows no record."""

    pieces: tuple[Piece, ...] = field(repr=False)

    @property
    def n(self) -> int:
        """How many slots there are."""
        return sum(piece.n for piece in self.pieces)

    def ahead(self) -> None:
        """Start fetching the pieces."""
        for piece in self.pieces:
            piece.ahead()

    def load(self) -> Records:
        """Load all pieces."""
        return join([piece.load() for piece in self.pieces])


def gathered(pieces: Sequence[Piece], least: int) -> tuple[Run, ...]:
    """Group neighbouring pieces into runs of at least `least` slots; the last may have fewer.

    >>> import numpy as np
    >>> slots = Records(np.eye(5), np.zeros(5, np.intp), np.ones(5, np.bool_))
    >>> [[piece.n for piece in run.pieces] for run in gathered([slots] * 5, 8)]
    [[5, 5], [5, 5], [5]]
    """
    runs: list[list[Piece]] = [[]]
    for piece in pieces:
        if sum(each.n for each in runs[-1]) >= least:
            runs.append([])
        runs[-1].append(piece)
    return tuple(Run(tuple(run)) for run in runs)


@dataclass(frozen=True)
class Some:
    """Consecutive slots of a piece; see `Piece`."""

    piece: Piece = field(repr=False)
    start: int
    stop: int

    @property
    def n(self) -> int:
        """See `Piece`."""
        return self.stop - self.start

    @property
    def place(self) -> Path | None:
        """See `Piece`."""
        return self.piece.place

    def ahead(self) -> None:
        """See `Piece`."""
        self.piece.ahead()

    def load(self) -> Records:
        """See `Piece`."""
        return self.piece.load().take(slice(self.start, self.stop))


def shared_out(pieces: Sequence[Piece], sizes: Sequence[int]) -> tuple[Run, ...]:
    """Regroup neighbouring pieces into runs of the given sizes, without loading them.

    >>> import numpy as np
    >>> slots = Records(np.eye(5), np.zeros(5, np.intp), np.ones(5, np.bool_))
    >>> [[piece.n for piece in run.pieces] for run in shared_out([slots] * 3, (7, 8))]
    [[5, 2], [3, 5]]
    """
    edges = list(accumulate(sizes, initial=0))
    begins = accumulate((piece.n for piece in pieces), initial=0)
    runs: list[list[Piece]] = [[] for _ in sizes]
    for piece, begin in zip(pieces, begins, strict=False):
        for number in range(bisect(edges, begin) - 1, len(sizes)):
            start, stop = max(edges[number] - begin, 0), min(edges[number + 1] - begin, piece.n)
            if start >= stop:
                break
            runs[number].append(_some(piece, start, stop))
    return tuple(Run(tuple(run)) for run in runs)


def _some(piece: Piece, start: int, stop: int) -> Piece:
    """Consecutive slots of a piece; if it is in memory, only these are sent to a worker."""
    if stop - start == piece.n:
        return piece
    if isinstance(piece, Records):
        return piece.take(slice(start, stop))
    return Some(piece, start, stop)
