"""Admission: in which steps a person's records count, so that no person ever costs more than k.

A person's *cost* is the sum, over all fits past and to come, of the fit's share times the largest
e^power among the person's admitted steps that it reads (e: slot weight), plus the shares of survey
and scores for each admitted step. The unit is a record's budget. A step is admitted for a person
iff the cost stays at most `contributions`; with a period, iff the cost of the admitted steps within
the period that ends with it does. Owners alone decide, never contents. All decisions are exact.
docs/proofs/persons.md has the proofs.

`Plan.admission` and `TwoStreamPlan.admission` are an `Admission`, or None if records are protected:

- `admits(ranges, step)`: whether a person is admitted to a step. `ranges` are the admitted steps so
  far: half-open, ascending, disjoint; none is later than the step.
- `decide(histories, step)`: the same for many persons at once; `Histories` has their ranges in
  three arrays (offsets, starts, stops).
- `cost(ranges)`: what these steps cost, as a Fraction.
- `over(histories)` and `check(histories)`: find or refuse persons above their contributions, for
  `verify` and as the cap at run time.
- `needed(now)`: the first step of which owners and admissions must be kept once `now` are complete.
- `compact`: 8 bytes for each person that decide almost always; see `privacy/compact.py`.

With two streams a step of either stream is a step. A person's ranges are those of both streams,
one after the other, each stream counting its own steps: only their number matters.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, floor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.privacy.compact import Compact, unique_pairs, whole_units
from tidegate.privacy.ledger import LedgerError
from tidegate.privacy.rises import NEVER, Keys, Rises, StepArray

Ranges = Sequence[tuple[int, int]]
"""The steps in which a person is admitted: half-open ranges, ascending and disjoint."""

MAX_UNITS = 2**30
"""The most whole units in a record's budget; many persons are decided in these units.

Where those do not suffice, a person is decided by exact fractions."""

MAX_RANGES = 2**12
"""A person with more ranges is decided exactly, so that no sum in these units overflows."""

ROWS = 2**18
"""How many triples of a person, a step and a range are checked at once."""


class Histories(NamedTuple):
    """The admitted steps of many persons: person i has the ranges offsets[i], ..., offsets[i+1]-1.

    >>> Histories.of([[(0, 2), (5, 6)], [], [(3, 4)]]).offsets.tolist()
    [0, 2, 2, 3]
    """

    offsets: StepArray
    starts: StepArray
    stops: StepArray

    @classmethod
    def of(cls, persons: Sequence[Ranges]) -> "Histories":
        """The arrays of some persons."""
        flat = np.array([each for ranges in persons for each in ranges], np.int64).reshape(-1, 2)
        offsets = np.cumsum([0, *map(len, persons)], dtype=np.int64)
        return cls(offsets, flat[:, 0], flat[:, 1])

    def ranges(self, person: int) -> list[tuple[int, int]]:
        """The ranges of one person."""
        own = slice(self.offsets[person], self.offsets[person + 1])
        return list(zip(self.starts[own].tolist(), self.stops[own].tolist(), strict=True))

    @property
    def rows(self) -> StepArray:
        """Whose each range is."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


