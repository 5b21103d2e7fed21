"""The Cumulative schedule: the bases of Continual without its updates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

from tidegate.schedule.doubling import Blocks, base_fit, is_power, log2
from tidegate.schedule.fit import Fit
from tidegate.schedule.protocol import parameter, register


@register
@dataclass(frozen=True, kw_only=True)
class Cumulative(Blocks):
    """Fit [0, t) with no prior at every t = 2^k B.

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
    sample: int | None = parameter(
        "read at most this many records per fit, drawn at random", default=None
    )

    def due(self, now: int) -> Sequence[Fit]:
        """The base, if the number of steps is a power of two."""
        if now == 0 or not is_power(now):
            return ()
        number = log2(now)
        return (base_fit(number, now, number, start=number - 1, sample=self.sample),)

    def reads(self, step: int) -> Iterator[int]:
        """The times of all bases that read the step."""
        return (1 << doublings for doublings in count(step.bit_length()))
