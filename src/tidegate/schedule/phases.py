"""Common parts of the schedules that make a base at every doubling, counted in steps."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, Protocol

from tidegate.checks import refuse, whole
from tidegate.schedule.binary import is_power, log2
from tidegate.schedule.fit import Fit, Span
from tidegate.schedule.levels import Levels
from tidegate.schedule.protocol import Stepped


class Phase(NamedTuple):
    """The position of a time between two bases."""

    number: int  # how many bases were made before the phase's own
    base: int  # when the phase's base was made (the paper's t_g); also the length of the phase
    since: int  # steps since then (the paper's i)

    @classmethod
    def of(cls, now: int, block: int) -> "Phase":
        """The phase of a time `now`, which must be at least `block`.

        >>> Phase.of(13, block=4)
        Phase(number=1, base=8, since=5)
        """
        number = log2(now // block)
        base = block << number
        return cls(number, base, now - base)


def base_fit(
    number: int, now: int, level: int, start: int | None = None, sample: int | None = None
) -> Fit:
    """The base on all steps so far, which opens the phase with number `level`."""
    return Fit(
        number,
        now,
        Span(0, now),
        None,
        "base",
        level,
        level,
        sample=sample,
        behind=tuple(now >> doublings for doublings in range(1, level + 1)),
        start=start if level else None,
    )


class Phased(Stepped, Protocol):
    """A base on all records at `block` and each doubling of it, an update at steps between."""

    block: int

    def __post_init__(self) -> None:
        step, block = whole("step", self.step), whole("block", self.block)
        if block % step or not is_power(block // step):
            raise refuse("block", f"a power-of-two multiple of the step ({step})", block)
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "block", block)

    @cached_property
    def first(self) -> int:
        """When the first base is made."""
        return self.steps.complete(self.block)

    def due(self, now: int) -> Sequence[Fit]:
        """The base or update of this step; none before the first base."""
        block = self.first
        if now < block:
            return ()
        phase = Phase.of(now, block)
        if phase.since:
            return (self.update(now, phase),)
        before = phase.base // 2 - block
        return (base_fit(now - block, now, phase.number, start=before, sample=self.largest),)

    @abstractmethod
    def update(self, now: int, phase: Phase) -> Fit:
        """The fit of a step between two bases."""

    @abstractmethod
    def update_levels(self, phase: int) -> int:
        """How many levels of updates a phase has."""

    def raw_share(self, fit: Fit, levels: Levels) -> Fraction:
        """The raw share of the level; if `filled`, updates are scaled to what bases leave.

        Later bases take r^(q + 1) from the records of phase q. A record in all L levels of updates
        pays 1 - r^L for them before scaling. So the most-charged record of the phase pays 1 in the
        limit.
        """
        share = levels.raw_share(fit.level)
        if fit.role == "base" or not levels.filled:
            return share
        rate = levels.rate
        return share * (1 - rate ** (fit.phase + 1)) / (1 - rate ** self.update_levels(fit.phase))

    def reads(self, step: int) -> Iterator[int]:
        """The times of the step's own update, larger updates of its phase, and later bases."""
        base = self.first
        if step >= base:
            phase = Phase.of(step, base)
            since = phase.since + 1
            if since < phase.base:
                yield phase.base + since
            for level in range(since.bit_length(), self.update_levels(phase.number)):
                yield phase.base + (1 << level)
            base = 2 * phase.base
        while True:
            yield base
            base *= 2

    def settled(self, now: int) -> int:
        """The span of the last base: later bases read all of it, updates none of it."""
        return doubled(now, self.first)


def doubled(now: int, block: int) -> int:
    """The largest of `block`, 2 `block`, 4 `block`, ... that is at most `now`; 0 if none is.

    >>> [doubled(now, block=10) for now in (9, 10, 39, 40)]
    [0, 10, 20, 40]
    """
    blocks = now // block
    return block << log2(blocks) if blocks else 0
