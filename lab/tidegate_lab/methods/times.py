"""When methods release, and which records count."""

from dataclasses import dataclass

from tidegate.schedule import Span
from tidegate_lab.checks import whole


@dataclass(frozen=True, kw_only=True)
class Times:
    """When to release, and which records count.

    Args:
        first: Records before the first release.
        step: Records between two releases.
        window: How many of the newest records count; None for all.

    >>> [tuple(span) for span in Times(first=4, step=2, window=3).spans(9)]
    [(1, 4), (3, 6), (5, 8)]
    """

    first: int
    step: int
    window: int | None = None

    def __post_init__(self) -> None:
        whole("first", self.first)
        whole("step", self.step)
        whole("window", self.first if self.window is None else self.window, most=self.first)

    def spans(self, n: int) -> list[Span]:
        """The records of each release, for a stream of n records."""
        ends = range(self.first, n + 1, self.step)
        return [Span(0 if self.window is None else at - self.window, at) for at in ends]
