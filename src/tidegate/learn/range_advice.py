"""Says from released surveys which ranges and norms are far wider than the records need.

All of it is post-processing of noisy moments. A statement holds unless their noise is off by more
than five deviations.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.features.columns import Number
from tidegate.features.columns.column import Column
from tidegate.learn.feature_summary import SAFETY_DEVIATIONS, FeatureSummary
from tidegate.learn.moments import Moments

COVERED_SPREADS = 3.0
"""Almost all values lie within this many spreads of their centre."""

TOO_WIDE = 3.0
"""A range this many times as wide as almost all values need is too wide."""


class Interval(NamedTuple):
    """Two ends."""

    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class RangeAdvice:
    """What surveys tell about the range of a column.

    Attributes:
        column: The name of the column.
        declared: Its range.
        used: Where almost all values lie, or a wider range if the noise hides the spread.
        times: How many times wider the declared range is than `used`, at least.
        hidden: Whether noise hides the spread, so that the range may be wider still.
    """

    column: str
    declared: Interval
    used: Interval
    times: float
    hidden: bool

    @property
    def text(self) -> str:
        """One line for the operator."""
        declared = f"{self.declared.low:,g} to {self.declared.high:,g}"
        used = f"{self.used.low:,.4g} to {self.used.high:,.4g}"
        if self.times >= TOO_WIDE:
            return (
                f"{self.column}: almost all values lie within {used}, so its range {declared} is "
                f"at least {self.times:.2g} times too wide: use a narrower one in a new state"
            )
        return (
            f"{self.column}: noise hides its spread, so its range {declared} may be too wide: if "
            "you know a narrower one, use it in a new state"
        )


@dataclass(frozen=True, kw_only=True)
class NormAdvice:
    """What surveys tell about the norm: `times` is how many times too large it is, at least."""

    norm: float
    enough: float
    times: float
    hidden: bool

    @property
    def text(self) -> str:
        """One line for the operator."""
        if self.times >= TOO_WIDE:
            return (
                f"records.norm = {self.norm:g} is at least {self.times:.2g} times too large: "
                f"almost no record is longer than {self.enough:.2g}; use a smaller norm in a new "
                "state"
            )
        return (
            f"records.norm = {self.norm:g}: noise hides how long records are, so it may be too "
            "large: if you know a smaller bound, use it in a new state"
        )


def range_advice(columns: Sequence[Column], summary: FeatureSummary) -> Iterator[RangeAdvice]:
    """Advice on the ranges of number columns that are too wide, or may be.

    Args:
        columns: The columns that features are made of, in their order.
        summary: Centre and spread of the features.
    """
    place = 0
    for each in columns:
        if isinstance(each, Number):
            advice = _of_number(each, place, summary)
            if advice.hidden or advice.times >= TOO_WIDE:
                yield advice
        place += each.width


def _of_number(column: Number, place: int, summary: FeatureSummary) -> RangeAdvice:
    center, spread = float(summary.center[place]), float(summary.largest_spread[place])
    wide = COVERED_SPREADS * spread + SAFETY_DEVIATIONS * summary.center_deviation
    low, high = max(center - wide, -1.0), min(center + wide, 1.0)
    return RangeAdvice(
        column=column.name,
        declared=Interval(column.low, column.high),
        used=Interval(column.value_at(low), column.value_at(high)),
        times=2 / max(high - low, 1e-9),
        hidden=math.isnan(float(summary.spread[place])),
    )


def norm_advice(moments: Moments, *, norm: float) -> NormAdvice | None:
    """Advice on a norm that is too large, or may be; None if it fits.

    Args:
        moments: The forgetting means; of at least one survey.
        norm: The public bound on the norm of a row.
    """
    square, noise = moments.squared_length
    longest = COVERED_SPREADS * math.sqrt(max(square, 0.0) + SAFETY_DEVIATIONS * noise)
    times, hidden = 1 / longest, square < 2 * noise
    if not hidden and times < TOO_WIDE:
        return None
    return NormAdvice(norm=norm, enough=norm * longest, times=times, hidden=hidden)
