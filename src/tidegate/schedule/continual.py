"""Algorithm 4, and 7 with `sample`: all of the history, refreshed at every step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from tidegate.checks import optional, whole
from tidegate.schedule.binary import is_power, log2
from tidegate.schedule.fit import Fit, Span
from tidegate.schedule.levels import TENDS_TO_ONE, Certificate, Levels
from tidegate.schedule.phases import Phase, base_fit, doubled, phase_reads, phase_share, whole_block
from tidegate.schedule.registry import parameter, register
from tidegate.schedule.steps import Steps


@register
@dataclass(frozen=True, kw_only=True)
class Continual:
    """A base on everything at every doubling, and hierarchical updates of it in between.

    At t = 2^k B fit [0, t) with no prior: the base. Between, i steps after the base's time t_g:
    if i is a power of two fit [t_g, t) with the base as prior and keep it as f_c, else fit the
    newest step with f_c as prior. Exactly one release per step from B on.

    In steps, for B = 4 (b: base, a digit: level of an update):

        t = 4   [b  b  b  b]
        t = 5               [0]            prior: base      kept as f_c
        t = 6               [1  1]         prior: base      kept as f_c
        t = 7                     [0]      prior: f_c
        t = 8   [b  b  b  b  b  b  b  b]

    Args:
        block: Records before the first base (the paper's B), a power-of-two multiple of `step`.
        step: Records between two releases (the paper's b0).
        sample: If given, a fit reads at most this many records, drawn from its span.

    >>> from tidegate.schedule import fits
    >>> [tuple(fit.span) for fit in fits(Continual(block=40, step=10), until=8)]
    [(0, 4), (4, 5), (4, 6), (6, 7), (0, 8)]
    """

    kind: ClassVar[str] = "continual"
    about: ClassVar[str] = "a model of all records so far, refreshed at every step"
    alone: ClassVar[bool] = True
    source: ClassVar[bool] = False
    weighs: ClassVar[bool] = False
    allocated: ClassVar[bool] = True

    block: int = parameter(
        "records before the first model: the step, or 2, 4, 8, ... times it", 8192
    )
    step: int = parameter("records between two models", 1024)
    sample: int | None = parameter("a fit reads at most this many of its records", default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", whole("step", self.step))
        object.__setattr__(self, "block", whole_block(self.block, self.step))
        object.__setattr__(self, "sample", optional("sample", self.sample))

    @cached_property
    def steps(self) -> Steps:
        """All of one size."""
        return Steps(self.step)

    @cached_property
    def first(self) -> int:
        """The first base."""
        return self.steps.complete(self.block)

    @property
    def look_back(self) -> None:
        """All the way: bases read all of the history."""
        return

    @property
    def largest(self) -> int | None:
        """The sample; without one there is no limit."""
        return self.sample

    def due(self, now: int) -> Sequence[Fit]:
        """The one fit of this step."""
        block = self.first
        if now < block:
            return ()
        phase = Phase.of(now, block)
        number, base = now - block, phase.base
        if phase.index == 0:
            before = base // 2 - block
            return (base_fit(number, now, phase.number, start=before, sample=self.sample),)
        level = log2(phase.index)
        behind: tuple[int, ...]
        if is_power(phase.index):
            span, prior, behind = Span(base, now), base - block, (base,)
        else:
            behind = (base, 1 << level)
            span, prior, level = Span(now - 1, now), sum(behind) - block, 0
        return (
            Fit(
                number,
                now,
                span,
                prior,
                "update",
                level,
                phase.number,
                sample=self.sample,
                behind=behind,
            ),
        )

    def raw_share(self, fit: Fit, levels: Levels) -> Fraction:
        """Bases and updates by their level; updates fill what the bases leave if so told."""
        return phase_share(fit, levels, self._update_levels(fit.phase))

    def _update_levels(self, phase: int) -> int:
        """How many levels of updates a phase has."""
        return log2(self.first) + phase

    def certificate(self, levels: Levels) -> Certificate:
        """The first step of phase 0: all its updates, and every base but the first."""
        if levels.filled:
            return TENDS_TO_ONE
        excess = levels.rate - levels.rate ** self._update_levels(0)
        return Certificate(supremum=1 + max(Fraction(0), excess), attained=False)

    def reads(self, step: int) -> Iterator[int]:
        """The step's own update, the larger ones of its phase, then all later bases."""
        return phase_reads(step, self.first, powers=True)

    def settled(self, now: int) -> int:
        """The span of the last base: every later base holds it whole, no update touches it."""
        return doubled(now, self.first)
