"""All of the history again and again; the newest records count most."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count, dropwhile, pairwise
from typing import ClassVar

from tidegate.checks import refuse, whole
from tidegate.schedule.fit import Fit, SlotWeight, Span
from tidegate.schedule.levels import TENDS_TO_ONE, Certificate, Levels
from tidegate.schedule.protocol import Stepped
from tidegate.schedule.registry import parameter, register


@register
@dataclass(frozen=True, kw_only=True)
class Growing(Stepped):
    """A base on everything whenever the stream has grown by a little, each from the one before.

    The first base is made at t_0 = `block`, the next at t_(k+1) = t_k + growth * t_k, in whole
    steps and at least one. Records that came between two bases are a block, and in base k those of
    block j count for s_j / s_k, where s_k = t_k but s_0 = 3/4 t_1. A record that counts for w pays
    w^2 times the fit's share, which is 1 - (s_k / s_(k+1))^2. So a record of block j pays

        s_j^2 / s_k^2 - s_j^2 / s_(k+1)^2   for each k >= j,

    which adds up to 1 over all time, whenever it came: no budget is left unspent, and none is kept
    for a day that does not come. In steps, with what they count for, block = 4 and growth = 1/2:

        t = 4   [ 1    1    1    1 ]
        t = 6   [3/4  3/4  3/4  3/4   1    1 ]
        t = 9   [1/2  1/2  1/2  1/2  2/3  2/3   1    1    1 ]

    The shares are its own: no allocation but the default is taken.

    Args:
        block: Records before the first base, a multiple of `step`.
        step: Records in a step.
        growth: The part by which the stream grows from one base to the next.

    >>> from tidegate.schedule import fits
    >>> schedule = Growing(block=4, step=1, growth=Fraction(1, 2))
    >>> [fit.at for fit in fits(schedule, until=30)]
    [4, 6, 9, 13, 19, 28]
    >>> [(tuple(span), str(part)) for span, part in schedule.due(9)[0].slot_weights]
    [((0, 4), '1/2'), ((4, 6), '2/3'), ((6, 9), '1')]
    >>> [str(schedule.share(k)) for k in range(3)]
    ['7/16', '5/9', '88/169']
    """

    kind: ClassVar[str] = "growing"
    about: ClassVar[str] = "a model of all records whenever they have grown, the newest count most"
    weighs: ClassVar[bool] = True
    allocated: ClassVar[bool] = False

    block: int = parameter("records before the first model, a multiple of the step", 8192)
    step: int = parameter("models come after whole steps", 1024)
    growth: Fraction = parameter(
        "by how much records grow from one model to the next, a step at least",
        "1/16",
        default=Fraction(1, 16),
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", whole("step", self.step))
        object.__setattr__(self, "block", whole("block", self.block))
        if self.block % self.step:
            raise refuse("block", f"a multiple of the step ({self.step})", self.block)
        growth: object = self.growth
        if not (isinstance(growth, Fraction) and Fraction(1, 64) <= growth < 1):
            raise refuse("growth", "a Fraction from 1/64 to below 1", told=str(growth))

    @cached_property
    def first(self) -> int:
        """The first base."""
        return self.steps.complete(self.block)

    @cached_property
    def _times(self) -> list[int]:
        """When bases are made, as far as that has been asked for."""
        return [self.first]

    def _time(self, number: int) -> int:
        """When a base is made."""
        times, (part, of) = self._times, self.growth.as_integer_ratio()
        while len(times) <= number:
            times.append(times[-1] + max(1, times[-1] * part // of))
        return times[number]

    def _mark(self, number: int) -> Fraction:
        """What records count for in proportion: the time their block ends at, but for the first."""
        return Fraction(self._time(number)) if number else Fraction(3, 4) * self._time(1)

    def share(self, number: int) -> Fraction:
        """What a record of the newest block pays for a base."""
        return 1 - (self._mark(number) / self._mark(number + 1)) ** 2

    def due(self, now: int) -> Sequence[Fit]:
        """The base of this time, if there is one."""
        while self._times[-1] < now:
            self._time(len(self._times))
        number = bisect_left(self._times, now)
        if self._times[number] != now:
            return ()
        if number == 0:
            return (Fit(number, now, Span(0, now), None, "base", number),)
        newest = self._mark(number)
        edges = pairwise([0, *self._times[: number + 1]])
        slot_weights = [
            SlotWeight(Span(*edge), self._mark(j) / newest) for j, edge in enumerate(edges)
        ]
        return (
            Fit(
                number,
                now,
                Span(0, now),
                None,
                "base",
                number,
                slot_weights=tuple(slot_weights),
                behind=(self._behind(number),),
                start=number - 1,
            ),
        )

    @cached_property
    def _sums(self) -> list[tuple[float, float]]:
        """For each base, as far as that has been asked for: what `_behind` adds up."""
        return []

    def _behind(self, number: int) -> float:
        """How many steps would tell what all bases before one have told.

        What a base tells is the square of what its records count for together, times its share;
        what several tell adds up. With S^2 for the newest and I for all, n / (n + behind) is then
        S / sqrt(I), where n is what the newest one's records count for together.
        """
        for k in range(len(self._sums), number + 1):
            total, told = self._sums[-1] if k else (0.0, 0.0)
            size = self._time(k) - (self._time(k - 1) if k else 0)
            total += float(self._mark(k)) * size  # in units of 1 / the mark of k
            self._sums.append((total, told + self._newest(k, total)))
        total, told = self._sums[number]
        newest = self._newest(number, total)
        return total / float(self._mark(number)) * (math.sqrt(told / newest) - 1)

    def _newest(self, number: int, total: float) -> float:
        """What a base tells, given what its records count for in units of 1 / its mark."""
        return (total / float(self._mark(number))) ** 2 * float(self.share(number))

    def raw_share(self, fit: Fit, levels: Levels) -> Fraction:  # noqa: ARG002 (its own shares)
        """What a record of the newest block pays."""
        return self.share(fit.number)

    def certificate(self, levels: Levels) -> Certificate:  # noqa: ARG002 (its own shares)
        """A sum that telescopes."""
        return TENDS_TO_ONE

    def reads(self, step: int) -> Iterator[int]:
        """Every base from the first that holds the step on."""
        return dropwhile(lambda time: time <= step, map(self._time, count()))

    def settled(self, now: int) -> int:  # noqa: ARG002 (the same at all times)
        """None: every block counts for something else for ever, but there are few blocks."""
        return 0
