"""Records in parts: the seam for scale.

A learner sees the records of a fit only as `Parts`: it says what to make of every part and how to
merge what came of two. Whether there is one part in memory (`Records`), many on a disk or many on
other machines makes no difference to it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.features.rows import Rows

Part = TypeVar("Part", covariant=True)
Result = TypeVar("Result")

MERGES = 96
"""Most merges that any one result of a pass goes through; rounding bounds rest on it."""


class Parts(Protocol[Part]):
    """The slots of a fit, cut into runs.

    What is done to a part is a function that can be pickled and depends on nothing else.
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
        """No rows, but of the width, dtype and kind that all have."""

    def map(self, make: Callable[[Part], Any]) -> "Parts[Any]":
        """Each part made into something else: once where there is room for it, or at each pass."""

    def fold(
        self, work: Callable[[Part], Result], merge: Callable[[Result, Result], Result]
    ) -> Result:
        """One pass: what `work` makes of each part, merged in order, in a tree of any kind.

        No result goes through more than `MERGES` merges.
        """


def merged(results: Iterable[Result], merge: Callable[[Result, Result], Result]) -> Result:
    """Results merged in order as they come, each with as many behind it as the one it meets.

    Of k results none goes through more than 2 log2(k) + 1 merges, and about log2(k) wait at a time.

    >>> merged("abcde", lambda one, other: f"({one}{other})")
    '(((ab)(cd))e)'
    """
    waiting: list[tuple[int, Result]] = []  # each with the number of doublings behind it
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
    """One pass: the sum of what `work` makes of each part."""
    return parts.fold(work, np.add)


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How slots are cut into parts.

    Attributes:
        sizes: How many slots each part has.
        form: No rows, but of the width, dtype and kind that all have.
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
