"""The rows of the ledger of persons: runs in the database, merged so that a person is in few rows.

A run has owners in order, each with the steps in which it is admitted. Each step adds a row of
level 0 with all owners that are admitted in it. When there are many, they are merged and divided
into parts by the first bits of the owners: rows of level 1. Many rows of a part and a level are
merged into one of the next level, a few parts at every step. If a period lets old steps be
forgotten, nothing is merged: the row of a step is deleted.
"""

import hashlib
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import StoreError
from tidegate.data.records import Owners
from tidegate.privacy.admission import Histories
from tidegate.state.damage import DAMAGED, readable
from tidegate.state.database import without_pad
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

PARTS = 256
"""Owners are divided into so many parts by their first bits, so that no merge is long."""

SHIFT = np.uint64(64 - 8)
"""What is left of an owner's first word after this shift is its part."""

EDGES = np.arange(1, PARTS, dtype=np.uint64) << SHIFT
"""The least first word of each part but the first."""

WIDTHS = {1: "u1", 2: "<u2", 4: "<u4"}
"""How numbers are packed, by the bytes of each."""

NAME_SHIFT = np.uint64(16)
"""What is left of an owner's first word after this shift is its name in the index: 48 bits."""

NAME_REST = np.uint64(2**16 - 1)
"""The bits of a first word that its name does not have."""

