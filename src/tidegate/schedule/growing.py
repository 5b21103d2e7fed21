"""The Growing schedule: refits on all records, in which the newest weigh most."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count, dropwhile, pairwise
from typing import ClassVar

from tidegate.checks import refuse, whole
from tidegate.schedule.fit import TENDS_TO_ONE, Certificate, Fit, Levels, SlotWeight, Span
from tidegate.schedule.protocol import Stepped, parameter, register


@register
@dataclass(frozen=True, kw_only=True)
class Growing(Stepped):
    """A base on all records whenever the stream has grown by `growth`, starting at the last one.

    The first base is made at t_0 = `block`, the next at t_(k+1) = t_k + growth * t_k. The growth is
    rounded down to whole steps and is at least one step. Block j holds the records that arrive
    between bases j - 1 and j. In base k they have the slot weight s_j / s_k, where s_0 = 3/4 t_1
    and s_k = t_k for k >= 1. A record of slot weight e pays e^p times the fit's share, which is
    1 - (s_k / s_(k+1))^p; p is 1 under a pure budget and 2 under a Gaussian one. So a record of
    block j pays

        (s_j / s_k)^p - (s_j / s_(k+1))^p   for each k >= j,

    which tends to 1 in total, whenever the record arrived: no budget is left unspent. In steps,
    with their slot weights, for block = 4 and growth = 1/2:

        t = 4   [ 1    1    1    1 ]
        t = 6   [3/4  3/4  3/4  3/4   1    1 ]
        t = 9   [1/2  1/2  1/2  1/2  2/3  2/3   1    1    1 ]

    The schedule sets its own shares, so it accepts no allocation but the default.

    Args:
        block: Records before the first release, a multiple of `step`.
        step: Records in a step; releases come after whole steps.
        growth: By what fraction the records grow from one release to the next, as a Fraction from
            1/64 to below 1.

    >>> from tidegate.schedule import fits
    >>> schedule = Growing(block=4, step=1, growth=Fraction(1, 2))
    >>> [fit.at for fit in fits(schedule, until=30)]
    [4, 6, 9, 13, 19, 28]
    >>> [(tuple(span), str(part)) for span, part in schedule.due(9)[0].slot_weights]
    [((0, 4), '1/2'), ((4, 6), '2/3'), ((6, 9), '1')]
    >>> [str(schedule.share(k, power=2)) for k in range(3)]
    ['7/16', '5/9', '88/169']
    """

    kind: ClassVar[str] = "growing"
    about: ClassVar[str] = (
        "a model of all records whenever their number has grown; the newest count most"
    )
    allocated: ClassVar[bool] = False

    block: int = parameter("records before the first model, a multiple of the step", 8192)
    step: int = parameter("models come at multiples of this many records", 1024)
    growth: Fraction = parameter(
        "release again after this fraction more records (at least 1/64 and one step)",
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
            raise refuse("growth", "a Fraction from 1/64 to below 1", shown=str(growth))

    @cached_property
    def first(self) -> int:
        """When the first base is made."""
        return self.steps.complete(self.block)

    @cached_property
    def _times(self) -> list[int]:
        """The times of the bases that were computed so far."""
        return [self.first]

    def _time(self, number: int) -> int:
        """When a base is made."""
        times, (part, of) = self._times, self.growth.as_integer_ratio()
        while len(times) <= number:
            times.append(times[-1] + max(1, times[-1] * part // of))
        return times[number]

    def times(self, until: int) -> list[int]:
        """The times of all bases up to the first that is later than `until`."""
        while self._times[-1] <= until:
            self._time(len(self._times))
        return self._times[: bisect_right(self._times, until) + 1]

    def mark(self, number: int) -> Fraction:
        """s_k for base k: the slot weight of block j in base k is s_j / s_k."""
        return Fraction(self._time(number)) if number else Fraction(3, 4) * self._time(1)

    def share(self, number: int, power: int) -> Fraction:
        """The share of a base: what a record of its newest block pays."""
        return 1 - (self.mark(number) / self.mark(number + 1)) ** power

    def due(self, now: int) -> Sequence[Fit]:
        """The base that is due now, if any."""
        while self._times[-1] < now:
            self._time(len(self._times))
        number = bisect_left(self._times, now)
        if self._times[number] != now:
            return ()
        if number == 0:
            return (Fit(number, now, Span(0, now), None, "base", number),)
        newest = self.mark(number)
        edges = pairwise([0, *self._times[: number + 1]])
        slot_weights = [
            SlotWeight(Span(*edge), self.mark(j) / newest) for j, edge in enumerate(edges)
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
        """What `_behind` adds up, for each base that was computed so far."""
        return []

    def _behind(self, number: int) -> float:
        """How many steps would carry as much information as all bases before this one.

        The information of a base is its share times the square of n, the sum of its slot weights.
        Information of several bases adds up. Let S^2 be that of this base and I that of all bases
        up to it. Then n / (n + behind) = S / sqrt(I).
        """
        for k in range(len(self._sums), number + 1):
            total, information = self._sums[-1] if k else (0.0, 0.0)
            size = self._time(k) - (self._time(k - 1) if k else 0)
            total += float(self.mark(k)) * size  # the sum of the slot weights in base k, times s_k
            self._sums.append((total, information + self._information(k, total)))
        total, information = self._sums[number]
        own = self._information(number, total)
        return total / float(self.mark(number)) * (math.sqrt(information / own) - 1)

    def _information(self, number: int, total: float) -> float:
        """The information of base k, given the sum of its slot weights times s_k."""
        return (total / float(self.mark(number))) ** 2 * float(self.share(number, power=2))

    def raw_share(self, fit: Fit, levels: Levels) -> Fraction:
        """The share of the base."""
        return self.share(fit.number, levels.power)

    def certificate(self, levels: Levels) -> Certificate:  # noqa: ARG002 (its own shares)
        """What a record pays telescopes: its sum tends to 1."""
        return TENDS_TO_ONE

    def reads(self, step: int) -> Iterator[int]:
        """The times of all bases that read the step."""
        return dropwhile(lambda time: time <= step, map(self._time, count()))

    def settled(self, now: int) -> int:  # noqa: ARG002 (the same at all times)
        """0: each block keeps a slot weight of its own for ever, but there are few blocks."""
        return 0
