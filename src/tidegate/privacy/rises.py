"""Rises: what a person's next admitted step adds to what fits cost that person.

A fit f of share s_f costs a person s_f times the largest e_f(j)^power over the person's admitted
steps j that it reads, where e_f(j) is the slot weight of step j. No fit gives an older step more
weight than a newer one. So the newest step alone decides, and the next step adds

    rise(last, step) = sum over the fits f that read `step` of s_f (e_f(step)^p - e_f(last)^p),

with e_f(last) = 0 where f does not read `last`: only the last admitted step matters, not the ones
before it. docs/proofs/persons.md derives the rise of each schedule.

Rises take few different values. Each class maps pairs (last, step) to keys that decide the value,
all at once, and computes the exact value of a key.
"""

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import lcm
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tidegate.privacy.shares import Shares
from tidegate.schedule import Fading, Growing, SlidingWindow
from tidegate.schedule.protocol import Schedule

StepArray = NDArray[np.int64]
Keys = tuple[StepArray, StepArray]

NEVER = -(2**60)
"""The last admitted step of a person who has none."""


class Rises(Protocol):
    """What steps add to the cost of a person, in units of a record's budget."""

    @property
    def grain(self) -> int | None:
        """A common denominator of all rises, if there is one."""

    def keys(self, lasts: StepArray, steps: StepArray) -> Keys:
        """What decides the rise of each step after the last admitted one, which may be NEVER."""

    def rise(self, one: int, two: int, /) -> Fraction:
        """The rise with these keys."""

    def run_keys(self, starts: StepArray, stops: StepArray) -> Keys:
        """What decides the sum of the rises of all steps of a range but its first."""

    def run(self, one: int, two: int, /) -> Fraction:
        """The sum with these keys."""


@dataclass(frozen=True)
class Count:
    """Every step costs 1, which is the most that the certificate lets any step cost."""

    grain: int = 1

    def keys(self, lasts: StepArray, steps: StepArray) -> Keys:
        """Nothing matters."""
        return np.zeros_like(lasts), np.zeros_like(steps)

    def rise(self, one: int, two: int, /) -> Fraction:  # noqa: ARG002 (the same for all)
        """1."""
        return Fraction(1)

    def run_keys(self, starts: StepArray, stops: StepArray) -> Keys:
        """The number of steps."""
        return np.zeros_like(starts), stops - 1 - starts

    def run(self, one: int, two: int, /) -> Fraction:  # noqa: ARG002 (only their number matters)
        """1 for each."""
        return Fraction(two)


@dataclass(frozen=True)
class Window:
    """One fit at every time from `first` on, on the newest steps, whose weights depend on age.

    Args:
        paid: What a record has paid once it was read at ages 0, ..., m - 1, for m = 0, ..., memory.
        first: When the first fit is made.
    """

    paid: tuple[Fraction, ...]
    first: int

    @property
    def memory(self) -> int:
        """How many steps a fit reads."""
        return len(self.paid) - 1

    @cached_property
    def grain(self) -> int:
        """The common denominator of what records pay."""
        return lcm(*(paid.denominator for paid in self.paid))

    def keys(self, lasts: StepArray, steps: StepArray) -> Keys:
        """The ages of both steps in the first fit that reads the new step."""
        newest = np.maximum(steps, self.first - 1)
        return np.minimum(newest - lasts, self.memory), np.minimum(newest - steps, self.memory)

    def rise(self, one: int, two: int, /) -> Fraction:
        """What the last step would pay from then on falls to the new one, which pays more."""
        return self.paid[one] - self.paid[two]

    def run_keys(self, starts: StepArray, stops: StepArray) -> Keys:
        """How many steps are complete before the first fit, from the first of them on; how many."""
        return np.maximum(self.first - 1 - starts, 0), stops - 1 - starts

    def run(self, one: int, two: int, /) -> Fraction:
        """Steps before the first fit add what telescopes; a later one adds its share."""
        early = min(one, two)
        ages = (min(one, self.memory), min(one - early, self.memory))
        return self.rise(*ages) + (two - early) * self.paid[1]


