"""Engines: what makes `Parts` of the pieces that a fit's records are stored in."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol

import numpy as np
from scipy import sparse

from tidegate.features.rows import Rows
from tidegate.learn.objective import CHUNK, LARGEST_CHUNK
from tidegate.learn.parts import Cut, Part, Parts, Result, merged
from tidegate.learn.records import Piece, Records, join

SMALL = 2**16
"""Slots up to which a fit is made in memory by every engine: no more than one segment has."""

BLOCK = 2**18
"""Entries of dense rows that are worked on at a time: few enough to stay in a processor's cache."""


PAGE = 4096
"""Bytes that are read from a disk together."""


class Engine(Protocol):
    """Says where the sums of a fit are computed; the noise is drawn elsewhere."""

    def parts(self, pieces: Sequence[Piece], form: Rows) -> Parts[Records]:
        """The records of a fit.

        Args:
            pieces: What they are stored in, in order.
            form: No rows, but of the width, dtype and kind that all have.
        """

    def close(self) -> None:
        """Let go of whatever is held for further fits."""


class Memory:
    """The records of a fit are joined in memory.

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
    """The records of a fit are read piece by piece at every pass, and never held together.

    Args:
        small: Up to so many slots they are held in memory all the same.

    >>> import numpy as np
    >>> one = Records(np.ones((200, 2)), np.zeros(200, np.intp), np.ones(200, np.bool_))
    >>> parts = Disk(small=100).parts([one, one, one.take(slice(5))], one.form)
    >>> parts.sizes, parts.fold(lambda part: part.n, lambda one, other: one + other)
    ((200, 205), 405)
    """

    small: int = SMALL

    def parts(self, pieces: Sequence[Piece], form: Rows) -> Parts[Records]:
        """See `Engine`."""
        if sum(piece.n for piece in pieces) <= self.small:
            return Memory().parts(pieces, form)
        runs = gathered(pieces, CHUNK)
        width = max(1, form.shape[1])
        rows = LARGEST_CHUNK if sparse.issparse(form) else max(CHUNK, BLOCK // width)
        sizes = tuple(block.stop - block.start for run in runs for block in cuts(run.n, rows))
        return OnDisk(runs=runs, rows=rows, make=same, sizes=sizes, form=form)

    def close(self) -> None:
        """See `Engine`."""


@dataclass(frozen=True, kw_only=True)
class OnDisk(Cut, Generic[Part]):
    """Parts that are read at every pass, while the next ones are fetched by another thread.

    Attributes:
        runs: What is loaded at a time.
        rows: About how many slots of it are a part.
        make: What is made of every part first.
    """

    runs: "tuple[Run, ...]"
    rows: int
    make: Callable[[Records], Part]

    def map(self, make: Callable[[Part], Any]) -> Parts[Any]:
        """See `Parts`: at each pass."""
        both = Then(self.make, make)
        return OnDisk(runs=self.runs, rows=self.rows, make=both, sizes=self.sizes, form=self.form)

    def fold(
        self, work: Callable[[Part], Result], merge: Callable[[Result, Result], Result]
    ) -> Result:
        """See `Parts`."""
        result: Result = merged(map(Then(self.make, work), self._blocks()), merge)
        return result

    def _blocks(self) -> Iterator[Records]:
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(fetched, self.runs[0])
            for following in (*self.runs[1:], None):
                records = coming.result()
                if following is not None:
                    coming = reader.submit(fetched, following)
                for block in cuts(records.n, self.rows):
                    yield records.take(block)
                del records  # before the next ones but one are loaded


def fetched(run: "Run") -> Records:
    """The slots of a run, their pages in memory: who works on them does not wait for a disk."""
    run.ahead()
    records = run.load()
    for array in [records.X] if isinstance(records.X, np.ndarray) else vars(records.X).values():
        if isinstance(array, np.ndarray) and array.flags.c_contiguous:
            array.reshape(-1).view(np.uint8)[::PAGE].max(initial=0)
    return records


@dataclass(frozen=True)
class Then:
    """One function after another, which can be pickled if both can.

    Who logs it sees neither: what a pass is told, such as weights before noise, is secret.
    """

    first: Callable[[Any], Any] = field(repr=False)
    second: Callable[[Any], Any] = field(repr=False)

    def __call__(self, part: Any) -> Any:
        """What the second makes of what the first made."""
        return self.second(self.first(part))


def same(records: Records) -> Records:
    """The records as they are."""
    return records


@dataclass(frozen=True)
class Run:
    """Pieces that are loaded together; who logs it sees no record."""

    pieces: "tuple[Piece | Run, ...]" = field(repr=False)

    @property
    def n(self) -> int:
        """How many slots there are."""
        return sum(piece.n for piece in self.pieces)

    def ahead(self) -> None:
        """Begin to fetch them."""
        for piece in self.pieces:
            piece.ahead()

    def load(self) -> Records:
        """All of them."""
        return join([piece.load() for piece in self.pieces])


def gathered(pieces: Sequence[Piece | Run], least: int) -> tuple[Run, ...]:
    """Neighbouring pieces put together until each run has enough slots, the last one too.

    >>> import numpy as np
    >>> slots = Records(np.eye(5), np.zeros(5, np.intp), np.ones(5, np.bool_))
    >>> [run.n for run in gathered([slots] * 5, 8)]
    [10, 15]
    """
    runs: list[list[Piece | Run]] = [[]]
    for piece in pieces:
        if sum(each.n for each in runs[-1]) >= least:
            runs.append([])
        runs[-1].append(piece)
    if len(runs) > 1 and sum(each.n for each in runs[-1]) < least:
        last = runs.pop()
        runs[-1] += last
    return tuple(Run(tuple(run)) for run in runs)


def cuts(n: int, size: int) -> list[slice]:
    """So many slots cut evenly into runs of `size` or somewhat more.

    >>> cuts(10, 4), cuts(3, 4)
    ([slice(0, 5, None), slice(5, 10, None)], [slice(0, 3, None)])
    """
    count = max(1, n // size)
    return [slice(i * n // count, (i + 1) * n // count) for i in range(count)]
