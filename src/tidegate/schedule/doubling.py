"""Common parts of schedules whose fits double: binary numbers, blocks, bases at doublings."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, Protocol

from tidegate.checks import optional, refuse, whole
from tidegate.schedule.fit import TENDS_TO_ONE, Certificate, Fit, Levels, Span, Steps
from tidegate.schedule.protocol import Schedule, Stepped


def is_power(number: int) -> bool:
    """Whether a positive number is a power of two (1 is).

    >>> [number for number in range(1, 10) if is_power(number)]
    [1, 2, 4, 8]
    """
    return number & (number - 1) == 0


def log2(number: int) -> int:
    """The base-2 logarithm of a positive number, rounded down.

    >>> [log2(number) for number in (1, 2, 3, 4, 7, 8)]
    [0, 1, 1, 2, 2, 3]
    """
    return number.bit_length() - 1


def ruler(number: int) -> int:
    """How many times 2 divides a positive number.

    >>> [ruler(number) for number in range(1, 9)]
    [0, 1, 0, 2, 0, 1, 0, 3]
    """
    return log2(number & -number)


def ruler_sum(number: int) -> int:
    """The sum of `ruler(i) + 1` for i = 1, ..., number: the bits a counter flips.

    >>> [ruler_sum(number) for number in range(5)]
    [0, 1, 3, 4, 7]
    """
    return 2 * number - number.bit_count()


class Blocks(Schedule, Protocol):
    """A block is a step. Fits read 1, 2, 4, ... steps; a step is in at most one of each level."""

    block: int
    sample: int | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "block", whole("block", self.block))
        object.__setattr__(self, "sample", optional("sample", self.sample))

    @cached_property
    def steps(self) -> Steps:
        """Steps of `block` records each."""
        return Steps(self.block)

    @property
    def first(self) -> int:
        """1: the first model is released after the first block."""
        return 1

    @property
    def largest(self) -> int | None:
        """The sample size; None without sampling."""
        return self.sample

    def raw_share(self, fit: Fit, levels: Levels) -> Fraction:
        """The raw share of the fit's level."""
        return levels.raw_share(fit.level)

    def certificate(self, levels: Levels) -> Certificate:  # noqa: ARG002 (the same for all)
        """A record is in at most one fit of each level."""
        return TENDS_TO_ONE

    def settled(self, now: int) -> int:
        """The largest complete block that starts at 0: later fits read all or none of it."""
        return doubled(now, 1)


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
