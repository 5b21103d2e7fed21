"""Engines: what makes `Parts` of the pieces that a fit's records are stored in."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol

import numpy as np
from scipy import sparse

from tidegate.compute.cuts import Run, equal_sizes, gathered, power_of_two, recut
from tidegate.features.rows import Rows
from tidegate.learn.objective import CHUNK, LARGEST_CHUNK
from tidegate.learn.parts import Cut, Part, Parts, Result, merged
from tidegate.learn.records import Piece, Records, join

SMALL = 2**16
"""Slots up to which every engine makes a fit in memory."""

BLOCK = 2**18
"""Entries of dense rows that are worked on at a time: few enough to stay in a processor's cache."""

PAGE = 4096
"""Bytes that are read from a disk together."""


class Engine(Protocol):
    """Says where the sums of a fit are computed; the noise is drawn elsewhere.

    Where parts end is a function of public counts: of slots, features and workers. It must not
    depend on the pieces, which may end where bytes say: a part's shape decides how the margins of
    all its rows are rounded (docs/proofs/gradient.md, A1).
    """

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
    >>> one = Records(np.ones((200, 2**12)), np.zeros(200, np.intp), np.ones(200, np.bool_))
    >>> parts = Disk(small=100).parts([one, one.take(slice(5))], one.form)
    >>> parts.sizes, parts.fold(lambda part: part.n, lambda one, other: one + other)
    ((64, 64, 64, 13), 205)
    """

    small: int = SMALL

    def parts(self, pieces: Sequence[Piece], form: Rows) -> Parts[Records]:
        """See `Engine`."""
        n = sum(piece.n for piece in pieces)
        if n <= self.small:
            return Memory().parts(pieces, form)
        # A power of two, so that most parts lie within one segment and need no copy.
        rows = max(CHUNK, power_of_two(BLOCK // max(1, form.shape[1])))
        sizes = equal_sizes(n, LARGEST_CHUNK if sparse.issparse(form) else rows)
        return OnDisk(runs=gathered(pieces, sizes[0]), make=same, sizes=sizes, form=form)

    def close(self) -> None:
        """See `Engine`."""


@dataclass(frozen=True, kw_only=True)
class OnDisk(Cut, Generic[Part]):
    """Parts that are read at every pass, while the next ones are fetched by another thread."""

    runs: tuple[Run, ...]  # what is loaded at a time; parts end elsewhere
    make: Callable[[Records], Part]  # what is made of every part first

    def map(self, make: Callable[[Part], Any]) -> Parts[Any]:
        """See `Parts`: at each pass."""
        return replace(self, make=Then(self.make, make))

    def fold(
        self, work: Callable[[Part], Result], merge: Callable[[Result, Result], Result]
    ) -> Result:
        """See `Parts`."""
        parts = recut(self._loaded(), self.sizes)
        result: Result = merged(map(Then(self.make, work), parts), merge)
        return result

    def _loaded(self) -> Iterator[Records]:
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(fetched, self.runs[0])
            for following in (*self.runs[1:], None):
                records = coming.result()
                if following is not None:
                    coming = reader.submit(fetched, following)
                yield records
                del records


def fetched(run: Run) -> Records:
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
