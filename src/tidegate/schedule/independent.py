"""Every step alone: the baseline of the paper's figure (d)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.checks import whole
from tidegate.schedule.fit import Fit, Span


@dataclass(frozen=True, kw_only=True)
class Independent:
    """Fit each step on its own, with no prior; a record is read once.

        t = 1  [0]
        t = 2     [0]
        t = 3        [0]

    Args:
        step: Records between two releases.

    >>> Independent(step=10).due(30)[0].span
    Span(start=20, stop=30)
    """

    step: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", whole("step", self.step))

    @property
    def largest(self) -> int:
        """The step."""
        return self.step

    def due(self, at: int) -> Sequence[Fit]:
        """The one fit of the step that ends at `at`."""
        number, rest = divmod(at, self.step)
        if rest or number == 0:
            return ()
        return (Fit(number - 1, at, Span(at - self.step, at), prior=None, role="base", level=0),)

    def reads(self, record: int) -> Iterator[int]:
        """The end of the record's step."""
        yield (record // self.step + 1) * self.step

    def settled(self, at: int) -> int:
        """All that has been fitted."""
        return at - at % self.step

    def needed(self, at: int) -> int:
        """What is settled is never read again."""
        return self.settled(at)
