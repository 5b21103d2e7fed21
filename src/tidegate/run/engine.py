"""Engines, which turn the stored pieces of a fit's records into `Parts`, and where parts end."""

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import ceil
from pathlib import Path
from typing import Any, Generic, Protocol

import numpy as np
from scipy import sparse

from tidegate.data.records import Cut, Part, Parts, Piece, Records, Result, join, merged
from tidegate.data.rows import Rows
from tidegate.learn.objective import CHUNK, LARGEST_CHUNK


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


MAX_IN_MEMORY_SLOTS = 2**16
"""Every engine makes fits of up to this many slots in memory."""

BLOCK = 2**18
"""Entries of dense rows processed at a time: few enough to stay in a core's cache."""

PAGE = 4096
"""Bytes read from disk together."""


class Engine(Protocol):
    """Computes the sums of a fit; the noise is drawn elsewhere.

    Parts may end anywhere: what a slot adds to a sum depends on that slot alone (lemma 4 of
    docs/proofs/gradient.md).
    """

    def parts(self, pieces: Sequence[Piece], form: Rows) -> Parts[Records]:
        """The records of a fit.

        Args:
            pieces: The stored pieces of the records, in order.
            form: An empty array of the width, dtype and kind (dense or sparse) of all pieces.
        """

    def close(self) -> None:
        """Release all resources kept for further fits."""


class Memory:
    """Joins the records of a fit in memory.

    >>> import numpy as np
    >>> one = Records(np.eye(2), np.zeros(2, np.intp), np.ones(2, np.bool_))
    >>> Memory().parts([one, one], one.form).n
    4
    """

    def parts(self, pieces: Sequence[Piece], form: Rows) -> Records:
        """See `Engine`."""
        del form
        return join([piece.load() for piece in pieces])

    def close(self) -> None:
        """See `Engine`."""


@dataclass(frozen=True)
class Disk:
    """Reads the records of a fit piece by piece at every pass, never holding them all.

    Args:
        small: Fits of up to this many slots are held in memory nevertheless.

    >>> import numpy as np
    >>> one = Records(np.ones((200, 2**12)), np.zeros(200, np.intp), np.ones(200, np.bool_))
    >>> parts = Disk(small=100).parts([one, one.take(slice(5))], one.form)
    >>> parts.sizes, parts.fold(lambda part: part.n, lambda one, other: one + other)
    ((64, 64, 64, 8, 5), 205)
    """

    small: int = MAX_IN_MEMORY_SLOTS

    def parts(self, pieces: Sequence[Piece], form: Rows) -> Parts[Records]:
        """See `Engine`."""
        n = sum(piece.n for piece in pieces)
        if n <= self.small:
            return Memory().parts(pieces, form)
        # A power of two, as segments have: few parts are smaller.
        rows = max(CHUNK, power_of_two(BLOCK // max(1, form.shape[1])))
        most = LARGEST_CHUNK if sparse.issparse(form) else rows
        runs = gathered(pieces, most)
        sizes = tuple(size for run in runs for size in equal_sizes(run.n, most))
        return OnDisk(runs=runs, most=most, make=same, sizes=sizes, form=form)

    def close(self) -> None:
        """See `Engine`."""


@dataclass(frozen=True, kw_only=True)
class OnDisk(Cut, Generic[Part]):
    """Parts that are read at every pass, while another thread fetches the next ones."""

    runs: tuple[Run, ...]  # loaded one at a time
    most: int  # slots of a part
    make: Callable[[Records], Part]  # applied to every part first

    def map(self, make: Callable[[Part], Any]) -> Parts[Any]:
        """See `Parts`: at each pass."""
        return replace(self, make=Then(self.make, make))

    def fold(
        self, work: Callable[[Part], Result], merge: Callable[[Result, Result], Result]
    ) -> Result:
        """See `Parts`."""
        result: Result = merged(map(Then(self.make, work), self._parts()), merge)
        return result

    def _parts(self) -> Iterator[Records]:
        for run in self._loaded():
            for start in range(0, run.n, self.most):
                yield run.take(slice(start, start + self.most))
            del run  # free it before the run after next is loaded

    def _loaded(self) -> Iterator[Records]:
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(fetched, self.runs[0])
            for following in (*self.runs[1:], None):
                records = coming.result()
                if following:
                    coming = reader.submit(fetched, following)
                yield records
                del records


def fetched(run: Run) -> Records:
    """Load a run and read its pages into memory, so that no later work waits for the disk."""
    run.ahead()
    records = run.load()
    for array in [records.X] if isinstance(records.X, np.ndarray) else vars(records.X).values():
        if isinstance(array, np.ndarray) and array.flags.c_contiguous:
            array.reshape(-1).view(np.uint8)[::PAGE].max(initial=0)
    return records


@dataclass(frozen=True)
class Then:
    """Two functions, applied one after the other; it can be pickled if both can.

    Its repr shows neither: the arguments of a pass, such as weights before noise, are secret.
    """

    first: Callable[[Any], Any] = field(repr=False)
    second: Callable[[Any], Any] = field(repr=False)

    def __call__(self, part: Any) -> Any:
        """Apply the first function, then the second."""
        return self.second(self.first(part))


def same(records: Records) -> Records:
    """The records, unchanged."""
    return records
