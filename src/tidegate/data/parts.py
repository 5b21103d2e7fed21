"""The interface through which learners read records, wherever they are stored.

A learner sees the records of a fit only as `Parts`: it gives a function of one part and a function
that merges two results. There may be one part in memory (`Records`), many on disk or many on other
machines.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.data.rows import Rows

Part = TypeVar("Part", covariant=True)
Result = TypeVar("Result")

MERGES = 96
"""Most merges that any one result of a pass goes through; rounding bounds depend on it."""


class Parts(Protocol[Part]):
    """The slots of a fit, cut into runs.

    A function of a part must be picklable and depend on nothing but its part.
    """

    @property
    def n(self) -> int:
        """How many slots there are, usable or not: public."""

    @property
    def d(self) -> int:
        """How many features there are."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many slots each part has: public."""

    @property
    def form(self) -> Rows:
        """An empty array of the width, dtype and kind (dense or sparse) of all parts."""

    def map(self, make: Callable[[Part], Any]) -> "Parts[Any]":
        """Apply a function to each part: once if the results fit in memory, else at each pass."""

    def fold(
        self, work: Callable[[Part], Result], merge: Callable[[Result, Result], Result]
    ) -> Result:
        """One pass: apply `work` to each part and merge the results in order, in any tree.

        No result goes through more than `MERGES` merges.
        """


def merged(results: Iterable[Result], merge: Callable[[Result, Result], Result]) -> Result:
    """Merge results in order as they arrive, in a balanced tree.

    Of k results none goes through more than 2 log2(k) + 1 merges, and about log2(k) wait at a time.

    >>> merged("abcde", lambda one, other: f"({one}{other})")
    '(((ab)(cd))e)'
    """
    waiting: list[tuple[int, Result]] = []  # each with its number of doublings
    for result in results:
        doublings = 0
        while waiting and waiting[-1][0] == doublings:
            result = merge(waiting.pop()[1], result)  # noqa: PLW2901
            doublings += 1
        waiting.append((doublings, result))
    while len(waiting) > 1:
        (_, late), (doublings, early) = waiting.pop(), waiting.pop()
        waiting.append((doublings, merge(early, late)))
    return waiting[0][1]


def total(parts: Parts[Part], work: Callable[[Part], NDArray[Any]]) -> NDArray[Any]:
    """One pass: the sum of `work` over all parts."""
    return parts.fold(work, np.add)


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How slots are cut into parts.

    Attributes:
        sizes: How many slots each part has.
        form: An empty array of the width, dtype and kind (dense or sparse) of all parts.
    """

    sizes: tuple[int, ...]
    form: Rows

    @property
    def n(self) -> int:
        """How many slots there are, usable or not: public."""
        return sum(self.sizes)

    @property
    def d(self) -> int:
        """How many features there are."""
        return int(self.form.shape[1])


@dataclass(frozen=True, kw_only=True)
class Whole(Cut, Generic[Part]):
    """One part, in memory."""

    part: Part

    def map(self, make: Callable[[Part], Any]) -> Parts[Any]:
        """See `Parts`."""
        return Whole(part=make(self.part), sizes=self.sizes, form=self.form)

    def fold(
        self, work: Callable[[Part], Result], merge: Callable[[Result, Result], Result]
    ) -> Result:
        """See `Parts`."""
        del merge
        return work(self.part)
