"""The Independent schedule: every step alone, the baseline of the paper's figure (d)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tidegate.checks import whole
from tidegate.schedule.fit import Certificate, Fit, Levels, Span
from tidegate.schedule.protocol import Stepped, parameter, register


@register
@dataclass(frozen=True, kw_only=True)
class Independent(Stepped):
    """Fit each step on its own, with no prior; a record is read once.

        t = 1  [0]
        t = 2     [0]
        t = 3        [0]

    Args:
        step: Records between two releases.

    >>> Independent(step=10).due(3)[0].span
    Span(start=2, stop=3)
    """

    kind: ClassVar[str] = "independent"
    about: ClassVar[str] = "a model of each step alone, a baseline to compare with"

    step: int = parameter("records between two models", 1024)

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", whole("step", self.step))

    @property
    def first(self) -> int:
        """1: the first model is released after the first step."""
        return 1

    @property
    def look_back(self) -> int:
        """1: a fit reads the newest step only."""
        return 1

    @property
    def largest(self) -> int:
        """The number of records in a step."""
        return self.steps.count(1)

    def due(self, now: int) -> Sequence[Fit]:
        """The fit on the newest step."""
        if now == 0:
            return ()
        return (Fit(now - 1, now, Span(now - 1, now), None, "base", 0),)

    def raw_share(self, fit: Fit, levels: Levels) -> Fraction:  # noqa: ARG002 (the same for all)
        """1: each record is in one fit only."""
        return Fraction(1)

    def certificate(self, levels: Levels) -> Certificate:  # noqa: ARG002 (the same for all)
        """Each record is in one fit, of raw share 1."""
        return Certificate(supremum=Fraction(1), attained=True)

    def reads(self, step: int) -> Iterator[int]:
        """The end of the step."""
        yield step + 1

    def settled(self, now: int) -> int:
        """All complete steps: none is read again."""
        return now