Numbers = NDArray[np.int64]
Words = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Run:
    """Some owners and the steps in which they are admitted, as ranges that do not touch."""

    owners: Owners  # different ones in ascending order, shape (n, 2)
    counts: Numbers  # how many ranges each owner has, at least one
    starts: Numbers  # the first step of each range, of all owners in turn; ascending for each
    stops: Numbers  # the step after each range

    @classmethod
    def of_step(cls, owners: Owners, step: int) -> "Run":
        """The run of different owners in ascending order that are admitted in one step."""
        n = len(owners)
        return cls(owners, np.ones(n, np.int64), np.full(n, step), np.full(n, step + 1))

    def pack(self) -> bytes:
        """The run as bytes."""
        sizes = np.array([len(self.owners), len(self.starts)], "<u8").tobytes()
        columns = (self.counts, self.starts, self.stops - self.starts)
        return b"".join([sizes, owner_bytes(self.owners), *map(_packed, columns)])

    @classmethod
    def unpack(cls, data: bytes) -> "Run":
        """The run that was packed; ValueError if the bytes are not those of a run."""
        n, m = map(int, np.frombuffer(data, "<u8", 2))
        if max(n, m) > len(data):  # numbers that are all the same take no space
            raise ValueError(m)
        owners = np.frombuffer(data, "<u8", 2 * n, 16).reshape(n, 2)
        place = 16 + 16 * n
        counts, place = _unpacked(data, place, n)
        starts, place = _unpacked(data, place, m)
        lengths, place = _unpacked(data, place, m)
        if place != len(data) or counts.sum() != m:
            raise ValueError(place)
        return cls(owners, counts, starts, starts + lengths)

    @cached_property
    def begins(self) -> Numbers:
        """Where the ranges of each owner begin, and where all of them end."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    def slice(self, low: int, high: int) -> "Run":
        """Some of the owners, by their places."""
        first, last = self.begins[low], self.begins[high]
        ranges = self.starts[first:last], self.stops[first:last]
        return Run(self.owners[low:high], self.counts[low:high], *ranges)

    def copy(self) -> "Run":
        """A copy that does not keep the rest of a larger run in memory."""
        ranges = self.starts.copy(), self.stops.copy()
        return Run(self.owners.copy(), self.counts.copy(), *ranges)

    def parts(self) -> Iterator["Run"]:
        """All parts in turn."""
        for low, high in pairwise(bounds(self.owners)):
            yield self.slice(low, high)

    def between(self, least: Words, most: Words) -> "Run":
        """The owners whose first word is in any of some ranges, which ascend and are disjoint."""
        low = np.searchsorted(self.owners[:, 0], least, "left")
        high = np.searchsorted(self.owners[:, 0], most, "right")
        places = numbers_in(low, high)
        counts = self.counts[places]
        ranges = numbers_in(self.begins[places], self.begins[places] + counts)
        return Run(self.owners[places], counts, self.starts[ranges], self.stops[ranges])

    def steps(self) -> tuple[NDArray[np.intp], Numbers]:
        """Every admission: the place of its owner, and the step, in the order of the owners."""
        whose = np.repeat(np.arange(len(self.owners)), self.counts)
        return np.repeat(whose, self.stops - self.starts), numbers_in(self.starts, self.stops)


EMPTY = Run(np.zeros((0, 2), np.uint64), *(np.zeros(0, np.int64) for _ in range(3)))


def merged(runs: Sequence[Run]) -> Run:
    """The union of runs, whose ranges of one owner do not overlap; in any order of steps."""
    if not any(len(run.owners) for run in runs):
        return EMPTY
    owners = np.concatenate([np.repeat(run.owners, run.counts, axis=0) for run in runs])
    starts = np.concatenate([run.starts for run in runs])
    stops = np.concatenate([run.stops for run in runs])
    order = np.lexsort((starts, owners[:, 1], owners[:, 0]))
    owners, starts, stops = owners[order], starts[order], stops[order]
    new = np.ones(len(owners), np.bool_)  # where another owner begins
    new[1:] = (owners[1:] != owners[:-1]).any(axis=1)
    if (starts[1:] < stops[:-1])[~new[1:]].any():
        raise ValueError("an owner is admitted twice in one step")
    begins = new.copy()  # where another range begins
    begins[1:] |= starts[1:] != stops[:-1]
    places = np.flatnonzero(begins)
    ends = np.append(places[1:], len(owners)) - 1
    groups = np.cumsum(new)[places] - 1
    counts = np.bincount(groups, minlength=int(new.sum())).astype(np.int64)
    return Run(owners[new], counts, starts[places], stops[ends])


def sorted_owners(owners: Owners) -> Owners:
    """Different owners in ascending order."""
    order = np.argsort(owners[:, 0])
    ordered = owners[order]
    same = ordered[1:, 0] == ordered[:-1, 0]
    if (ordered[1:, 1] != ordered[:-1, 1])[same].any():  # two owners with one first word
        ordered = owners[np.lexsort((owners[:, 1], owners[:, 0]))]
    different = np.ones(len(ordered), np.bool_)
    different[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return ordered[different]


def bounds(owners: Owners) -> list[int]:
    """Where each part of ascending owners begins, and where the last one ends."""
    return [0, *np.searchsorted(owners[:, 0], EDGES).tolist(), len(owners)]


def owner_bytes(owners: Owners) -> bytes:
    """Owners as bytes, on any machine."""
    return np.ascontiguousarray(owners, "<u8").tobytes()


def step_digest(owners: Owners) -> str:
    """The digest of the owners that are admitted in a step, in ascending order."""
    return hashlib.sha256(owner_bytes(owners)).hexdigest()


def numbers_in(starts: NDArray[Any], stops: NDArray[Any]) -> Numbers:
    """All numbers of some ranges, one range after the other."""
    lengths = stops - starts
    before = np.cumsum(lengths) - lengths
    numbers: Numbers = np.arange(lengths.sum()) - np.repeat(before - starts, lengths)
    return numbers


def _packed(numbers: Numbers) -> bytes:
    """Numbers as their least one, the bytes of each, and what each is above the least."""
    least = int(numbers.min()) if len(numbers) else 0
    most = int(numbers.max()) - least if len(numbers) else 0
    width = next(width for width in (0, *WIDTHS) if most < 256**width)
    head = least.to_bytes(8, "little", signed=True) + bytes([width])
    return head if width == 0 else head + (numbers - least).astype(WIDTHS[width]).tobytes()


def _unpacked(data: bytes, place: int, n: int) -> tuple[Numbers, int]:
    """Numbers that were packed, and the place after them."""
    least, width = int.from_bytes(data[place : place + 8], "little", signed=True), data[place + 8]
    place += 9
    if width == 0:
        return np.full(n, least, np.int64), place
    values: NDArray[Any] = np.frombuffer(data, WIDTHS[width], n, place)
    return values.astype(np.int64) + least, place + n * width


# --- rows


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

    def reset(self) -> None:
        """Read the rows again; call it after a transaction that failed."""
        self.__dict__.pop("groups", None)

    @cached_property
    def groups(self) -> dict[tuple[int, int], list[Place]]:
        """The rows of each level and part, in the order of steps."""
        query = "SELECT level, part, first, last, entries FROM persons"
        with self._state.explained():
            rows = self._db.execute(f"{query} ORDER BY level, part, first").fetchall()
        groups: dict[tuple[int, int], list[Place]] = {}
        for row in rows:
            groups.setdefault((row[0], row[1]), []).append(Place(*row))
        return groups

    @property
    def places(self) -> list[Place]:
        """All rows."""
        return [place for group in self.groups.values() for place in group]

    def read(self, place: Place) -> Run:
        """The run of a row."""
        query = "SELECT digest, data FROM persons WHERE level = ? AND part = ? AND first = ?"
        row = self._state.one(query, *place[:3])
        if not row:
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


def names_of(owners: Owners) -> Words:
    """The name of each owner: its first 6 bytes, as a number.

    Two owners may share a name, and with it an entry. This is safe: the entry has paid for both, so
    neither is admitted beyond its contributions.
    """
    return owners[:, 0] >> NAME_SHIFT


def unpacked(digest: str, data: bytes, pad: bytes) -> Run:
    """The run of a row's data, after its pad; ValueError if either is damaged."""
    packed = without_pad(data, pad)
    if hashlib.sha256(packed).hexdigest() != digest:
        raise ValueError(digest)
    return Run.unpack(packed)
