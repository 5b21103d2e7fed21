"""The index of persons in memory: for each person 4 bytes of keyed id, and 8 of state."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.data.records import Owners
from tidegate.state.person_runs import Words

NAME_SHIFT = np.uint64(16)
"""What is left of an owner's first word after this shift is its name in the index: 48 bits."""

NAME_REST = np.uint64(2**16 - 1)
"""The bits of a first word that its name does not have."""

BUCKETS = 2**16
"""The first bits of a name say where its entry is looked for; only the others are stored."""

REST = np.uint64(32)
"""The bits of a name that are stored."""

BLOCK = 2**18
"""Entries that are moved at once, so that inserting needs little memory."""

MIN_NEWEST = 2**16
"""The newest persons are kept apart until there are more than this, or than 1/32 of all."""

NEWEST_FRACTION = 32
"""The newest may be one in 32 of all: a new person then moves 32 others on average, not all."""

Places = NDArray[np.int64]


def names_of(owners: Owners) -> Words:
    """The name of each owner: its first 6 bytes, as a number.

    Two owners may share a name, and with it an entry. This is safe: the entry has paid for both, so
    neither is admitted beyond its contributions.
    """
    return owners[:, 0] >> NAME_SHIFT


class PersonIndex:
    """States of persons by their names; unknown persons have state 0.

    >>> index = PersonIndex()
    >>> index.put(np.array([5, 9], np.uint64), np.array([1, 2], np.uint64))
    >>> index.get(np.array([4, 5, 9], np.uint64))
    array([0, 1, 2], dtype=uint64)
    """

    def __init__(self) -> None:
        self._tiers = [_Sorted(), _Sorted()]  # all but the newest, and the newest

    def __len__(self) -> int:
        return sum(len(tier.states) for tier in self._tiers)

    def get(self, names: Words) -> Words:
        """The states of ascending names."""
        states = np.zeros(len(names), np.uint64)
        for tier in self._tiers:
            places, known = tier.find(names)
            states[known] = tier.states[places[known]]
        return states

    def put(self, names: Words, states: Words) -> None:
        """Set the states of different, ascending names."""
        old, new = self._tiers
        left = np.ones(len(names), np.bool_)
        for tier in self._tiers:
            places, known = tier.find(names)
            tier.states[places[known]] = states[known]
            left &= ~known
        new.insert(names[left], states[left])
        if len(new.states) > max(MIN_NEWEST, len(old.states) // NEWEST_FRACTION):
            old.insert(new.names(), new.states)
            self._tiers[1] = _Sorted()

    def drop(self, before: int) -> None:
        """Forget persons whose state says that their last step is before this one.

        Args:
            before: A step; the upper half of a state is the last step + 1.
        """
        for place, tier in enumerate(self._tiers):
            kept = tier.states >> np.uint64(32) > np.uint64(before)
            if not kept.all():
                self._tiers[place] = _Sorted()
                self._tiers[place].insert(tier.names()[kept], tier.states[kept])


class _Sorted:
    """Ascending names with a state each, which grow in place.

    Attributes:
        states: The states.
    """

    def __init__(self) -> None:
        self._starts = np.zeros(BUCKETS + 1, np.int64)  # where each bucket begins
        self._rests = np.zeros(0, np.uint32)  # the last bits of each name
        self.states = np.zeros(0, np.uint64)

    def names(self) -> Words:
        """All names."""
        buckets = np.repeat(np.arange(BUCKETS, dtype=np.uint64), np.diff(self._starts))
        return buckets << REST | self._rests

    def find(self, names: Words) -> tuple[Places, NDArray[np.bool_]]:
        """Where names are or would be, and which are there: a binary search in each bucket."""
        buckets = (names >> REST).astype(np.intp)
        rests = names.astype(np.uint32)  # the last 32 bits
        low, high = self._starts[buckets], self._starts[buckets + 1]
        ends = high
        while (open_ := low < high).any():
            middle = (low + high) >> 1
            less = open_ & (self._rests[np.minimum(middle, len(self._rests) - 1)] < rests)
            low, high = np.where(less, middle + 1, low), np.where(open_ & ~less, middle, high)
        known = low < ends
        known[known] = self._rests[low[known]] == rests[known]
        return low, known

    def insert(self, names: Words, states: Words) -> None:
        """Add ascending names that are not there yet."""
        if not len(names):
            return
        places, _ = self.find(names)
        counts = np.bincount((names >> REST).astype(np.intp), minlength=BUCKETS)
        _insert(self._rests, names.astype(np.uint32), places)
        _insert(self.states, states, places)
        self._starts[1:] += np.cumsum(counts)


def _insert(array: NDArray[Any], new: NDArray[Any], places: Places) -> None:
    """Insert values before ascending places of an array, from its end on, block by block."""
    stop, last = len(array), len(new)
    array.resize(stop + last, refcheck=False)  # grows without a copy where it can
    while last:
        start = max(0, stop - BLOCK)
        first = int(np.searchsorted(places, start, "right")) if start else 0
        block = np.empty(stop - start + last - first, array.dtype)
        at = places[first:last] - start + np.arange(last - first)
        others = np.ones(len(block), np.bool_)
        others[at] = False
        block[at], block[others] = new[first:last], array[start:stop]
        array[start + first : stop + last] = block
        stop, last = start, first
