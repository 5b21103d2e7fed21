"""Runs of the ledger of persons: owners in order, each with the steps in which it is admitted."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.data.records import Owners

PARTS = 256
"""Owners are divided into so many parts by their first bits, so that no merge is long."""

SHIFT = np.uint64(64 - 8)
"""What is left of an owner's first word after this shift is its part."""

EDGES = np.arange(1, PARTS, dtype=np.uint64) << SHIFT
"""The least first word of each part but the first."""

WIDTHS = {1: "u1", 2: "<u2", 4: "<u4"}
"""How numbers are packed, by the bytes of each."""

Numbers = NDArray[np.int64]
Words = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Run:
    """Some owners and the steps in which they are admitted, as ranges.

    Attributes:
        owners: Different owners in ascending order, shape (n, 2).
        counts: How many ranges each owner has, at least one.
        starts: The first step of each range, of all owners in turn; ascending for each owner.
        stops: The step after each range. Ranges of an owner do not touch.
    """

    owners: Owners
    counts: Numbers
    starts: Numbers
    stops: Numbers

    @classmethod
    def of_step(cls, owners: Owners, step: int) -> "Run":
        """The run of different owners in ascending order that are admitted in one step."""
        n = len(owners)
        return cls(owners, np.ones(n, np.int64), np.full(n, step), np.full(n, step + 1))

    def pack(self) -> bytes:
        """The run as bytes."""
        sizes = np.array([len(self.owners), len(self.starts)], "<u8").tobytes()
        columns = (self.counts, self.starts, self.stops - self.starts)
        owners = np.ascontiguousarray(self.owners, "<u8").tobytes()
        return b"".join([sizes, owners, *map(_packed, columns)])

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


def step_digest(owners: Owners) -> str:
    """The digest of the owners that are admitted in a step, in ascending order."""
    digest = StepDigest()
    digest.add(owners)
    return digest.text()


class StepDigest:
    """The digest of the owners that are admitted in a step, given in pieces."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def add(self, owners: Owners) -> None:
        """Add the next owners, in ascending order."""
        self._sha.update(np.ascontiguousarray(owners, "<u8").tobytes())

    def text(self) -> str:
        """The digest of all owners so far, as hexadecimal text."""
        return self._sha.hexdigest()


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
