"""The Basic schedule of the paper's appendix: Continual without its larger updates."""

from dataclasses import dataclass
from typing import ClassVar

from tidegate.schedule.doubling import Phase, Phased
from tidegate.schedule.fit import TENDS_TO_ONE, Certificate, Fit, Levels, Span
from tidegate.schedule.protocol import parameter, register


@register
@dataclass(frozen=True, kw_only=True)
class Basic(Phased):
    """A base on all records at every doubling; each step between refines the release before it.

    In steps, for B = 4 (b: base, 0: an update of one step):

        t = 4   [b  b  b  b]
        t = 5               [0]            prior: the release at 4
        t = 6                  [0]         prior: the release at 5
        t = 7                     [0]      prior: the release at 6
        t = 8   [b  b  b  b  b  b  b  b]

    Args:
        block: Records before the first release (the paper's B), a power-of-two multiple of `step`.
        step: Records between two releases (the paper's b0).

    >>> from tidegate.schedule import fits
    >>> [tuple(fit.span) for fit in fits(Basic(block=40, step=10), until=8)]
    [(0, 4), (4, 5), (5, 6), (6, 7), (0, 8)]
    """

    kind: ClassVar[str] = "basic"
    about: ClassVar[str] = (
        "a model of all records at every doubling, refined at every step in between"
    )

    block: int = parameter(
        "records before the first model: the step, or 2, 4, 8, ... times it", 8192
    )
    step: int = parameter("records between two models", 1024)

    def update(self, now: int, phase: Phase) -> Fit:
        """The fit that refines the release before it on the newest step."""
        number = now - self.first
        span = Span(now - 1, now)
        return Fit(number, now, span, number - 1, "update", 0, phase.number, behind=(now - 1,))

    def update_levels(self, phase: int) -> int:  # noqa: ARG002 (the same for all)
        """1: every update reads one step."""
        return 1

    def certificate(self, levels: Levels) -> Certificate:  # noqa: ARG002 (the same for all)
        """A record is in all bases, or in at most one update and later bases."""
        return TENDS_TO_ONE
