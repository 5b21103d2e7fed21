"""Columns of dates and times."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.checks import refuse, whole
from tidegate.data.columns.column import Cells, Column, Floats, none, register, unless_none
from tidegate.data.columns.unpacking import GAP, places_of
from tidegate.data.feature_map import DOUBLE, INT64, Graph
from tidegate.data.values import Odd, is_text, nulls
from tidegate.kinds import parameter

DAY = 86_400
"""Seconds in a day."""

CYCLES = {"hour": DAY, "weekday": 7, "month": 12}
"""How many different places each cyclic part has."""

PARTS = (*CYCLES, "year")

WRITTEN = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[ T]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.][0-9]{1,9})?)?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
"""An ISO 8601 date, or date and time: 2013-01-31, 2013-01-31T10:00:00Z."""

ZONE = r"^(.{10}[ T].*?)(?:[.][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?$"

PLAIN_LENGTHS, ZULU_LENGTH = {10, 16, 19}, 20
"""The lengths of a date, of times without zone and fraction, and of one with seconds and Z."""

FIRST = np.datetime64("0001-01-01T00:00:00", "s").astype(np.int64)
LAST = np.datetime64("9999-12-31T23:59:59", "s").astype(np.int64)

SHRINK = 1 - 2.0**-20
"""Cosine and sine are multiplied by this, so that no rounding takes their norm above 1."""


def parts(name: str, value: object) -> tuple[str, ...]:
    """Some of the parts of a time."""
    allowed = f"a list of some of {', '.join(PARTS)}"
    if not isinstance(value, list | tuple) or not value or any(e not in PARTS for e in value):
        raise refuse(name, allowed, value)
    if len(set(value)) != len(value):
        raise refuse(name, allowed, value)
    return tuple(value)


a_year = unless_none(partial(whole, least=1, most=9999))


@register
@dataclass(frozen=True, kw_only=True)
class Time(Column):
    """Dates and times, of which some parts become features: hour, weekday, month or year.

    The hour (with minutes and seconds), the weekday and the month are cyclic: each becomes a point
    on a circle, so that December lies beside January. The year is a number between two public
    years. One more feature is 1 where the time is missing.

    A text must be an ISO 8601 date or time such as 2013-01-31 or 2013-01-31T10:00:00Z; any other
    makes a record unusable. A time is taken as it is written: its zone is not converted.

    Args:
        name: The name of the column.
        parts: Which of "hour", "weekday", "month" and "year".
        low: The first year of the range, which is public, if `parts` has "year". Earlier years
            count as this one.
        high: The last year.
        gaps: Texts that stand for a missing time; False if none is ever missing.

    >>> out = np.zeros((3, 3), np.float32)
    >>> when = Time("when", parts=["hour"])
    >>> when.encode(when.cells(["2013-01-31T06:00:00Z", "2013-01-31 12:00", ""]), out)
    >>> out.round(3) + 0
    array([[ 0.,  1.,  0.],
           [-1.,  0.,  0.],
           [ 0.,  0.,  1.]], dtype=float32)
    """

    kind: ClassVar[str] = "time"
    about: ClassVar[str] = "a date or time: its hour, weekday, month and year"
    dtype: ClassVar[Any] = np.int64
    onnx_type: ClassVar[int] = INT64
    cyclic: ClassVar[Sequence[str]] = tuple(CYCLES)

    parts: Sequence[str] = parameter(
        f"what to learn from: some of {', '.join(PARTS)}",
        parts,
        default=("hour", "weekday", "month"),
    )
    low: int | None = parameter('the first year, if parts has "year"', a_year, default=None)
    high: int | None = parameter('the last year, if parts has "year"', a_year, default=None)

    def check(self) -> None:
        """Refuse a year without a range, and a range without a year."""
        if "year" not in self.parts:
            if self.low or self.high:
                raise self.mistake('low and high are years: add "year" to parts, or remove them')
        elif not (self.low and self.high and self.low < self.high):
            shown = f"{self.low} and {self.high}"
            raise self.mistake(f"low and high must be years, low below high, got {shown}")

    @property
    def squared_norm(self) -> int:
        """See `Column`: one for each part; they are all 0 where the time is missing."""
        return len(self.parts)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """See `Column`."""
        return (*(name for part in self._parts for name in part.features), *self.gap_feature)

    @property
    def reading(self) -> str:
        """See `Column`."""
        return f"time: {', '.join(self.parts)}"

    def of_text(self, text: str) -> int | Odd:
        """Seconds since 1970 by the clock that the text was written by; see `Column`."""
        return self._placed(_seconds(text))

    def of_object(self, value: object) -> int | Odd:
        """See `Column`."""
        return self._placed(_since_1970(value))

    def _placed(self, seconds: int | Odd) -> int | Odd:
        return Odd.GAP if seconds in self.gap_times else seconds

    @cached_property
    def gap_times(self) -> frozenset[Any]:
        """The times that stand for a missing one: by rule 2 those that `gaps` spells."""
        found = map(_seconds, self.gap_texts) if self.spelling > 1 else ()
        return frozenset(found) - {Odd.WRONG}

    def of_arrow(self, values: pa.Array) -> Cells:
        """See `Column`; a text that is no time of Arrow's is read by itself, with all others."""
        times = values
        if is_text(values.type):
            try:
                times = pc.cast(_without_zones(self.all_stripped(values)), pa.timestamp("s"))
            except pa.ArrowInvalid:
                return super().of_arrow(values)
        elif pa.types.is_timestamp(values.type) and values.type.tz:
            if not _is_zone(values.type.tz):  # nobody knows what these times are
                return Cells(np.zeros(len(values), np.int64), none(len(values)), ~none(len(values)))
            times = pc.local_timestamp(values)
        elif not (pa.types.is_timestamp(values.type) or pa.types.is_date(values.type)):
            return super().of_arrow(values)
        gap, whole_seconds = nulls(times), _floored(times).cast(pa.int64())
        seconds = pc.fill_null(whole_seconds, 0).to_numpy(zero_copy_only=False)
        if self.gap_times:
            gap |= np.isin(seconds, list(self.gap_times))
        wrong = (seconds < FIRST) | (seconds > LAST)
        return Cells(np.where(wrong, 0, seconds) if wrong.any() else seconds, gap, wrong & ~gap)

    def varying_parts(self, values: Sequence[object]) -> list[str]:
        """The cyclic parts in which public values differ: dates have no hour."""
        cells = self.cells(list(values))
        seconds = cells.values[~cells.gap]
        varying = [part for part in CYCLES if np.unique(ticks(part, seconds)).size > 1]
        return varying or list(CYCLES)

    @property
    def packed_width(self) -> int:
        """See `Column`: a number for each part."""
        return len(self.parts)

    @cached_property
    def _parts(self) -> "list[Cycle | Year]":
        """The parts, which know how to become features."""
        year = Year(float(self.low or 0), float(self.high or 0))
        return [Cycle(part, CYCLES[part]) if part in CYCLES else year for part in self.parts]

    def pack(self, cells: Cells, out: Floats) -> None:
        """See `Column`: a place on each circle, -1 if the time is missing."""
        for place, part in enumerate(self._parts):
            out[:, place] = np.where(cells.gap, part.gap, part.packed(cells.values))

    def unpack(self, packed: Floats, out: Floats) -> None:
        """See `Column`."""
        place = 0
        for part, values in zip(self._parts, packed.T, strict=True):
            made = part.unpacked(values)
            out[:, place : place + made.shape[1]] = made
            place += made.shape[1]
        gap = self._parts[0].is_gap(packed[:, 0])
        if gap.any():
            out[gap] = 0
            out[gap, place:] = 1

    def takes(self, kind: pa.DataType) -> bool:
        """See `Column`."""
        if pa.types.is_timestamp(kind) and kind.tz:
            return _is_zone(kind.tz)
        times = pa.types.is_timestamp, pa.types.is_date, pa.types.is_null
        return is_text(kind) or any(is_kind(kind) for is_kind in times)

    def onnx(self, graph: Graph, values: str) -> str:
        """See `Column`; the input is seconds since 1970, the smallest int64 if missing."""
        missing = graph.op("Equal", values, np.int64(np.iinfo(np.int64).min))
        for time in sorted(self.gap_times):
            missing = graph.op("Or", missing, graph.op("Equal", values, np.int64(time)))
        seconds = graph.op("Where", missing, np.int64(0), values)
        made = [part.onnx(graph, seconds) for part in self._parts]
        return self.with_gap_in_onnx(graph, graph.op("Concat", *made, axis=1), missing)


