"""The rows of the ledger of persons: runs in the database, merged so that a person is in few rows.

Each step adds a row of level 0 with all owners that are admitted in it. When there are many, they
are merged and divided into parts by the first bits of the owners: rows of level 1. Many rows of a
part and a level are merged into one of the next level, a few parts at every step. If a period lets
old steps be forgotten, nothing is merged: the row of a step is deleted.
"""

import hashlib
from bisect import insort
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import StoreError
from tidegate.privacy.admission import Histories
from tidegate.state.damage import DAMAGED, readable
from tidegate.state.database import without_pad
from tidegate.state.person_index import NAME_REST, NAME_SHIFT, names_of
from tidegate.state.person_runs import PARTS, SHIFT, Numbers, Run, Words, bounds, merged, numbers_in
from tidegate.state.state_database import StateDatabase

MAX_UNMERGED_RANGES = 2**18
"""With this many ranges in them, the rows of steps are merged and divided into parts."""

MAX_UNMERGED_ROWS = 128
"""With this many rows of steps, they are merged and divided into parts."""

MAX_MERGED_AT_ONCE = 2**17
"""Up to this many ranges are merged at once; more are merged part by part."""

FANOUT = 16
"""This many rows of one part and level are merged into one row of the next level."""


MAX_RANGES_IN_MEMORY = 2**22
"""The most ranges that are held in memory at once to verify rows of steps."""

STEPS = (0, 0)
"""The level and the part of the rows of steps."""


class Place(NamedTuple):
    """Where a row is, and what it holds."""

    level: int
    part: int  # 0 for rows of steps, which hold all parts
    first: int  # the first step in it
    last: int  # the step after the last one in it
    entries: int  # ranges in it

    def describes(self, run: Run) -> bool:
        """Whether a run is in order and is what belongs in such a row."""
        owners, held = run.owners, range(PARTS) if self.level == 0 else [self.part]
        known = [part for part, (low, high) in enumerate(pairwise(bounds(owners))) if low < high]
        if not known or not set(known) <= set(held) or run.pack() != merged([run]).pack():
            return False
        stated = (self.first, self.last, self.entries)
        return stated == (int(run.starts.min()), int(run.stops.max()), len(run.starts))


