"""The recent steps of some persons, in memory, so that they need not be read again at every step.

With a period the index cannot refuse anybody by itself: it is unsure about whoever comes often. To
decide about such a person exactly, all rows of the period are read, once. From then on the steps of
that person are known here.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.gate.person_rows import admissions_in, histories_of
from tidegate.gate.person_runs import Numbers, Words, numbers_in
from tidegate.privacy.admission import Histories

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
