"""The bases: a model of all records so far, whenever their number has doubled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count
from typing import ClassVar

from tidegate.checks import optional, whole
from tidegate.schedule.binary import is_power, log2
from tidegate.schedule.fit import Fit
from tidegate.schedule.levels import TENDS_TO_ONE, Certificate, Levels
from tidegate.schedule.phases import base_fit, doubled
from tidegate.schedule.registry import parameter, register
from tidegate.schedule.steps import Steps


@register
@dataclass(frozen=True, kw_only=True)
class Cumulative:
    """At every t = 2^k B fit [0, t), with no prior.

    In blocks:

        t = 1  [0]
        t = 2  [1  1]
        t = 4  [2  2  2  2]

    Args:
        block: Records before the first base (the paper's B).
        sample: If given, a fit reads at most this many records, drawn from its span.

    >>> [now for now in range(1, 10) if Cumulative(block=10).due(now)]
    [1, 2, 4, 8]
    """

    kind: ClassVar[str] = "cumulative"
    about: ClassVar[str] = "a model of all records so far, whenever their number has doubled"
    alone: ClassVar[bool] = False
    source: ClassVar[bool] = True
    weighs: ClassVar[bool] = False
    allocated: ClassVar[bool] = True

    block: int = parameter("records before the first model", 8192)
    sample: int | None = parameter("a fit reads at most this many of its records", default=None)

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
    def look_back(self) -> None:
        """All the way: a fit on everything is always to come."""
        return

    @property
    def largest(self) -> int | None:
        """The sample; without one there is no limit."""
        return self.sample

    def due(self, now: int) -> Sequence[Fit]:
        """The base, if the records have doubled since the last one."""
        if now == 0 or not is_power(now):
            return ()
        number = log2(now)
        return (base_fit(number, now, number, start=number - 1, sample=self.sample),)

    def raw_share(self, fit: Fit, levels: Levels) -> Fraction:
        """Every level halves what is left, or nearly so."""
        return levels.raw_share(fit.level)

    def certificate(self, levels: Levels) -> Certificate:  # noqa: ARG002 (the same for all)
        """A record is in one fit of each level at the most."""
        return TENDS_TO_ONE

    def reads(self, step: int) -> Iterator[int]:
        """Every base from the first that holds the step on."""
        return (1 << doublings for doublings in count(step.bit_length()))

    def settled(self, now: int) -> int:
        """The span of the last base: every later one holds it whole."""
        return doubled(now, 1)
