"""Engines, which turn the stored pieces of a fit's records into `Parts`."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol

import numpy as np
from scipy import sparse

from tidegate.data.records import Cut, Part, Parts, Piece, Records, Result, join, merged
from tidegate.data.rows import Rows
from tidegate.learn.objective import CHUNK, LARGEST_CHUNK
from tidegate.run.cuts import Run, equal_sizes, gathered, power_of_two

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
                if following is not None:
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
