"""Common parts of the schedules whose step is a block."""

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