@dataclass(frozen=True)
class Cycle:
    """A part of a time that comes again: a place on a circle.

    Attributes:
        name: Its name.
        places: How many places the circle has.
        gap: What is packed if the time is missing.
    """

    name: str
    places: int
    gap: float = -1

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features."""
        return f"{self.name} cos", f"{self.name} sin"

    def packed(self, seconds: NDArray[np.int64]) -> NDArray[Any]:
        """The place of each time."""
        return ticks(self.name, seconds)

    def is_gap(self, packed: Floats) -> NDArray[np.bool_]:
        """Which packed places are those of missing times."""
        return packed < 0

    def unpacked(self, packed: Floats) -> Floats:
        """The features of packed places."""
        return np.asarray(circle(self.places)[places_of(packed, self.places)])

    def onnx(self, graph: Graph, seconds: str) -> str:
        """Add its features to an ONNX graph; return their name."""
        place = PLACES_IN_ONNX[self.name](graph, seconds)
        table = graph.constant(circle(self.places).astype(np.float64))
        return graph.op("Gather", table, graph.op("Reshape", place, np.array([-1])), axis=0)


@dataclass(frozen=True)
class Year:
    """The year, a number between two public years; see `Cycle` for the methods."""

    low: float
    high: float
    gap: ClassVar[float] = GAP
    features: ClassVar[tuple[str, ...]] = ("year",)

    def packed(self, seconds: NDArray[np.int64]) -> NDArray[Any]:
        """Each year, placed in [-1, 1]."""
        dates = (seconds // DAY).astype("datetime64[D]").astype("datetime64[Y]")
        years = np.clip((dates.astype(np.int64) + 1970).astype(np.float64), self.low, self.high)
        return np.clip((years - (self.low + self.high) / 2) / ((self.high - self.low) / 2), -1, 1)

    def is_gap(self, packed: Floats) -> NDArray[np.bool_]:
        """Which packed years are missing."""
        return packed > (1 + GAP) / 2

    def unpacked(self, packed: Floats) -> Floats:
        """The feature of packed years."""
        return np.asarray(np.clip(np.nan_to_num(packed), -1, 1)[:, None])

    def onnx(self, graph: Graph, seconds: str) -> str:
        """Add its feature to an ONNX graph; return its name."""
        era, year, month = _calendar(graph, seconds)
        after = graph.op("Div", month, 10)  # January and February belong to the next year
        years = graph.op("Add", graph.op("Add", year, graph.op("Mul", era, 400)), after)
        years = graph.op("Cast", years, to=DOUBLE)
        clipped = graph.op("Min", graph.op("Max", years, self.low), self.high)
        moved = graph.op("Sub", clipped, (self.low + self.high) / 2)
        return graph.op("Div", moved, (self.high - self.low) / 2)


@lru_cache
def circle(places: int) -> Floats:
    """Points on a circle, shape (places, 2), within norm 1."""
    angles = [2 * math.pi * place / places for place in range(places)]
    points = [(math.cos(angle) * SHRINK, math.sin(angle) * SHRINK) for angle in angles]
    return np.array(points, np.float32)


def ticks(part: str, seconds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each time on the circle of a part."""
    if part == "hour":
        return np.asarray(seconds % DAY)
    days = seconds // DAY
    if part == "weekday":
        return np.asarray((days + 3) % 7)  # 1970 began on a Thursday; Monday is 0
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12


