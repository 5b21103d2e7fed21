"""The appendix's basic release: Continual without its larger updates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.checks import whole
from tidegate.schedule.fit import Fit, Span
from tidegate.schedule.phases import Phase, base_fit, doubled, phase_reads, whole_block


@dataclass(frozen=True, kw_only=True)
class Basic:
    """A base on everything at every doubling; every other step refines the release before it.

    In steps, for B = 4 (b: base, 0: an update of one step):

        t = 4   [b  b  b  b]
        t = 5               [0]            prior: the release at 4
        t = 6                  [0]         prior: the release at 5
        t = 7                     [0]      prior: the release at 6
        t = 8   [b  b  b  b  b  b  b  b]

    Args:
        block: Records before the first base (the paper's B), a power-of-two multiple of `step`.
        step: Records between two releases (the paper's b0).

    >>> from tidegate.schedule import fits
    >>> [tuple(fit.span) for fit in fits(Basic(block=40, step=10), until=80)]
    [(0, 40), (40, 50), (50, 60), (60, 70), (0, 80)]
    """

    block: int
    step: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", whole("step", self.step))
        object.__setattr__(self, "block", whole_block(self.block, self.step))

    @property
    def largest(self) -> None:
        """No limit: bases read all of the history."""
        return

    def due(self, at: int) -> Sequence[Fit]:
        """The one fit of this step."""
        steps, rest = divmod(at, self.step)
        block = self.block // self.step
        if rest or steps < block:
            return ()
        phase = Phase.of(steps, block)
        number = steps - block
        if phase.index == 0:
            return (base_fit(number, at, phase.number, start=phase.base // 2 - block),)
        span = Span(at - self.step, at)
        fit = Fit(number, at, span, number - 1, "update", 0, phase.number, behind=span.start)
        return (fit,)

    def reads(self, record: int) -> Iterator[int]:
        """The step's own update, then all later bases."""
        return phase_reads(record, self.block // self.step, self.step, powers=False)

    def settled(self, at: int) -> int:
        """The span of the last base: every later base holds it whole, no update touches it."""
        return doubled(at, self.block)

    def needed(self, at: int) -> int:  # noqa: ARG002 (the same at all times)
        """All: the next base reads every record."""
        return 0
