"""The index of persons in memory: for each person 8 bytes of keyed id, and 8 of state."""

import numpy as np
from numpy.typing import NDArray

from tidegate.gate.person_runs import Words

BLOCK = 2**18
"""Entries that are moved at once, so that inserting needs little memory."""

FEW = 2**16
"""New persons are collected up to this number, or a sixteenth of all, before all are moved."""


class PersonIndex:
    """States of persons, by the first word of their owner; unknown persons have state 0.

    Two owners with one first word share an entry. This is safe: the shared entry has paid for both,
    so neither is admitted beyond its contributions.

    >>> index = PersonIndex()
    >>> index.put(np.array([5, 9], np.uint64), np.array([1, 2], np.uint64))
    >>> index.get(np.array([4, 5, 9], np.uint64))
    array([0, 1, 2], dtype=uint64)
    """

    def __init__(self) -> None:
        self._tiers = [_Sorted(), _Sorted()]  # all but the newest, and the newest

    def __len__(self) -> int:
        return sum(len(tier.keys) for tier in self._tiers)

    def get(self, firsts: Words) -> Words:
        """The states of ascending first words."""
        states = np.zeros(len(firsts), np.uint64)
        for tier in self._tiers:
            places, known = tier.find(firsts)
            states[known] = tier.states[places[known]]
        return states

    def put(self, firsts: Words, states: Words) -> None:
        """Set the states of different, ascending first words."""
        old, new = self._tiers
        left = np.ones(len(firsts), np.bool_)
        for tier in self._tiers:
            places, known = tier.find(firsts)
            tier.states[places[known]] = states[known]
            left &= ~known
        new.insert(firsts[left], states[left])
        if len(new.keys) > max(FEW, len(old.keys) // 16):
            old.insert(new.keys, new.states)
            self._tiers[1] = _Sorted()

    def drop(self, before: int) -> None:
        """Forget persons whose state says that their last step is before this one.

        Args:
            before: A step; the upper half of a state is the last step + 1.
        """
        for place, tier in enumerate(self._tiers):
            kept = tier.states >> np.uint64(32) > np.uint64(before)
            if not kept.all():
                self._tiers[place] = _Sorted(tier.keys[kept], tier.states[kept])


class _Sorted:
    """Ascending keys with a state each, which grow in place."""

    def __init__(self, keys: Words | None = None, states: Words | None = None) -> None:
        self.keys = np.zeros(0, np.uint64) if keys is None else keys
        self.states = np.zeros(0, np.uint64) if states is None else states

    def find(self, keys: Words) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Where ascending keys are or would be, and which are there."""
        places = np.searchsorted(self.keys, keys)
        inside = places < len(self.keys)
        known = np.zeros(len(keys), np.bool_)
        known[inside] = self.keys[places[inside]] == keys[inside]
        return places, known

    def insert(self, keys: Words, states: Words) -> None:
        """Add ascending keys that are not there yet, from the end on, block by block."""
        if not len(keys):
            return
        n = len(self.keys)
        places = np.searchsorted(self.keys, keys)
        for array, new in ((self.keys, keys), (self.states, states)):
            array.resize(n + len(keys), refcheck=False)  # grows without a copy where it can
            stop, last = n, len(keys)
            while last:
                start = max(0, stop - BLOCK)
                first = int(np.searchsorted(places, start, "right")) if start else 0
                block = np.empty(stop - start + last - first, np.uint64)
                at = places[first:last] - start + np.arange(last - first)
                others = np.ones(len(block), np.bool_)
                others[at] = False
                block[at], block[others] = new[first:last], array[start:stop]
                array[start + first : stop + last] = block
                stop, last = start, first