def _seconds(text: str) -> int | Odd:
    found = WRITTEN.fullmatch(text)
    if not found:
        return Odd.WRONG
    try:
        return _since(*map(int, found.groups("0")))
    except ValueError:  # no such day or hour
        return Odd.WRONG


def _since_1970(value: object) -> int | Odd:
    """The seconds of what is no text."""
    if isinstance(value, np.datetime64):
        whole_seconds = value.astype("datetime64[s]").astype(np.int64)
        return int(whole_seconds) if FIRST <= whole_seconds <= LAST else Odd.WRONG
    return _since(*value.timetuple()[:6]) if isinstance(value, date) else Odd.WRONG


def _since(*clock: int) -> int:
    """The seconds from 1970 to a year, month, day, hour, minute and second."""
    return int((datetime(*clock) - datetime(1970, 1, 1)).total_seconds())  # type: ignore[arg-type]


def _is_zone(zone: str) -> bool:
    """Whether Arrow knows a time zone."""
    try:
        pc.local_timestamp(pa.array([0], pa.timestamp("s", zone)))
    except pa.ArrowException:
        return False
    return True


def _without_zones(texts: pa.Array) -> pa.Array:
    """Texts of times as Arrow reads them: without zone and fraction; an error if one is none."""
    lengths = {*pc.unique(pc.binary_length(texts)).to_pylist()} - {None}
    if lengths <= PLAIN_LENGTHS:
        return texts
    if lengths == {ZULU_LENGTH} and pc.all(pc.ends_with(texts, pattern="Z")).as_py():
        return pc.utf8_slice_codeunits(texts, 0, ZULU_LENGTH - 1)
    if pc.all(pc.match_substring_regex(texts, f"^(?:{WRITTEN.pattern})$")).as_py() is False:
        raise pa.ArrowInvalid("not a time")
    return pc.replace_substring_regex(texts, ZONE, r"\1")


