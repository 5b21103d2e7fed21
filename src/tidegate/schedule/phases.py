"""Phases: what the schedules with a base at every doubling share. All of it counts in steps."""

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
    """Where a time stands between two bases.

    Attributes:
        number: How often the base has been refitted.
        base: When the phase's base was fitted (the paper's t_g), which is also its length.
        since: Steps since then (the paper's i).
    """

    number: int
    base: int
    since: int

    @classmethod
    def of(cls, now: int, block: int) -> "Phase":
        """The phase of a time that is at least one block.

        >>> Phase.of(13, block=4)
        Phase(number=1, base=8, since=5)
        """
        number = log2(now // block)
        base = block << number
        return cls(number, base, now - base)


def base_fit(
    number: int, now: int, level: int, start: int | None = None, sample: int | None = None
) -> Fit:
    """The fit on all steps so far that opens a phase.

    Args:
        number: Its number.
        now: How many steps there are.
        level: How often they have doubled.
        start: The number of the base before.
        sample: How many records it reads at the most.
    """
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
    """A base on everything at every doubling of `block`, an update at every other step."""

    block: int

    def __post_init__(self) -> None:
        step, block = whole("step", self.step), whole("block", self.block)
        if block % step or not is_power(block // step):
            raise refuse("block", f"a power-of-two multiple of the step ({step})", block)
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "block", block)

    @cached_property
    def first(self) -> int:
        """The first base."""
        return self.steps.complete(self.block)

    def due(self, now: int) -> Sequence[Fit]:
        """The one fit of this step."""
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
        """The fit of a step that is not a doubling."""

    def settled(self, now: int) -> int:
        """The span of the last base: every later base holds it whole, no update touches it."""
        return doubled(now, self.first)


def doubled(now: int, block: int) -> int:
    """The largest block, block doubled, block doubled twice, ... that is complete; 0 before.

    >>> [doubled(now, block=10) for now in (9, 10, 39, 40)]
    [0, 10, 20, 40]
    """
    blocks = now // block
    return block << log2(blocks) if blocks else 0


def phase_share(fit: Fit, levels: Levels, update_levels: int) -> Fraction:
    """The raw share of a fit of a phase.

    Filled, a phase's updates get what its bases leave, so that its worst record pays 1 in the
    limit: the bases after phase q take r^(q + 1) from its records, and the updates of the record
    that is in all L levels of them add up to 1 - r^L before.

    Args:
        fit: The fit.
        levels: How shares fall from level to level.
        update_levels: How many levels of updates its phase has.
    """
    share = levels.raw_share(fit.level)
    if fit.role == "base" or not levels.filled:
        return share
    rate = levels.rate
    return share * (1 - rate ** (fit.phase + 1)) / (1 - rate**update_levels)


def phase_reads(step: int, block: int, *, powers: bool) -> Iterator[int]:
    """The times at which a phase's updates, then all later bases, may read a step.

    Args:
        step: The step.
        block: Steps in the first base.
        powers: Whether updates of 1, 2, 4, ... steps since the base reread what came since it.
    """
    base = block
    if step >= block:
        phase = Phase.of(step, block)
        since = phase.since + 1
        if since < phase.base:
            yield phase.base + since
        if powers:
            size = 2 << log2(since)
            while size < phase.base:
                yield phase.base + size
                size *= 2
        base = 2 * phase.base
    while True:
        yield base
        base *= 2