@dataclass(frozen=True)
class Chain:
    """The fits of a SlidingWindow: each step adds the shares of the fits that start after the last.

    From step `window - 1` on, all that reads a step repeats with every pass.
    """

    schedule: SlidingWindow
    shares: Shares

    @cached_property
    def grain(self) -> int:
        """The common denominator of all shares."""
        start = self.schedule.due(self.schedule.first)  # a pass starts with a fit of each level
        return lcm(*(self.shares.of(fit).denominator for fit in start))

    @property
    def _steady(self) -> int:
        return self.schedule.first - 1

    @property
    def length(self) -> int:
        """The steps of a pass."""
        return self.schedule.left + 1

    def _place(self, steps: StepArray) -> StepArray:
        """The earliest step that is read in the same way."""
        return np.where(
            steps < self._steady, steps, self._steady + (steps - self._steady) % self.length
        )

    def keys(self, lasts: StepArray, steps: StepArray) -> Keys:
        """Where the step is in its pass, and how long ago the last one was."""
        return self._place(steps), np.minimum(steps - lasts, self.schedule.first)

    def rise(self, one: int, two: int, /) -> Fraction:
        """The shares of the fits that read the step and not the last one."""
        before, shares = self._fits(one)
        return shares[bisect_left(before, two)]

    @cached_property
    def _cache(self) -> dict[int, tuple[list[int], list[Fraction]]]:
        return {}

    def _fits(self, step: int) -> tuple[list[int], list[Fraction]]:
        """How many steps each fit reads before this one, ascending, and the sums of shares."""
        if step in self._cache:
            return self._cache[step]
        found = sorted(
            (step - fit.span.start, self.shares.of(fit))
            for now in self.schedule.reads(step)
            for fit in self.schedule.due(now)
            if step in fit.span
        )
        sums = list(accumulate((share for _, share in found), initial=Fraction(0)))
        self._cache[step] = [before for before, _ in found], sums
        return self._cache[step]

    def run_keys(self, starts: StepArray, stops: StepArray) -> Keys:
        """Where the range starts, and how many steps follow."""
        return self._place(starts), stops - 1 - starts

    def run(self, one: int, two: int, /) -> Fraction:
        """The shares of the fits that start after the first step and inside the range."""
        return self._before(one + two + 1) - self._before(one + 1)

    def _before(self, step: int) -> Fraction:
        """The sum of the rises of all earlier steps, each after the step before it."""
        passes, rest = divmod(max(0, step - self._steady), self.length)
        sums, steady = self._sums, self._steady
        a_pass = sums[steady + self.length] - sums[steady]
        return sums[min(step, steady) + rest] + passes * a_pass

    @cached_property
    def _sums(self) -> list[Fraction]:
        steps = range(self._steady + self.length)
        return list(accumulate((self.rise(step, 1) for step in steps), initial=Fraction(0)))


@dataclass(frozen=True)
class Bases:
    """The bases of a Growing schedule: rises depend on blocks, and within one they are 0."""

    schedule: Growing
    shares: Shares

    @property
    def grain(self) -> None:
        """None: there are infinitely many blocks."""
        return

    def _blocks(self, steps: StepArray) -> StepArray:
        """The block of each step; -1 where there is none."""
        times = self.schedule.times(int(steps.max(initial=0)))
        return np.where(steps < 0, -1, np.searchsorted(times, steps, side="right"))

    def keys(self, lasts: StepArray, steps: StepArray) -> Keys:
        """The blocks of both steps."""
        return self._blocks(lasts), self._blocks(steps)

    def rise(self, one: int, two: int, /) -> Fraction:
        """1 less the power of the weight that the older block has where the newer one has 1."""
        if one < 0:
            return self.shares.forever
        weight = self.schedule.mark(one) / self.schedule.mark(two)
        return self.shares.forever * (1 - weight**self.shares.budget.power)

    def run_keys(self, starts: StepArray, stops: StepArray) -> Keys:
        """The blocks of the first and the last step."""
        return self._blocks(starts), self._blocks(stops - 1)

    def run(self, one: int, two: int, /) -> Fraction:
        """A rise for every block but the first."""
        return self._sum(two) - self._sum(one)

    @cached_property
    def _sums(self) -> list[Fraction]:
        return [Fraction(0)]

    def _sum(self, block: int) -> Fraction:
        """The sum of the rises of all blocks up to this one."""
        sums = self._sums
        while len(sums) <= block:
            sums.append(sums[-1] + self.rise(len(sums) - 1, len(sums)))
        return sums[block]


def rises_of(schedule: Schedule, shares: Shares) -> Rises:
    """The rises of a schedule; where no closed form is proved, every step costs 1."""
    if type(schedule) is Fading:
        power, fits = shares.budget.power, shares.forever
        share = fits * schedule.share(power)
        charges = (share * schedule.keep ** (power * age) for age in range(schedule.look_back))
        return Window(tuple(accumulate(charges, initial=Fraction(0))), schedule.first)
    if type(schedule) is SlidingWindow and schedule.refit:
        window = schedule.first
        paid = tuple(shares.forever * Fraction(m, window) for m in range(window + 1))
        return Window(paid, schedule.first)
    if type(schedule) is SlidingWindow:
        return Chain(schedule, shares)
    if type(schedule) is Growing:
        return Bases(schedule, shares)
    return Count()
