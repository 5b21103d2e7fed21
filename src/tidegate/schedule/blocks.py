"""Blocks: what the schedules whose step is a block share."""

from fractions import Fraction
from functools import cached_property
from typing import Protocol

from tidegate.checks import optional, whole
from tidegate.schedule.fit import Fit
from tidegate.schedule.levels import TENDS_TO_ONE, Certificate, Levels
from tidegate.schedule.phases import doubled
from tidegate.schedule.protocol import Schedule
from tidegate.schedule.steps import Steps


class Blocks(Schedule, Protocol):
    """A block is a step; fits read 1, 2, 4, ... of them, and a step is in one of each level."""

    block: int
    sample: int | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "block", whole("block", self.block))
        object.__setattr__(self, "sample", optional("sample", self.sample))

    @cached_property
    def steps(self) -> Steps:
        """A block is a step."""
        return Steps(self.block)

    @property
    def first(self) -> int:
        """The first block."""
        return 1

    @property
    def largest(self) -> int | None:
        """The sample; without one there is no limit."""
        return self.sample

    def raw_share(self, fit: Fit, levels: Levels) -> Fraction:
        """Every level halves what is left, or nearly so."""
        return levels.raw_share(fit.level)

    def certificate(self, levels: Levels) -> Certificate:  # noqa: ARG002 (the same for all)
        """A record is in one fit of each level at the most."""
        return TENDS_TO_ONE

    def settled(self, now: int) -> int:
        """The largest block that starts at 0: whatever reads a part of it from now on reads all."""
        return doubled(now, 1)