def _floored(values: pa.Array) -> pa.Array:
    """Times in whole seconds, rounded down."""
    if pa.types.is_timestamp(values.type) and values.type.unit != "s":
        values = pc.floor_temporal(values, unit="second")
    return values.cast(pa.timestamp("s"), safe=False)


def _month(graph: Graph, seconds: str) -> str:
    *_, month = _calendar(graph, seconds)
    return graph.op("Mod", graph.op("Add", month, 2), 12)


PLACES_IN_ONNX: dict[str, Callable[[Graph, str], str]] = {
    "hour": lambda graph, seconds: graph.op("Mod", seconds, DAY),
    "weekday": lambda graph, seconds: graph.op("Mod", graph.op("Add", _days(graph, seconds), 3), 7),
    "month": _month,
}
"""What adds the places that `ticks` returns to an ONNX graph."""


def _days(graph: Graph, seconds: str) -> str:
    """Days since 1970, rounded down: ONNX truncates towards 0."""
    rest = graph.op("Mod", seconds, DAY)  # of the sign of the divisor
    return graph.op("Div", graph.op("Sub", seconds, rest), DAY)


def _calendar(graph: Graph, seconds: str) -> tuple[str, str, str]:
    """The era of 400 years, the year in it, and its month: years begin in March, which is 0.

    So leap days are the last of their years.
    """
    divided = partial(graph.op, "Div")  # rounded down: all numbers here are 0 or more
    shifted = graph.op("Add", _days(graph, seconds), 719_468)  # since 1 March of the year 0
    era = divided(shifted, 146_097)
    day = graph.op("Sub", shifted, graph.op("Mul", era, 146_097))
    leap = graph.op("Add", divided(day, 1460), divided(day, 146_096))
    common = graph.op("Add", day, divided(day, 36_524))
    year = divided(graph.op("Sub", common, leap), 365)
    before = graph.op("Add", graph.op("Mul", year, 365), divided(year, 4))
    of_year = graph.op("Sub", graph.op("Add", day, divided(year, 100)), before)  # from 1 March
    month = divided(graph.op("Add", graph.op("Mul", of_year, 5), 2), 153)
    return era, year, month
