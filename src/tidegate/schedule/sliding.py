"""The SlidingWindow schedule: the paper's Algorithm 5, and Algorithm 8 with `sample`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt, sqrt
from typing import ClassVar

from tidegate.checks import flag, optional, refuse, whole
from tidegate.schedule.doubling import log2, ruler, ruler_sum
from tidegate.schedule.fit import Certificate, Fit, Levels, SlotWeight, Span
from tidegate.schedule.protocol import Stepped, parameter, register


@register
@dataclass(frozen=True, kw_only=True)
class SlidingWindow(Stepped):
    """A chain of models whose spans tile the window exactly, at every step.

    A pass starts with a base block right after `left` = 2^m - 1 older steps. s steps later the
    window holds the last left - s of these, the base, and s newer steps. s and left - s are
    complementary m-bit numbers, so for each level j < m exactly one block of 2^j steps exists: on
    the newer side if bit j of s is set, else on the older side, larger blocks nearer to the base.
    The chain runs from the base through the levels m-1, ..., 0, each fitted with the one before as
    its prior; the last is the release. Each step increments s, and only the levels whose bits flip
    need a fit. When s would be left + 1, the base would start to leave the window: a new pass
    starts.

    In steps, for w = 7 (b: base, a digit: level of an update, T: a new pass starts):

        T =  7  [0][1  1][b  b  b  b]
        t =  8     [1  1][b  b  b  b][0]
        t =  9        [0][b  b  b  b][1  1]
        t = 10           [b  b  b  b][1  1][0]
        T = 11              [0][1  1][b  b  b  b]

    With `refit` there is no chain: one fit a step reads the whole window for the share step/window.
    Its descent starts at the release before, which costs nothing. So a model remembers more than
    its window: what earlier releases know fades by (1 - step/window)^2 at every step.

    Args:
        window: Records in the window (the paper's w): two or more whole steps.
        step: Records between two releases (the paper's w0).
        sample: If given, a fit reads at most this many records, drawn from its span.
        refit: Whether to fit the whole window at every step, starting at the release before. A
            model then remembers more than its window.

    >>> [tuple(fit.span) for fit in SlidingWindow(window=70, step=10).due(7)]
    [(3, 7), (1, 3), (0, 1)]
    >>> [tuple(fit.span) for fit in SlidingWindow(window=70, step=10, refit=True).due(8)]
    [(1, 8)]
    """

    kind: ClassVar[str] = "sliding"
    about: ClassVar[str] = "a model of exactly the newest `window` records, at every step"
    source: ClassVar[bool] = True

    window: int = parameter(
        "how many of the newest records a model is trained on, two steps or more", 7168
    )
    step: int = parameter("records between two models", 1024)
    sample: int | None = parameter(
        "read at most this many records per fit, drawn at random", default=None
    )
    refit: bool | None = parameter(
        "fit the whole window at every step, starting at the release before",
        check=flag,
        default=None,
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", whole("step", self.step))
        object.__setattr__(self, "window", whole("window", self.window))
        object.__setattr__(self, "sample", optional("sample", self.sample))
        if self.window % self.step or self.window < 2 * self.step:
            raise refuse("window", f"two or more whole steps of {self.step}", self.window)
        if not self.refit:
            object.__setattr__(self, "refit", None)  # as in states that were made without it
            return
        flag("refit", self.refit)
        if self.sample:
            raise refuse("sample", "left out with refit, which reads the whole window", self.sample)
        object.__setattr__(self, "allocated", False)  # there are no levels

    @cached_property
    def first(self) -> int:
        """The number of steps in a window: the first model needs a whole one."""
        return self.steps.complete(self.window)

    @property
    def look_back(self) -> int:
        """The number of steps in a window."""
        return self.first

    @cached_property
    def levels(self) -> int:
        """The number of levels, m: 2^m is the power of two nearest to (w + 1)/2 by ratio."""
        return log2(isqrt((self.first + 1) ** 2 // 2))

    @cached_property
    def left(self) -> int:
        """How many steps of the window are outside the base."""
        return (1 << self.levels) - 1

    @cached_property
    def base(self) -> int:
        """How many steps the base reads."""
        return self.first - self.left

    @cached_property
    def _chain(self) -> tuple[int, ...]:
        """How many steps each fit of the chain reads, from the base on."""
        return (self.base, *(1 << level for level in reversed(range(self.levels))))

    @property
    def largest(self) -> int:
        """The records of the base or of the top level, but at most the sample; or the window."""
        if self.refit:
            return self.window
        most = self.steps.count(max(self.base, (self.left + 1) // 2))
        return min(most, self.sample) if self.sample else most

    def due(self, now: int) -> Sequence[Fit]:
        """The base and all levels at the start of a pass, else the levels whose bit flips."""
        if now < self.first:
            return ()
        if self.refit:
            return (self._refit(now),)
        passes, s = divmod(now - self.first, self.left + 1)
        if s == 0:
            base = self._fit(now, passes, s, self.levels, prior=None)
            top, prior = self.levels - 1, base.number
            fits = [base]
        else:
            top = ruler(s)
            # The level above was fitted when its bit last flipped, or at the start of the pass.
            prior = self._number(passes, s >> (top + 1) << (top + 1), top + 1)
            fits = []
        for level in range(top, -1, -1):
            fits.append(self._fit(now, passes, s, level, prior))
            prior = fits[-1].number
        return fits

    def _refit(self, now: int) -> Fit:
        """The fit of the whole window; n / (n + behind) is its part S / sqrt(I) of all information.

        Each fit has the same information S^2, and that of the fits before fades. So I is S^2 times
        a geometric sum.
        """
        number, span = now - self.first, Span(now - self.first, now)
        kept = (1 - 1 / self.first) ** 2
        total = (1 - kept ** (number + 1)) / (1 - kept)
        return Fit(
            number,
            now,
            span,
            None,
            "base",
            0,
            behind=(self.first * (sqrt(total) - 1),) if number else (),
            start=number - 1 if number else None,
            slot_weights=(SlotWeight(span, Fraction(1)),),
        )

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
        """Where a level's block starts, relative to the base, and how many steps it has."""
        if level == self.levels:
            return 0, self.base
        size = 1 << level
        if s & size:
            return self.base + (s >> (level + 1) << (level + 1)), size
        older = self.left - s
        return -(older >> (level + 1) << (level + 1)) - size, size

    def _number(self, passes: int, s: int, level: int) -> int:
        """The number of the fit of a level that was due s steps into a pass.

        A pass makes levels + 1 fits at its start, then one for each bit that flips. There are
        ruler_sum(left) = 2 left - levels flips, so a pass makes 2 left + 1 fits in all.
        """
        first = passes * (2 * self.left + 1)
        if s == 0 or level == self.levels:
            return first + self.levels - level
        return first + self.levels + 1 + ruler_sum(s - 1) + ruler(s) - level

    def raw_share(self, fit: Fit, levels: Levels) -> Fraction:
        """1/3 for the base; the levels add up to less than 1/3, or to 1/3 if `filled`."""
        if self.refit:
            return Fraction(1, self.first)
        if fit.role == "base":
            return Fraction(1, 3)
        return levels.raw_share(fit.level) / 3 / self._side(levels)

    def _side(self, levels: Levels) -> Fraction:
        """What raw shares of levels are divided by: if `filled`, what makes them add up to 1."""
        return 1 - levels.rate**self.levels if levels.filled else Fraction(1)

    def certificate(self, levels: Levels) -> Certificate:
        """The closed form that docs/proofs/certificate.md derives."""
        if self.refit:
            return Certificate(supremum=Fraction(1), attained=True)
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
        """When the blocks that contain the step are fitted, in all passes that read it.

        On the newer side a block of level j is fitted s = (2a + 1) 2^j steps into a pass and ends
        there. On the older side the block at distances 2a 2^j to (2a + 1) 2^j - 1 from the base is
        fitted when the window still holds (2a + 2) 2^j - 1 older steps.
        """
        if self.refit:
            yield from range(max(self.first, step + 1), step + self.first + 1)
            return
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
        """All steps before the next window: none is read again."""
        return max(0, now + 1 - self.first)
