"""The index of persons in memory: for each person 4 bytes of keyed id, and 8 of state.

It is made from the rows in the database. Besides, the steps of some persons within a period.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.privacy.admission import Histories
from tidegate.privacy.compact import UNKNOWN, Compact
from tidegate.state.person_rows import (
    Numbers,
    PersonRows,
    Run,
    Words,
    admissions_in,
    histories_of,
    names_of,
    numbers_in,
)

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

MAX_EAGER_STEPS = 256
"""A person with more steps than this gets a state when next seen, not when the index is made."""

Places = NDArray[np.int64]


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


# --- from the rows


def built(rows: PersonRows, compact: Compact) -> PersonIndex:
    """The index of all persons in some rows."""
    index = PersonIndex()
    for run in rows.of_parts():
        if len(run.owners):
            index.put(*_states(run, compact))
    for step, run in rows.of_steps():
        names = np.unique(names_of(run.owners))
        index.put(names, compact.after(index.get(names), step))
    return index


def _states(run: Run, compact: Compact) -> tuple[Words, Words]:
    """The states of persons by their names: one step of each after the other."""
    which, steps = run.steps()
    names, persons = np.unique(names_of(run.owners), return_inverse=True)
    whose = persons[which]
    if len(names) < len(run.owners):  # owners that share a name are one person
        whose, steps = np.unique(np.stack([whose, steps]), axis=1)
    return names, states_after(whose, steps, len(names), compact)


def states_after(whose: NDArray[np.intp], steps: Numbers, persons: int, compact: Compact) -> Words:
    """The states of persons after their steps, which are in order for each; UNKNOWN if many."""
    counts = np.bincount(whose, minlength=persons)
    begins = np.cumsum(counts) - counts
    states = np.zeros(persons, np.uint64)
    for rank in range(min(int(counts.max(initial=0)), MAX_EAGER_STEPS)):
        those = np.flatnonzero(counts > rank)
        states[those] = compact.after(states[those], steps[begins[those] + rank])
    states[counts > MAX_EAGER_STEPS] = UNKNOWN
    return states


# --- the steps of some persons

MAX_CACHED = 2**18
"""Steps and persons in the cache; beyond that it is emptied, and read again when needed."""


class CachedSteps(NamedTuple):
    """The steps of some persons, by the names of persons in the index."""

    names: Words  # persons whose steps are known, ascending
    whose: Words  # the person of each step, ascending
    steps: Numbers  # ascending for each person

    def has(self, names: Words) -> NDArray[np.bool_]:
        """Which persons are known."""
        places = np.searchsorted(self.names, names)
        cached = places < len(self.names)
        cached[cached] = self.names[places[cached]] == names[cached]
        return cached

    def plus(self, places: Numbers, whose: Words, steps: Numbers) -> "CachedSteps":
        """With more steps, inserted at these places."""
        inserted = np.insert(self.whose, places, whose), np.insert(self.steps, places, steps)
        return CachedSteps(self.names, *inserted)

    def since(self, first: int) -> "CachedSteps":
        """Without the steps before one, and the persons who have no others."""
        recent = self.steps >= first
        whose = self.whose[recent]
        return CachedSteps(np.unique(whose), whose, self.steps[recent])

    def learn(self, names: Words, histories: Histories) -> "CachedSteps":
        """With the steps of persons who were not known."""
        which, steps = admissions_in(histories)
        whose = names[which]
        extended = self.plus(np.searchsorted(self.whose, whose), whose, steps)
        places = np.searchsorted(self.names, names)
        return extended._replace(names=np.insert(self.names, places, names))


NOBODY = CachedSteps(np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.int64))


class RecentSteps:
    """The steps of persons within the period; each change is one assignment, so none is torn."""

    def __init__(self) -> None:
        self._known = NOBODY

    def __len__(self) -> int:
        return len(self._known.names) + len(self._known.steps)

    def clear(self) -> None:
        """Forget everything."""
        self._known = NOBODY

    def histories(self, names: Words, first: int, read: Callable[[Words], Histories]) -> Histories:
        """The steps of persons, without those before a first one.

        Args:
            names: Ascending names.
            first: The first step of the period.
            read: Gives the steps of persons who are not known here.
        """
        known = self._known
        if not known.has(names).all():
            known = known.since(first)
            new = names[~known.has(names)]
            known = known.learn(new, read(new))
        self._keep(known)
        low = np.searchsorted(known.whose, names, "left")
        high = np.searchsorted(known.whose, names, "right")
        persons = np.repeat(np.arange(len(names)), high - low)
        steps = known.steps[numbers_in(low, high)]
        recent = steps >= first
        return histories_of(persons[recent], steps[recent], len(names))

    def add(self, names: Words, step: int) -> None:
        """Add a step of persons, by ascending names; it is later than all others."""
        known = self._known
        names = names[known.has(names)]
        places = np.searchsorted(known.whose, names, "right")
        self._keep(known.plus(places, names, np.full(len(names), step)))

    def _keep(self, known: CachedSteps) -> None:
        self._known = known if len(known.names) + len(known.steps) <= MAX_CACHED else NOBODY
