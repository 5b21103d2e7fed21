"""Columns of numbers with a public range."""

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.checks import between, flag
from tidegate.features.arrow_values import is_text, nulls
from tidegate.features.columns.column import (
    Cells,
    Column,
    Floats,
    register,
)
from tidegate.features.columns.unpacking import GAP, unpack_number
from tidegate.features.feature_map import Graph
from tidegate.features.spelling import Odd
from tidegate.kinds import parameter

NUMERAL = re.compile(r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?")
"""A decimal numeral in ASCII digits."""

NAN = re.compile(r"[+-]?nan", re.IGNORECASE)

LARGEST = 2.0**500
"""Bounds of a range are smaller than this, so that no difference overflows."""

a_bound = partial(between, low=-LARGEST, high=LARGEST)


@register
@dataclass(frozen=True)
class Number(Column):
    """Numbers, clipped to a public range and mapped to [-1, 1].

    A second feature is 1 where the number is missing; the first is then 0, the middle of the range.
    A text is a number if it is a decimal numeral; true is 1 and false is 0. Infinity and any other
    text make a record unusable.

    Args:
        name: The name of the column.
        low: The lower end of the range, which is public. Smaller numbers count as this one.
        high: The upper end.
        log: Whether to scale by log(1 + number - low): for amounts and counts, most of which are
            small.
        gaps: Texts that stand for a missing number; False if none is ever missing.

    >>> out = np.zeros((4, 2), np.float32)
    >>> age = Number("age", low=0, high=80)
    >>> age.encode(age.cells(["20", None, 200, 60.0]), out)
    >>> out
    array([[-0.5,  0. ],
           [ 0. ,  1. ],
           [ 1. ,  0. ],
           [ 0.5,  0. ]], dtype=float32)
    """

    kind: ClassVar[str] = "number"
    about: ClassVar[str] = "a number, clipped to a public range"

    low: float = parameter("numbers below it count as this one", a_bound, kw_only=True)
    high: float = parameter("numbers above it count as this one", a_bound, kw_only=True)
    log: bool = parameter(
        "scale by the logarithm: for amounts, most of which are small",
        flag,
        default=False,
        kw_only=True,
    )

    squared_norm = 1

    @cached_property
    def features(self) -> tuple[str, ...]:
        """See `Column`."""
        return ("", *self.gap_feature)

    def check(self) -> None:
        """Refuse an empty range."""
        if not self.low < self.high or not (self.high - self.low) / 2 > 0:
            raise self.mistake(f"low must be below high, got {self.low:g} and {self.high:g}")

    @property
    def reading(self) -> str:
        """See `Column`."""
        scale = " by logarithm" if self.log else ""
        return f"number from {self.low:g} to {self.high:g}{scale}"

    def read(self, value: object) -> Any:
        """See `Column`."""
        if isinstance(value, str):
            return self._of_text(self.stripped(value))
        if value is None:
            return Odd.GAP
        if not isinstance(value, Real | Decimal):
            return Odd.WRONG
        try:
            return self._finite(float(value))
        except (OverflowError, ValueError):  # too large, or a signalling NaN
            return Odd.WRONG

    def _of_text(self, text: str | None) -> float | Odd:
        if text is None or NAN.fullmatch(text):
            return Odd.GAP
        if (truth := self.truth(text)) is not None:
            return self._finite(truth)
        return self._finite(float(text)) if NUMERAL.fullmatch(text) else Odd.WRONG

    def _finite(self, number: float) -> float | Odd:
        if math.isnan(number) or number in self.gap_numbers:  # NaN of a Decimal
            return Odd.GAP
        return number if math.isfinite(number) else Odd.WRONG

    def stacked(self, values: list[Any]) -> Floats:
        """See `Column`."""
        return np.array([0.0 if value is None else value for value in values], np.float64)

    def of_arrow(self, values: pa.Array) -> Cells | None:
        """See `Column`; None if a text is no numeral that Arrow knows."""
        kind = values.type
        if is_text(kind):
            parsed = self._parsed(values)
            if parsed is None:
                return None
            values = parsed
        elif not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            if not pa.types.is_boolean(kind):
                return None
            values = pc.cast(values, pa.uint8())
        if values.type != pa.float64():
            values = values.cast(pa.float64(), safe=False)
        numbers = values.to_numpy(zero_copy_only=False)
        gap = np.isnan(numbers) | nulls(values)
        if self.gap_numbers:
            gap |= np.isin(numbers, list(self.gap_numbers))
        wrong = np.isinf(numbers) & ~gap
        if gap.any() or wrong.any():
            numbers = np.where(gap | wrong, 0.0, numbers)
        return Cells(numbers, gap, wrong)

    def _parsed(self, texts: pa.Array) -> pa.Array | None:
        try:
            parsed = pc.cast(self.all_stripped(texts), pa.float64())
        except pa.ArrowInvalid:
            return None
        # Arrow knows more spellings of NaN and infinity: those are read one by one.
        return parsed if pc.all(pc.is_finite(parsed)).as_py() is not False else None

    def pack(self, cells: Cells, out: Floats) -> None:
        """See `Column`."""
        clipped = np.clip(cells.values, self.low, self.high)
        if self.log:
            span = math.log1p(self.high - self.low)
            # One by one: a vectorised logarithm may round by where in an array a number is.
            logs = map(math.log1p, (clipped - self.low).tolist())
            placed = np.fromiter(logs, np.float64, clipped.size) / (span / 2) - 1
        else:
            placed = (clipped - (self.low / 2 + self.high / 2)) / ((self.high - self.low) / 2)
        np.clip(placed, -1.0, 1.0, out=placed)
        placed[cells.gap] = GAP
        out[:, 0] = placed

    def value_at(self, feature: float) -> float:
        """The number whose feature is this one, in [-1, 1]: the inverse of its scaling.

        >>> Number("age", low=0, high=80).value_at(-0.5)
        20.0
        """
        if self.log:
            return self.low + math.expm1((feature + 1) / 2 * math.log1p(self.high - self.low))
        return (self.low / 2 + self.high / 2) + feature * ((self.high - self.low) / 2)

    def unpack(self, packed: Floats, out: Floats) -> None:
        """See `Column`."""
        unpack_number(packed[:, 0], out)

    def onnx(self, graph: Graph, values: str) -> str:
        """See `Column`; NaN is a missing number."""
        missing = self.missing_in_onnx(graph, values)
        low, high = graph.constant(self.low), graph.constant(self.high)
        raised = graph.add(f"Max({values}, {low})")
        clipped = graph.add(f"Min({raised}, {high})")
        if self.log:
            start = graph.constant(self.low - 1)
            log = graph.add(f"Log({graph.add(f'Sub({clipped}, {start})')})")
            half = graph.constant(math.log1p(self.high - self.low) / 2)
            scaled = graph.add(f"Div({log}, {half})")
            placed = graph.add(f"Sub({scaled}, {graph.constant(1.0)})")
        else:
            moved = graph.add(f"Sub({clipped}, {graph.constant(self.low / 2 + self.high / 2)})")
            placed = graph.add(f"Div({moved}, {graph.constant((self.high - self.low) / 2)})")
        return self.with_gap_in_onnx(graph, placed, missing)
