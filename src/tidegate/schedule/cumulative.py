"""The bases: a model of all records so far, whenever their number has doubled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

from tidegate.schedule.binary import is_power, log2
from tidegate.schedule.blocks import Blocks
from tidegate.schedule.fit import Fit
from tidegate.schedule.phases import base_fit
from tidegate.schedule.registry import parameter, register


@register
@dataclass(frozen=True, kw_only=True)
class Cumulative(Blocks):
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

    block: int = parameter("records before the first model", 8192)
    sample: int | None = parameter("a fit reads at most this many of its records", default=None)

    def due(self, now: int) -> Sequence[Fit]:
        """The base, if the records have doubled since the last one."""
        if now == 0 or not is_power(now):
            return ()
        number = log2(now)
        return (base_fit(number, now, number, start=number - 1, sample=self.sample),)

    def reads(self, step: int) -> Iterator[int]:
        """Every base from the first that holds the step on."""
        return (1 << doublings for doublings in count(step.bit_length()))