@dataclass(frozen=True, kw_only=True)
class Admission:
    """Decides in which steps a person's records count.

    Args:
        rises: What each step adds to the cost of fits.
        contributions: The most that a person may cost.
        measured: What each admitted step costs besides fits: the shares of survey and scores.
        period: Bound the cost of any `period` consecutive steps; None bounds that of all steps.
        look_back: How many steps back a fit reads, at most; None if there is no limit.
        first: How many steps are complete when the first fit is made.
        streams: How many streams there are.

    >>> from tidegate.privacy.rises import Count
    >>> admission = Admission(rises=Count(), contributions=2)
    >>> admission.admits([(0, 1)], step=5), admission.admits([(0, 1), (5, 6)], step=9)
    (True, False)
    >>> admission.decide(Histories.of([[(0, 1)], [(0, 2)], []]), step=9)
    array([ True, False,  True])
    """

    rises: Rises
    contributions: int
    measured: Fraction = Fraction(0)
    period: int | None = None
    look_back: int | None = None
    first: int = 1
    streams: int = 1

    def __getstate__(self) -> dict[str, object]:
        """The state to pickle, without caches of functions."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def cost(self, ranges: Ranges) -> Fraction:
        """What a person costs for ever who is admitted in these steps and no others."""
        if not ranges:
            return Fraction(0)
        histories = self._checked(Histories.of([ranges]))
        starts, stops = histories.starts, histories.stops
        lasts = np.concatenate([[NEVER], stops[:-1] - 1])
        steps = int((stops - starts).sum())
        fits = self._total(self._rise, self.rises.keys(lasts, starts))
        fits += self._total(self._run, self.rises.run_keys(starts, stops))
        return fits + self.measured * steps

    @staticmethod
    def _total(value: Callable[[int, int], Fraction], keys: Keys) -> Fraction:
        pairs = zip(keys[0].tolist(), keys[1].tolist(), strict=True)
        return sum((value(*pair) for pair in pairs), Fraction(0))

    def admits(self, ranges: Ranges, step: int) -> bool:
        """Whether a person who was admitted in these steps is admitted in this one too."""
        counted = self._within_period(self._earlier(ranges, step), step)
        return self.cost([*counted, (step, step + 1)]) <= self.contributions

    def _earlier(self, ranges: Ranges, step: int) -> Ranges:
        """The ranges without the step itself, which may be the last of them."""
        if self.streams > 1 or not ranges or ranges[-1][1] <= step:
            return ranges
        *before, (start, stop) = ranges
        if stop > step + 1:
            raise LedgerError(f"a person was admitted after step {step}: run tidegate verify")
        return [*before, *([(start, step)] if start < step else [])]

    def _within_period(self, ranges: Ranges, step: int) -> Ranges:
        """The part of ranges that lies in the period that ends with a step."""
        if not self.period:
            return ranges
        start = step - self.period + 1
        return [(max(first, start), stop) for first, stop in ranges if stop > start]

    def decide(self, histories: Histories, step: int) -> NDArray[np.bool_]:
        """Which of many persons are admitted in a step; exactly as `admits` decides."""
        histories = self._checked(histories)
        steps = np.full(len(histories.offsets) - 1, step, np.int64)
        if self.streams == 1:
            if np.any(histories.stops > step + 1):
                raise LedgerError(f"a person was admitted after step {step}: run tidegate verify")
            earlier = np.minimum(histories.stops, step)
            histories = _kept(histories._replace(stops=earlier))
        return self._decide(histories, steps)

    def _decide(self, histories: Histories, steps: StepArray) -> NDArray[np.bool_]:
        """Which persons are admitted, each in a step of its own."""
        if self.period:
            histories = self._clipped(histories, steps - self.period + 1)
        low, high = self._bracket(histories, steps)
        limit = self.contributions * self._unit
        yes = high <= limit
        sure = (yes | (low > limit)) & (np.diff(histories.offsets) <= MAX_RANGES)
        for person in np.flatnonzero(~sure).tolist():
            yes[person] = self.admits(histories.ranges(person), int(steps[person]))
        return yes

    @staticmethod
    def _clipped(histories: Histories, start: StepArray) -> Histories:
        """The parts of ranges from a step of each person on."""
        later = np.maximum(histories.starts, start[histories.rows])
        return _kept(histories._replace(starts=later))

    def _bracket(self, histories: Histories, steps: StepArray) -> tuple[StepArray, StepArray]:
        """Bounds on the cost of each person with one more step, in units."""
        offsets, starts, stops = histories
        filled = np.flatnonzero(np.diff(offsets))
        last = np.full(len(steps), NEVER, np.int64)
        last[filled] = stops[offsets[1:][filled] - 1] - 1
        before = np.concatenate([[NEVER], stops[:-1] - 1])[: len(stops)]
        before[offsets[:-1][filled]] = NEVER
        rises = self._bounds(self._rise, self.rises.keys(before, starts))
        runs = self._bounds(self._run, self.rises.run_keys(starts, stops))
        new = self._bounds(self._rise, self.rises.keys(last, steps))
        counts = np.minimum(_sums(stops - starts, offsets) + 1, self._most_steps)
        low, high = (
            _sums(rises[end] + runs[end], offsets) + new[end] + counts * each
            for end, each in enumerate(self._units(self.measured))
        )
        return low, high

    @property
    def _most_steps(self) -> int:
        """So many steps cost too much even if fits are free."""
        return floor(self.contributions / self.measured) + 1 if self.measured else 0

    def _bounds(
        self, value: Callable[[int, int], Fraction], keys: Keys
    ) -> tuple[StepArray, StepArray]:
        """Bounds on the values of keys, in units."""
        pairs, inverse = unique_pairs(keys)
        bounds = [self._units(value(*pair)) for pair in pairs]
        low, high = np.array(bounds, np.int64).reshape(-1, 2).T
        return low[inverse], high[inverse]

    def _units(self, value: Fraction) -> tuple[int, int]:
        """A value in units, rounded down and up; what is above all contributions is cut off."""
        units, most = value * self._unit, (self.contributions + 1) * self._unit
        return min(floor(units), most), min(ceil(units), most)

    @cached_property
    def _unit(self) -> int:
        return whole_units(MAX_UNITS, self.rises, self.measured)

    @cached_property
    def _rise(self) -> Callable[[int, int], Fraction]:
        return lru_cache(2**16)(self.rises.rise)

    @cached_property
    def _run(self) -> Callable[[int, int], Fraction]:
        return lru_cache(2**16)(self.rises.run)

    def _checked(self, histories: Histories) -> Histories:
        """Refuse ranges that are empty or out of order: what they cost would be wrong."""
        _, starts, stops = histories
        rows = histories.rows
        later = (starts[1:] >= stops[:-1]) | (rows[1:] != rows[:-1]) | (self.streams > 1)
        if not (np.all(starts >= 0) and np.all(starts < stops) and np.all(later)):
            raise LedgerError(
                "the admitted steps of a person are not in order: run tidegate verify"
            )
        return histories

    def over(self, histories: Histories) -> NDArray[np.bool_]:
        """Which persons cost more than their contributions, or did so in some period: none may."""
        histories = self._checked(histories)
        offsets = histories.offsets
        filled = np.diff(offsets) > 0
        over = np.zeros(len(filled), np.bool_)
        # The last step of each person, after all steps before it and without a period.
        last = histories.stops[offsets[1:][filled] - 1] - 1
        whole = _without_last(histories, filled)
        over[filled] = ~replace(self, period=None)._decide(whole, last)
        if not self.period:
            return over
        suspects = np.flatnonzero(over)  # what is fine for life is fine in every period
        steps = _sums(histories.stops - histories.starts, offsets)[suspects]
        size = steps * np.diff(offsets)[suspects]
        for person in suspects[size > ROWS].tolist():
            over[person] = self._over_at_a_step(histories.ranges(person))
        others, ends = suspects[size <= ROWS], np.cumsum(size[size <= ROWS])
        for group in np.split(others, np.flatnonzero(np.diff(ends // ROWS)) + 1):
            over[group] = self._over_in_a_period(histories, group)
        return over

    def _over_at_a_step(self, ranges: Ranges) -> bool:
        """Whether one person costs too much in the period that ends with any admitted step."""
        return not all(
            self.admits([*ranges[:place], *([(start, step)] if step > start else [])], step)
            for place, (start, stop) in enumerate(ranges)
            for step in range(start, stop)
        )

    def _over_in_a_period(self, histories: Histories, persons: StepArray) -> NDArray[np.bool_]:
        """Which persons cost too much in the period that ends with any of their steps."""
        offsets, starts, stops = histories
        own = _expanded(offsets, persons)
        sizes = stops[own] - starts[own]
        steps = np.repeat(starts[own] + sizes - np.cumsum(sizes), sizes) + np.arange(sizes.sum())
        counts = _sums(sizes, np.concatenate([[0], np.cumsum(np.diff(offsets)[persons])]))
        whose = np.repeat(np.arange(len(persons)), counts)
        # For each step of a person, the ranges before it: all of the person's, then cut.
        which = _expanded(offsets, persons[whose])
        rows = np.repeat(np.arange(len(steps)), np.diff(offsets)[persons[whose]])
        earlier = starts[which] < steps[rows]
        which, rows = which[earlier], rows[earlier]
        before = Histories(
            np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(steps)))]),
            starts[which],
            np.minimum(stops[which], steps[rows]),
        )
        return np.bincount(whose, ~self._decide(before, steps), len(persons)) > 0

    def check(self, histories: Histories) -> None:
        """Refuse if any person costs more than the contributions; the message names nobody."""
        if self.over(histories).any():
            raise LedgerError(
                f"a person would pay more than {self.contributions} contributions: "
                "nothing was charged. If a gate reports this, run tidegate verify"
            )

    def needed(self, now: int) -> int:
        """The first step of which owners and admissions must be kept once `now` are complete.

        It is 0 for ever without a period, and where fits read all of the history.
        """
        if not (self.period and self.look_back):
            return 0
        read = max(now + 1, self.first) - self.look_back
        return max(0, min(now - self.period + 1, read))

    @cached_property
    def compact(self) -> Compact:
        """Decisions from 8 bytes for each person."""
        return Compact(
            rises=self.rises,
            contributions=self.contributions,
            measured=self.measured,
            period=self.period,
        )


def _expanded(offsets: StepArray, persons: StepArray) -> StepArray:
    """The places of all ranges of these persons."""
    sizes = np.diff(offsets)[persons]
    first = offsets[:-1][persons] - np.cumsum(sizes) + sizes
    places: StepArray = np.repeat(first, sizes) + np.arange(sizes.sum())
    return places


def _kept(histories: Histories) -> Histories:
    """The ranges that are not empty."""
    offsets, starts, stops = histories
    kept = starts < stops
    if kept.all():
        return histories
    counts = np.bincount(histories.rows[kept], minlength=len(offsets) - 1)
    return Histories(np.concatenate([[0], np.cumsum(counts)]), starts[kept], stops[kept])


def _without_last(histories: Histories, filled: NDArray[np.bool_]) -> Histories:
    """The steps of persons who have any, without the last one of each."""
    offsets, starts, stops = histories
    shorter = stops.copy()
    shorter[offsets[1:][filled] - 1] -= 1
    sizes = np.diff(offsets)[filled]  # others have no ranges
    return _kept(Histories(np.concatenate([[0], np.cumsum(sizes)]), starts, shorter))


def _sums(values: StepArray, offsets: StepArray) -> StepArray:
    """The sum of the values of each person."""
    total = np.concatenate([[0], np.cumsum(values)])
    sums: StepArray = total[offsets[1:]] - total[offsets[:-1]]
    return sums
