"""What surveys say about features: centres, spreads, too wide ranges and empty columns.

All of it is post-processing of noisy moments. What is said of a range or a norm holds unless their
noise is off by more than five deviations.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from tidegate.data.columns import Number
from tidegate.data.columns.column import MISSING, Column
from tidegate.learn.exact import Floats
from tidegate.learn.preparation import Moments

SAFETY_DEVIATIONS = 5.0
"""A variance is at most the measured one plus this many deviations of its noise."""

RESOLVED_DEVIATIONS = 2.0
"""A variance is resolved if it is above this many deviations of its noise."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureSummary:
    """Centre and spread of the features, in their own units.

    Attributes:
        center: The noisy mean of each feature over usable records.
        center_deviation: The deviation of the noise of a mean, the same for all.
        spread: The standard deviation of each feature; NaN where the noise hides it.
        spread_deviation: The deviation of the noise of each spread; NaN where it is hidden.
        largest_spread: What each spread is at most, unless the noise of its square is off by more
            than five deviations.
    """

    center: Floats
    center_deviation: float
    spread: Floats
    spread_deviation: Floats
    largest_spread: Floats


def summarize(moments: Moments, *, norm: float) -> FeatureSummary:
    """Centre and spread of each feature. It is post-processing of paid releases.

    Args:
        moments: The forgetting means; of at least one survey.
        norm: The public bound on the norm of a row, which is the unit of the means.

    >>> cells = np.array([50.0, 30.0, 60.0, 40.0, 0.0, 30.0, 100.0, 0.01])  # one feature, 100 slots
    >>> summary = summarize(Moments(classes=2, cells=cells), norm=2.0)
    >>> summary.center, summary.spread.round(3)
    (array([1.]), array([0.447]))
    """
    count = moments.usable
    mean, squares = moments.sums / count, moments.squares / count
    noise = moments.noise / (count * count)  # the variance of a mean's noise
    variance = squares - mean * mean + noise
    # Noise of squares has twice the variance; that of the squared mean is 4 mean^2 times noise.
    deviation = np.sqrt(2 * noise + 4 * mean * mean * noise + 2 * noise * noise)
    resolved = variance > RESOLVED_DEVIATIONS * deviation
    spread = np.sqrt(np.where(resolved, variance, np.nan))
    return FeatureSummary(
        center=mean * norm,
        center_deviation=math.sqrt(noise) * norm,
        spread=spread * norm,
        spread_deviation=deviation / (2 * spread) * norm,
        largest_spread=np.sqrt(np.maximum(variance, 0.0) + SAFETY_DEVIATIONS * deviation) * norm,
    )


COVERED_SPREADS = 3.0
"""Almost all values lie within this many spreads of their centre."""

TOO_WIDE = 3.0
"""A range this many times as wide as almost all values need is too wide."""


NEVER_DEVIATIONS = 3.0
"""A share of gaps is about 1 if it is at most this many deviations of its noise below 1."""

MAX_NOISE_OF_GAPS = 0.25
"""The most that `NEVER_DEVIATIONS` may be: with more noise, nothing is said about gaps."""


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
    def row(self) -> dict[str, Any]:
        """The same for JSON."""
        return {
            "what": "range",
            "column": self.column,
            "declared": list(self.declared),
            "used": list(self.used) if self.times >= TOO_WIDE else None,
            "times_too_wide": self.times if self.times >= TOO_WIDE else None,
            "text": self.text,
        }

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
    def row(self) -> dict[str, Any]:
        """The same for JSON."""
        return {
            "what": "norm",
            "declared": self.norm,
            "used": self.enough if self.times >= TOO_WIDE else None,
            "times_too_wide": self.times if self.times >= TOO_WIDE else None,
            "text": self.text,
        }

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


@dataclass(frozen=True, kw_only=True)
class NeverPresent:
    """A column that is missing in all records, as far as surveys tell.

    Attributes:
        column: The name of the column.
        gaps: The noisy share of usable records in which it is missing.
        deviation: The deviation of the noise in it.
    """

    column: str
    gaps: float
    deviation: float

    @property
    def row(self) -> dict[str, Any]:
        """The same for JSON."""
        gaps = {"value": self.gaps, "deviation": self.deviation}
        return {"what": "never present", "column": self.column, "gaps": gaps, "text": self.text}

    @property
    def text(self) -> str:
        """One line for the operator; +- is two deviations."""
        gaps = f"{100 * self.gaps:.1f} % ± {200 * self.deviation:.2g} of records lack it"
        return (
            f"{self.column}: never present, as far as the noise tells ({gaps}): check that its "
            "name is that in the records; the name is fixed, so correct it in a new state"
        )


def never_present(columns: Sequence[Column], summary: FeatureSummary) -> Iterator[NeverPresent]:
    """The columns whose share of gaps is 1 within the noise, if the noise lets one tell.

    Args:
        columns: The columns that features are made of, in their order.
        summary: Centre and spread of the features.
    """
    noise = summary.center_deviation
    for each, place in _places(columns):
        if each.features[-1:] == (MISSING,) and NEVER_DEVIATIONS * noise <= MAX_NOISE_OF_GAPS:
            gaps = float(summary.center[place + each.width - 1])
            if gaps >= 1 - NEVER_DEVIATIONS * noise:
                yield NeverPresent(column=each.name, gaps=gaps, deviation=noise)


def range_advice(columns: Sequence[Column], summary: FeatureSummary) -> Iterator[RangeAdvice]:
    """Advice on the ranges of number columns that are too wide, or may be.

    Args:
        columns: The columns that features are made of, in their order.
        summary: Centre and spread of the features.
    """
    empty = {each.column for each in never_present(columns, summary)}
    for each, place in _places(columns):
        if isinstance(each, Number) and each.name not in empty:
            advice = _of_number(each, place, summary)
            if advice.hidden or advice.times >= TOO_WIDE:
                yield advice


def _places(columns: Sequence[Column]) -> Iterator[tuple[Column, int]]:
    """Each column with the place of its first feature."""
    return zip(columns, accumulate((each.width for each in columns), initial=0), strict=False)


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
