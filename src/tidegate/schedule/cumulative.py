"""The bases: a model of all records so far, whenever their number has doubled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tidegate.checks import optional, whole
from tidegate.schedule.binary import is_power, log2
from tidegate.schedule.fit import Fit
from tidegate.schedule.levels import TENDS_TO_ONE, Certificate, Levels
from tidegate.schedule.phases import base_fit, doubled
from tidegate.schedule.registry import parameter, register


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

    >>> [at for at in range(10, 100, 10) if Cumulative(block=10).due(at)]
    [10, 20, 40, 80]
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

    @property
    def step(self) -> int:
        """The block."""
        return self.block

    @property
    def first(self) -> int:
        """The first block."""
        return self.block

    @property
    def largest(self) -> int | None:
        """The sample; without one there is no limit."""
        return self.sample

    def due(self, at: int) -> Sequence[Fit]:
        """The base, if the records have doubled since the last one."""
        blocks, rest = divmod(at, self.block)
        if rest or blocks == 0 or not is_power(blocks):
            return ()
        number = log2(blocks)
        return (base_fit(number, at, number, start=number - 1, sample=self.sample),)

    def raw_share(self, fit: Fit, levels: Levels) -> Fraction:
        """Every level halves what is left, or nearly so."""
        return levels.raw_share(fit.level)

    def certificate(self, levels: Levels) -> Certificate:  # noqa: ARG002 (the same for all)
        """A record is in one fit of each level at the most."""
        return TENDS_TO_ONE

    def reads(self, record: int) -> Iterator[int]:
        """Every base from the first that holds the record on."""
        at = self.block
        while True:
            if at > record:
                yield at
            at *= 2

    def settled(self, at: int) -> int:
        """The span of the last base: every later one holds it whole."""
        return doubled(at, self.block)

    def needed(self, at: int) -> int:  # noqa: ARG002 (the same at all times)
        """All: the next base reads every record."""
        return 0
