"""Columns of dates and times."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.checks import refuse, whole
from tidegate.features.arrow_values import is_text, nulls
from tidegate.features.columns.clock_times import clock_times
from tidegate.features.columns.column import (
    Cells,
    Column,
    Floats,
    none,
    register,
)
from tidegate.features.columns.unpacking import GAP, places_of
from tidegate.features.feature_map import Graph
from tidegate.features.spelling import Odd
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


a_year = partial(whole, least=1, most=9999)


@register
@dataclass(frozen=True)
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
    onnx_type: ClassVar[str] = "int64"

    parts: Sequence[str] = parameter(
        f"what to learn from: some of {', '.join(PARTS)}",
        parts,
        default=("hour", "weekday", "month"),
        kw_only=True,
    )
    low: int | None = parameter(
        'the first year, if parts has "year"', a_year, default=None, kw_only=True
    )
    high: int | None = parameter(
        'the last year, if parts has "year"', a_year, default=None, kw_only=True
    )

    def check(self) -> None:
        """Refuse a year without a range, and a range without a year."""
        if "year" not in self.parts:
            if self.low is not None or self.high is not None:
                raise self.mistake('low and high are years: add "year" to parts, or remove them')
        elif self.low is None or self.high is None or not self.low < self.high:
            shown = f"{self.low} and {self.high}"
            raise self.mistake(f"low and high must be years, low below high, got {shown}")

    @property
    def squared_norm(self) -> int:
        """See `Column`: one for each part; they are all 0 where the time is missing."""
        return len(self.parts)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """See `Column`."""
        cyclic = {part: (f"{part} cos", f"{part} sin") for part in CYCLES}
        named = [name for part in self.parts for name in cyclic.get(part, (part,))]
        return (*named, *self.gap_feature)

    @property
    def reading(self) -> str:
        """See `Column`."""
        return f"time: {', '.join(self.parts)}"

    def read(self, value: object) -> Any:
        """Seconds since 1970 by the clock that the value was written by; see `Column`."""
        if isinstance(value, str):
            text = self.stripped(value)
            return Odd.GAP if text is None else self._placed(_seconds(text))
        return Odd.GAP if value is None else self._placed(_since_1970(value))

    def _placed(self, seconds: int | Odd) -> int | Odd:
        return Odd.GAP if seconds in self._gap_times else seconds

    @cached_property
    def _gap_times(self) -> frozenset[int]:
        """The times that stand for a missing one: by rule 2 those that `gaps` spells."""
        found = map(_seconds, self.gap_texts) if self.spelling > 1 else ()
        return frozenset(each for each in found if isinstance(each, int))

    def stacked(self, values: list[Any]) -> NDArray[np.int64]:
        """See `Column`."""
        return np.array([0 if value is None else value for value in values], np.int64)

    def of_arrow(self, values: pa.Array) -> Cells | None:
        """See `Column`; None if a text is no time that Arrow knows."""
        if is_text(values.type):
            found = None if self._has_gaps(values) else clock_times(values)
            if found is not None:
                return Cells(found, none(len(values)), none(len(values)))
            parsed = self._parsed(values)
            if parsed is None:
                return None
            values = parsed
        if pa.types.is_timestamp(values.type) and values.type.tz is not None:
            if not _is_zone(values.type.tz):  # nobody knows what these times are
                n = len(values)
                return Cells(np.zeros(n, np.int64), none(n), np.ones(n, np.bool_))
            values = pc.local_timestamp(values)
        if not (pa.types.is_timestamp(values.type) or pa.types.is_date(values.type)):
            return None
        gap, whole_seconds = nulls(values), _floored(values).cast(pa.int64())
        seconds = pc.fill_null(whole_seconds, 0).to_numpy(zero_copy_only=False)
        if self._gap_times:
            gap |= np.isin(seconds, list(self._gap_times))
        wrong = (seconds < FIRST) | (seconds > LAST)
        return Cells(np.where(wrong, 0, seconds) if wrong.any() else seconds, gap, wrong & ~gap)

    def _has_gaps(self, texts: pa.Array) -> bool:
        """Whether a text is one of `gaps`, which may look like a time: 1900-01-01."""
        if not self.gap_texts or self._gap_times:
            return bool(self._gap_times)
        return bool(pc.any(pc.is_in(texts, pa.array(self.gap_texts, texts.type))).as_py())

    def _parsed(self, texts: pa.Array) -> pa.Array | None:
        trimmed = self.all_stripped(texts)
        if pc.all(pc.match_substring_regex(trimmed, f"^(?:{WRITTEN.pattern})$")).as_py() is False:
            return None
        try:
            return pc.cast(pc.replace_substring_regex(trimmed, ZONE, r"\1"), pa.timestamp("s"))
        except pa.ArrowInvalid:
            return None

    @property
    def packed_width(self) -> int:
        """See `Column`: a number for each part."""
        return len(self.parts)

    def pack(self, cells: Cells, out: Floats) -> None:
        """See `Column`: a place on each circle, -1 if the time is missing."""
        for place, part in enumerate(self.parts):
            if part == "year":
                low, high = float(self.low or 0), float(self.high or 0)
                years = np.clip(_year(cells.values), low, high)
                placed = np.clip((years - (low + high) / 2) / ((high - low) / 2), -1, 1)
                out[:, place] = np.where(cells.gap, GAP, placed)
            else:
                out[:, place] = np.where(cells.gap, -1, ticks(part, cells.values))

    def unpack(self, packed: Floats, out: Floats) -> None:
        """See `Column`."""
        first = packed[:, 0]
        gap = first > (1 + GAP) / 2 if self.parts[0] == "year" else first < 0
        place = 0
        for part, values in zip(self.parts, packed.T, strict=True):
            if part == "year":
                out[:, place] = np.clip(np.nan_to_num(values), -1, 1)
                place += 1
            else:
                out[:, place : place + 2] = circle(CYCLES[part])[places_of(values, CYCLES[part])]
                place += 2
        if gap.any():
            out[gap] = 0
            out[gap, place:] = 1

    def takes(self, kind: pa.DataType) -> bool:
        """See `Column`."""
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            return _is_zone(kind.tz)
        times = pa.types.is_timestamp, pa.types.is_date, pa.types.is_null
        return is_text(kind) or any(is_kind(kind) for is_kind in times)

    def onnx(self, graph: Graph, values: str) -> str:
        """See `Column`; the input is seconds since 1970, the smallest int64 if missing."""
        never = graph.constant(np.int64(np.iinfo(np.int64).min))
        missing = graph.add(f"Equal({values}, {never})")
        for time in sorted(self._gap_times):
            equal = graph.add(f"Equal({values}, {graph.constant(np.int64(time))})")
            missing = graph.add(f"Or({missing}, {equal})")
        seconds = graph.add(f"Where({missing}, {graph.constant(np.int64(0))}, {values})")
        made = [_part_in_onnx(graph, part, seconds, self) for part in self.parts]
        joined = graph.add(f"Concat <axis = 1> ({', '.join(made)})")
        return self.with_gap_in_onnx(graph, joined, missing)


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


def _year(seconds: NDArray[np.int64]) -> NDArray[np.float64]:
    years = (seconds // DAY).astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64)
    return (years + 1970).astype(np.float64)


def _seconds(text: str) -> int | Odd:
    found = WRITTEN.fullmatch(text)
    if found is None:
        return Odd.WRONG
    try:
        return _since(datetime(*(int(each or 0) for each in found.groups())))  # type: ignore[arg-type]
    except ValueError:  # no such day or hour
        return Odd.WRONG


def _since_1970(value: object) -> int | Odd:
    """The seconds of what is no text."""
    if isinstance(value, np.datetime64):
        whole_seconds = value.astype("datetime64[s]").astype(np.int64)
        return int(whole_seconds) if FIRST <= whole_seconds <= LAST else Odd.WRONG
    if isinstance(value, datetime):
        return _since(datetime(*value.timetuple()[:6]))
    if isinstance(value, date):
        return _since(datetime(value.year, value.month, value.day))
    return Odd.WRONG


def _since(time: datetime) -> int:
    return int((time - datetime(1970, 1, 1)).total_seconds() // 1)


def _is_zone(zone: str) -> bool:
    """Whether Arrow knows a time zone."""
    try:
        pc.local_timestamp(pa.array([0], pa.timestamp("s", zone)))
    except pa.ArrowException:
        return False
    return True


def _floored(values: pa.Array) -> pa.Array:
    """Times in whole seconds, rounded down."""
    if pa.types.is_timestamp(values.type) and values.type.unit != "s":
        values = pc.floor_temporal(values, unit="second")
    return values.cast(pa.timestamp("s"), safe=False)


def _part_in_onnx(graph: Graph, part: str, seconds: str, column: Time) -> str:
    def whole_number(value: int) -> str:
        return graph.constant(np.int64(value))

    def floored(what: str, by: int) -> str:
        """Floor division: ONNX truncates towards 0."""
        rest = graph.add(f"Mod({what}, {whole_number(by)})")  # of the sign of the divisor
        return graph.add(f"Div({graph.add(f'Sub({what}, {rest})')}, {whole_number(by)})")

    if part == "hour":
        place = graph.add(f"Mod({seconds}, {whole_number(DAY)})")
    elif part == "weekday":
        moved = graph.add(f"Add({floored(seconds, DAY)}, {whole_number(3)})")
        place = graph.add(f"Mod({moved}, {whole_number(7)})")
    else:
        return _of_calendar(graph, part, floored(seconds, DAY), column)
    return _on_circle(graph, place, CYCLES[part])


def _on_circle(graph: Graph, place: str, places: int) -> str:
    table = graph.constant(circle(places).astype(np.float64))
    flat = graph.add(f"Reshape({place}, {graph.constant(np.array([-1]))})")
    return graph.add(f"Gather <axis = 0> ({table}, {flat})")


def _of_calendar(graph: Graph, part: str, days: str, column: Time) -> str:
    """Month or year of days since 1970: years that begin in March make leap days their last."""

    def number(value: int) -> str:
        return graph.constant(np.int64(value))

    def divided(what: str, by: int) -> str:  # all numbers here are 0 or more
        return graph.add(f"Div({what}, {number(by)})")

    def times(what: str, by: int) -> str:
        return graph.add(f"Mul({what}, {number(by)})")

    shifted = graph.add(f"Add({days}, {number(719_468)})")  # since 1 March of the year 0
    era = divided(shifted, 146_097)  # of 400 years
    day = graph.add(f"Sub({shifted}, {times(era, 146_097)})")
    leap = graph.add(f"Add({divided(day, 1460)}, {divided(day, 146_096)})")
    common = graph.add(f"Add({day}, {divided(day, 36_524)})")
    year = divided(graph.add(f"Sub({common}, {leap})"), 365)
    before = graph.add(f"Add({times(year, 365)}, {divided(year, 4)})")
    of_year = graph.add(
        f"Sub({graph.add(f'Add({day}, {divided(year, 100)})')}, {before})"
    )  # counted from 1 March
    month = divided(graph.add(f"Add({times(of_year, 5)}, {number(2)})"), 153)  # March is 0
    if part == "month":
        january = graph.add(f"Add({month}, {number(2)})")
        return _on_circle(graph, graph.add(f"Mod({january}, {number(12)})"), 12)
    after = divided(month, 10)  # January and February belong to the next year
    years = graph.add(f"Add({graph.add(f'Add({year}, {times(era, 400)})')}, {after})")
    low, high = float(column.low or 0), float(column.high or 0)
    real = graph.add(f"Cast <to = 11> ({years})")
    clipped = graph.add(
        f"Min({graph.add(f'Max({real}, {graph.constant(low)})')}, {graph.constant(high)})"
    )
    moved = graph.add(f"Sub({clipped}, {graph.constant((low + high) / 2)})")
    return graph.add(f"Div({moved}, {graph.constant((high - low) / 2)})")