class PersonRows:
    """The rows of the ledger of persons of a state."""

    def __init__(self, state: StateDatabase) -> None:
        self._state, self._db = state, state.db
        self._groups: dict[tuple[int, int], list[Place]] | None = None  # None until they are read

    def reset(self) -> None:
        """Read the rows again; call it after a transaction that failed."""
        self._groups = None

    @property
    def groups(self) -> dict[tuple[int, int], list[Place]]:
        """The rows of each level and part, in the order of steps."""
        if self._groups is None:
            query = "SELECT level, part, first, last, entries FROM persons"
            with self._state.explained():
                rows = self._db.execute(f"{query} ORDER BY level, part, first").fetchall()
            self._groups = {}
            for row in rows:
                self._groups.setdefault((row[0], row[1]), []).append(Place(*row))
        return self._groups

    @property
    def places(self) -> list[Place]:
        """All rows."""
        return [place for group in self.groups.values() for place in group]

    def read(self, place: Place) -> Run:
        """The run of a row."""
        query = "SELECT digest, data FROM persons WHERE level = ? AND part = ? AND first = ?"
        row = self._state.one(query, *place[:3])
        if row is None:
            raise StoreError(f"{self._db.where}: {DAMAGED}")
        digest, data = row
        with readable("the ledger of persons"):
            return unpacked(digest, data, b"" if place.level else self._db.pad)

    # --- within a transaction

    def add(self, run: Run) -> None:
        """Add the run of a step."""
        self._insert(0, 0, run)

    def _insert(self, level: int, part: int, run: Run) -> None:
        if not len(run.owners):
            return
        data = run.pack()
        padded = data if level else self._db.pad + data  # so that deleting the row erases it
        span = int(run.starts.min()), int(run.stops.max())
        place = Place(level, part, *span, len(run.starts))
        group = self.groups.setdefault((level, part), [])  # before the row is there to be read
        self._state.insert("persons", [(*place, hashlib.sha256(data).hexdigest(), padded)])
        insort(group, place)

    def take_all(self) -> Run:
        """Delete all rows; return the union of what they held."""
        return merged([run for group in list(self.groups) for run in self._taken(group)])

    def _taken(self, group: tuple[int, int]) -> list[Run]:
        """Delete the rows of a level and a part; return what they held."""
        runs = [self.read(place) for place in self.groups.pop(group)]
        self._state.delete("persons", "level = ? AND part = ?", *group)
        return runs

    def merge(self, budget: int) -> None:
        """Merge rows where there are many: all rows of steps, and about `budget` other ranges."""
        fresh = self.groups.get(STEPS, [])
        if (
            len(fresh) >= MAX_UNMERGED_ROWS
            or sum(place.entries for place in fresh) >= MAX_UNMERGED_RANGES
        ):
            runs = self._taken(STEPS)
            if sum(len(run.starts) for run in runs) < MAX_MERGED_AT_ONCE:
                runs = [merged(runs)]  # faster where parts are small, but takes more memory
            for part, some in enumerate(zip(*(run.parts() for run in runs), strict=True)):
                self._insert(1, part, some[0] if len(some) == 1 else merged(some))
        due = [group for group, rows in self.groups.items() if group[0] and len(rows) >= FANOUT]
        for level, part in due:
            if budget > 0:
                budget -= sum(place.entries for place in self.groups[level, part])
                self._insert(level + 1, part, merged(self._taken((level, part))))

    def forget(self, before: int) -> bool:
        """Delete all rows that only have steps before one; return whether there were any."""
        gone = [place for place in self.places if place.last <= before]
        if gone:
            self._state.delete("persons", "last <= ?", before)
            self.reset()
        return bool(gone)

    # --- reading

    def of_parts(self) -> Iterator[Run]:
        """What the merged rows hold, part by part."""
        for part in range(PARTS):
            yield self._of_part(part)

    def all_parts(self) -> Iterator[Run]:
        """What all rows hold, part by part; rows of steps are read a few times if they are many."""
        fresh = self.groups.get(STEPS, [])
        times = 1 + sum(place.entries for place in fresh) // MAX_RANGES_IN_MEMORY
        size = -(-PARTS // times)
        for start in range(0, PARTS, size):
            own: list[list[Run]] = [[] for _ in range(PARTS)]
            for place in fresh:
                for part, run in enumerate(self.read(place).parts()):
                    if start <= part < start + size:
                        own[part].append(run.copy())
            for part in range(start, min(start + size, PARTS)):
                yield merged([self._of_part(part), *own[part]])

    def _of_part(self, part: int) -> Run:
        groups = (rows for (level, own), rows in self.groups.items() if level and own == part)
        return merged([self.read(place) for rows in groups for place in rows])

    def of_steps(self) -> Iterator[tuple[int, Run]]:
        """The steps that are not merged, in order, with their runs."""
        for place in self.groups.get(STEPS, []):
            yield place.first, self.read(place)

    def of_names(self, names: Words) -> Run:
        """The owners whose name is among some ascending ones."""
        least, found = names << NAME_SHIFT, []
        parts = least >> SHIFT
        for place in self.places:
            wanted = least if place.level == 0 else least[parts == np.uint64(place.part)]
            if len(wanted):
                found.append(self.read(place).between(wanted, wanted | NAME_REST))
        return merged(found)

    def histories(self, names: Words) -> Histories:
        """The steps of persons by their names; owners that share one are one person."""
        run = self.of_names(names)
        which, steps = run.steps()
        persons = np.searchsorted(names, names_of(run.owners)[which])
        order = np.lexsort((steps, persons))
        return histories_of(persons[order], steps[order], len(names))


def histories_of(persons: Numbers, steps: Numbers, many: int) -> Histories:
    """The histories of many persons, from the person and the step of each admission, in order."""
    follows = persons[1:] == persons[:-1]
    begins, ends = np.ones((2, len(steps)), np.bool_)
    begins[1:] = ends[:-1] = ~follows | (steps[1:] > steps[:-1] + 1)
    counts = np.bincount(persons[begins], minlength=many)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Histories(offsets, steps[begins], steps[ends] + 1)


def admissions_in(histories: Histories) -> tuple[Numbers, Numbers]:
    """Every admission: whose it is, and the step."""
    lengths = histories.stops - histories.starts
    return np.repeat(histories.rows, lengths), numbers_in(histories.starts, histories.stops)


def unpacked(digest: str, data: bytes, pad: bytes) -> Run:
    """The run of a row's data, after its pad; ValueError if either is damaged."""
    packed = without_pad(data, pad)
    if hashlib.sha256(packed).hexdigest() != digest:
        raise ValueError(digest)
    return Run.unpack(packed)


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
