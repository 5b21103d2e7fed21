"""Algorithm 2, and 6 with `sample`: a model of the newest 1, 2, 4, ... blocks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count, groupby
from typing import ClassVar

from tidegate.checks import optional, whole
from tidegate.schedule.binary import ruler, ruler_sum
from tidegate.schedule.fit import Fit, Span
from tidegate.schedule.levels import TENDS_TO_ONE, Certificate, Levels
from tidegate.schedule.phases import doubled
from tidegate.schedule.registry import parameter, register
from tidegate.schedule.steps import Steps


@register
@dataclass(frozen=True, kw_only=True)
class MultiResolution:
    """At every t = 2^k q B fit [t - 2^k B, t), for every k that divides; all are released.

    In blocks, a digit being the level of the fit:

        t = 1  [0]
        t = 2     [0]
               [1  1]
        t = 3           [0]
        t = 4              [0]
                        [1  1]
               [2  2  2  2]

    Args:
        block: Records in the smallest block (the paper's B).
        sample: If given, a fit reads at most this many records, drawn from its span.

    >>> [tuple(fit.span) for fit in MultiResolution(block=10).due(4)]
    [(3, 4), (2, 4), (0, 4)]
    """

    kind: ClassVar[str] = "multiresolution"
    about: ClassVar[str] = "models of the newest 1, 2, 4, ... blocks of records"
    alone: ClassVar[bool] = True
    source: ClassVar[bool] = False
    weighs: ClassVar[bool] = False
    allocated: ClassVar[bool] = True

    block: int = parameter("records in the smallest block", 1024)
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
        """One fit for each level whose block ends here, the smallest first."""
        if now == 0:
            return ()
        first = ruler_sum(now - 1)
        return [
            Fit(
                first + level,
                now,
                Span(now - (1 << level), now),
                prior=None,
                role="base",
                level=level,
                sample=self.sample,
            )
            for level in range(ruler(now) + 1)
        ]

    def raw_share(self, fit: Fit, levels: Levels) -> Fraction:
        """Every level halves what is left, or nearly so."""
        return levels.raw_share(fit.level)

    def certificate(self, levels: Levels) -> Certificate:  # noqa: ARG002 (the same for all)
        """A record is in one fit of each level at the most."""
        return TENDS_TO_ONE

    def reads(self, step: int) -> Iterator[int]:
        """The ends of the blocks of all sizes that hold the step."""
        ends = (((step >> level) + 1) << level for level in count())
        return (end for end, _ in groupby(ends))

    def settled(self, now: int) -> int:
        """The largest block that starts at 0: whatever reads a part of it from now on reads all."""
        return doubled(now, 1)
