"""The Continual schedule: the paper's Algorithm 4, and Algorithm 7 with `sample`."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tidegate.checks import optional
from tidegate.schedule.doubling import Phase, Phased, is_power, log2
from tidegate.schedule.fit import TENDS_TO_ONE, Certificate, Fit, Levels, Span
from tidegate.schedule.protocol import parameter, register


@register
@dataclass(frozen=True, kw_only=True)
class Continual(Phased):
    """A base on all records at every doubling, and hierarchical updates of it in between.

    At t = 2^k B, fit [0, t) with no prior: the base. Between bases, let i = t - t_g be the number
    of steps since the last base. If i is a power of two, fit [t_g, t) with the base as prior and
    keep the model as f_c. Otherwise fit the newest step with f_c as prior. From B on, there is
    exactly one release per step.

    In steps, for B = 4 (b: base, a digit: level of an update):

        t = 4   [b  b  b  b]
        t = 5               [0]            prior: base      kept as f_c
        t = 6               [1  1]         prior: base      kept as f_c
        t = 7                     [0]      prior: f_c
        t = 8   [b  b  b  b  b  b  b  b]

    Args:
        block: Records before the first release (the paper's B), a power-of-two multiple of `step`.
        step: Records between two releases (the paper's b0).
        sample: If given, a fit reads at most this many records, drawn from its span.

    >>> from tidegate.schedule import fits
    >>> [tuple(fit.span) for fit in fits(Continual(block=40, step=10), until=8)]
    [(0, 4), (4, 5), (4, 6), (6, 7), (0, 8)]
    """

    kind: ClassVar[str] = "continual"
    about: ClassVar[str] = "a model of all records so far, refreshed at every step"

    block: int = parameter(
        "records before the first model: the step, or 2, 4, 8, ... times it", 8192
    )
    step: int = parameter("records between two models", 1024)
    sample: int | None = parameter(
        "read at most this many records per fit, drawn at random", default=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sample", optional("sample", self.sample))

    @property
    def largest(self) -> int | None:
        """The sample size; None without sampling."""
        return self.sample

    def update(self, now: int, phase: Phase) -> Fit:
        """The fit on all steps of the phase if their number is a power of two, else the newest."""
        level, base = log2(phase.since), phase.base
        behind: tuple[int, ...]
        if is_power(phase.since):
            span, behind = Span(base, now), (base,)
        else:
            span, behind, level = Span(now - 1, now), (base, 1 << level), 0
        return Fit(
            now - self.first,
            now,
            span,
            sum(behind) - self.first,
            "update",
            level,
            phase.number,
            sample=self.sample,
            behind=behind,
        )

    def update_levels(self, phase: int) -> int:
        """How many levels of updates a phase has; the largest reads half as much as its base."""
        return log2(self.first) + phase

    def certificate(self, levels: Levels) -> Certificate:
        """The most-charged record: in step 1 of phase 0, or in the first block.

        The former pays for all updates of its phase and all bases but the first; the latter for
        all bases.
        """
        if levels.filled:
            return TENDS_TO_ONE
        excess = levels.rate - levels.rate ** self.update_levels(0)
        return Certificate(supremum=1 + max(Fraction(0), excess), attained=False)
