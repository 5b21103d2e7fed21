"""The MultiResolution schedule: the paper's Algorithm 2, and Algorithm 6 with `sample`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from typing import ClassVar

from tidegate.schedule.doubling import Blocks, ruler, ruler_sum
from tidegate.schedule.fit import Fit, Span
from tidegate.schedule.protocol import parameter, register


@register
@dataclass(frozen=True, kw_only=True)
class MultiResolution(Blocks):
    """At time t, fit [t - 2^k B, t) for every k such that 2^k B divides t; release all of them.

    In blocks (a digit: the level of the fit):

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

    block: int = parameter("records in the smallest block", 1024)
    sample: int | None = parameter(
        "read at most this many records per fit, drawn at random", default=None
    )

    def due(self, now: int) -> Sequence[Fit]:
        """One fit for each level whose block ends here, the smallest first."""
        if now == 0:
            return ()
        first, cap = ruler_sum(now - 1), self.sample
        return [
            Fit(first + j, now, Span(now - (1 << j), now), None, "base", j, 0, True, cap)
            for j in range(ruler(now) + 1)
        ]

    def reads(self, step: int) -> Iterator[int]:
        """The ends of the blocks of all sizes that contain the step."""
        ends = (((step >> level) + 1) << level for level in count())
        return (end for end, _ in groupby(ends))
