"""Algorithm 5, and 8 with `sample`: the newest w records, exactly, at every step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt
from typing import ClassVar

from tidegate.checks import optional, refuse, whole
from tidegate.schedule.binary import log2, ruler, ruler_sum
from tidegate.schedule.fit import Fit, Span
from tidegate.schedule.levels import Certificate, Levels
from tidegate.schedule.protocol import Stepped
from tidegate.schedule.registry import parameter, register


@register
@dataclass(frozen=True, kw_only=True)
class SlidingWindow(Stepped):
    """A chain of models whose spans tile the window exactly, at every step.

    A pass starts with a base block right after `left` = 2^m - 1 older steps. s steps later the
    window holds the last left - s of these, the base, and s newer steps. s and left - s are
    complementary m-bit numbers, so for each level j < m exactly one block of 2^j steps exists: on
    the newer side if bit j of s is set, else on the older side, larger blocks nearer to the base.
    The chain runs from the base through the levels m-1, ..., 0, each fitted with the one before as
    its prior, and ends in the release. A step increments s, and only the flipped bits need a fit.
    When s would be left + 1 the base leaves the window and a new pass starts.

    In steps, for w = 7 (b: base, a digit: the level; capitals of time: a new pass):

        T =  7  [0][1  1][b  b  b  b]
        t =  8     [1  1][b  b  b  b][0]
        t =  9        [0][b  b  b  b][1  1]
        t = 10           [b  b  b  b][1  1][0]
        T = 11              [0][1  1][b  b  b  b]

    Args:
        window: Records in the window (the paper's w), a whole multiple of `step`, at least two.
        step: Records between two releases (the paper's w0).
        sample: If given, a fit reads at most this many records, drawn from its span.

    >>> [tuple(fit.span) for fit in SlidingWindow(window=70, step=10).due(7)]
    [(3, 7), (1, 3), (0, 1)]
    """

    kind: ClassVar[str] = "sliding"
    about: ClassVar[str] = "a model of exactly the newest `window` records, at every step"
    source: ClassVar[bool] = True

    window: int = parameter(
        "how many of the newest records a model is about, two steps or more", 7168
    )
    step: int = parameter("records between two models", 1024)
    sample: int | None = parameter("a fit reads at most this many of its records", default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", whole("step", self.step))
        object.__setattr__(self, "window", whole("window", self.window))
        object.__setattr__(self, "sample", optional("sample", self.sample))
        if self.window % self.step or self.window < 2 * self.step:
            raise refuse("window", f"two or more whole steps of {self.step}", self.window)

    @cached_property
    def first(self) -> int:
        """The first whole window."""
        return self.steps.complete(self.window)

    @property
    def look_back(self) -> int:
        """The window."""
        return self.first

    @cached_property
    def levels(self) -> int:
        """m, the number of levels: 2^m is the power of two nearest to (w + 1)/2 by ratio."""
        return log2(isqrt((self.first + 1) ** 2 // 2))

    @cached_property
    def left(self) -> int:
        """How many steps stand beside the base."""
        return (1 << self.levels) - 1

    @cached_property
    def base(self) -> int:
        """How many steps the base has."""
        return self.first - self.left

    @cached_property
    def _chain(self) -> tuple[int, ...]:
        """How many steps the base and the levels read, from the base on."""
        return (self.base, *(1 << level for level in reversed(range(self.levels))))

    @property
    def largest(self) -> int:
        """The base, or half of what stands beside it, or the sample."""
        most = self.steps.count(max(self.base, (self.left + 1) // 2))
        return most if self.sample is None else min(most, self.sample)

    def due(self, now: int) -> Sequence[Fit]:
        """The base and all levels at the start of a pass, else the levels whose bit flips."""
        if now < self.first:
            return ()
        passes, s = divmod(now - self.first, self.left + 1)
        if s == 0:
            base = self._fit(now, passes, s, self.levels, prior=None)
            top, prior = self.levels - 1, base.number
            fits = [base]
        else:
            top = ruler(s)
            # The block above is as old as the last step that flipped its bit or a higher one.
            prior = self._number(passes, s >> (top + 1) << (top + 1), top + 1)
            fits = []
        for level in range(top, -1, -1):
            fits.append(self._fit(now, passes, s, level, prior))
            prior = fits[-1].number
        return fits

    def _fit(self, now: int, passes: int, s: int, level: int, prior: int | None) -> Fit:
        start, size = self._block(s, level)
        start += self.left + passes * (self.left + 1)
        return Fit(
            self._number(passes, s, level),
            now,
            Span(start, start + size),
            prior,
            "update" if level < self.levels else "base",
            level,
            released=level == 0,
            sample=self.sample,
            behind=self._chain[: self.levels - level],
        )

    def _block(self, s: int, level: int) -> tuple[int, int]:
        """Start and size of a level's block, the start counted from the base's."""
        if level == self.levels:
            return 0, self.base
        size = 1 << level
        if s & size:
            return self.base + (s >> (level + 1) << (level + 1)), size
        older = self.left - s
        return -(older >> (level + 1) << (level + 1)) - size, size

    def _number(self, passes: int, s: int, level: int) -> int:
        """The number of the fit of a level that was due s steps into a pass.

        A pass makes levels + 1 fits at its start and then one for each bit flipped, of which there
        are ruler_sum(left) = 2 left - levels: 2 left + 1 in all.
        """
        first = passes * (2 * self.left + 1)
        if s == 0 or level == self.levels:
            return first + self.levels - level
        return first + self.levels + 1 + ruler_sum(s - 1) + ruler(s) - level

    def raw_share(self, fit: Fit, levels: Levels) -> Fraction:
        """A third for the base and for each side; a side is filled if so told."""
        if fit.role == "base":
            return Fraction(1, 3)
        return levels.raw_share(fit.level) / 3 / self._side(levels)

    def _side(self, levels: Levels) -> Fraction:
        """What the levels of one side are divided by: finitely many leave some of their third."""
        return 1 - levels.rate**self.levels if levels.filled else Fraction(1)

    def certificate(self, levels: Levels) -> Certificate:
        """The levels of one side, the bases a record is in, and the worst way to be in two sides.

        Derived in docs/proofs/certificate.md.
        """
        base, divisor = Fraction(1, 3), 3 * self._side(levels)
        shares = [levels.raw_share(level) / divisor for level in range(self.levels)]
        whole_bases, rest = divmod(self.base, self.left + 1)
        total = sum(shares, base * whole_bases)
        if rest:
            top = log2(rest)
            both_sides = sum(share for level, share in enumerate(shares) if rest >> level & 1)
            one_more_base = base - 2 * shares[top] - sum(shares[top + 1 :])
            total += both_sides + max(Fraction(0), one_more_base)
        return Certificate(supremum=total, attained=True)

    def reads(self, step: int) -> Iterator[int]:
        """When the blocks that hold the step are fitted, in the few passes that it lives through.

        A block of level j on the newer side is fitted s = (2a + 1) 2^j steps into a pass and ends
        there; on the older side it is fitted when what is beyond it has left the window.
        """
        period = self.left + 1
        times: set[int] = set()
        first = max(0, (step - self.left - self.first) // period)
        for start in range(self.left + first * period, step + period, period):
            newer, older = step - start - self.base, start - 1 - step
            if 0 <= newer < self.left:
                blocks = {(newer >> j | 1) << j for j in range(self.levels) if not newer >> j & 1}
            elif 0 <= older < self.left:
                blocks = {
                    period - (((older >> j) + 2) << j)
                    for j in range(self.levels)
                    if not older >> j & 1
                }
            else:
                blocks = {0} if 0 <= step - start < self.base else set()
            times |= {start + self.base + s for s in blocks}
        yield from sorted(times)

    def settled(self, now: int) -> int:
        """All that is not in the next window."""
        return max(0, now + 1 - self.first)
