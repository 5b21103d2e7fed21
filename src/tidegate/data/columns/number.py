"""Columns of numbers with a public range."""

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.checks import between, flag
from tidegate.data.columns.column import Cells, Floats, OneNumber, register
from tidegate.data.columns.unpacking import GAP
from tidegate.data.feature_map import Graph
from tidegate.data.values import Odd, is_text, nulls, truths_of
from tidegate.kinds import parameter

NUMERAL = re.compile(r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|[+-]?[nN][aA][nN]")
"""A decimal numeral in ASCII digits, or NaN."""

LARGEST = 2.0**500
"""Bounds of a range are smaller than this, so that no difference overflows."""

a_bound = partial(between, low=-LARGEST, high=LARGEST)


@register
@dataclass(frozen=True, kw_only=True)
class Number(OneNumber):
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
    dtype: ClassVar[Any] = np.float64

    low: float = parameter("numbers below it count as this one", a_bound)
    high: float = parameter("numbers above it count as this one", a_bound)
    log: bool = parameter(
        "scale by the logarithm: for amounts, most of which are small", flag, default=False
    )

    def check(self) -> None:
        """Refuse an empty range."""
        if not self.low < self.high or not (self.high - self.low) / 2 > 0:
            raise self.mistake(f"low must be below high, got {self.low:g} and {self.high:g}")

    @property
    def reading(self) -> str:
        """See `Column`."""
        scale = " by logarithm" if self.log else ""
        return f"number from {self.low:g} to {self.high:g}{scale}"

    def of_text(self, text: str) -> float | Odd:
        """See `Column`."""
        truths = truths_of(self.spelling)
        if text in truths:
            return self._finite(truths[text])
        return self._finite(float(text)) if NUMERAL.fullmatch(text) else Odd.WRONG

    def of_object(self, value: object) -> float | Odd:
        """See `Column`."""
        if not isinstance(value, Real | Decimal):
            return Odd.WRONG
        return self._finite(float(value))  # one that is too large, or a signalling NaN, raises

    def _finite(self, number: float) -> float | Odd:
        if math.isnan(number) or number in self.gap_numbers:
            return Odd.GAP
        return number if math.isfinite(number) else Odd.WRONG

    def of_arrow(self, values: pa.Array) -> Cells:
        """See `Column`; a text that is no numeral of Arrow's is read by itself, with all others."""
        kind, real = values.type, values
        if is_text(kind):
            try:
                real = pc.cast(self.all_stripped(values), pa.float64())
            except pa.ArrowInvalid:
                return super().of_arrow(values)
            if pc.all(pc.is_finite(real)).as_py() is False:  # it knows more spellings of NaN
                return super().of_arrow(values)
        elif pa.types.is_boolean(kind):
            real = values.cast(pa.uint8())
        elif not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            return super().of_arrow(values)
        numbers = real.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        gap = np.isnan(numbers) | nulls(real)
        if self.gap_numbers:
            gap |= np.isin(numbers, list(self.gap_numbers))
        wrong = np.isinf(numbers) & ~gap
        if gap.any() or wrong.any():
            numbers = np.where(gap | wrong, 0.0, numbers)
        return Cells(numbers, gap, wrong)

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

    def onnx(self, graph: Graph, values: str) -> str:
        """See `Column`; NaN is a missing number."""
        missing = self.missing_in_onnx(graph, values)
        clipped = graph.op("Min", graph.op("Max", values, self.low), self.high)
        if self.log:
            log = graph.op("Log", graph.op("Sub", clipped, self.low - 1))
            scaled = graph.op("Div", log, math.log1p(self.high - self.low) / 2)
            placed = graph.op("Sub", scaled, 1.0)
        else:
            moved = graph.op("Sub", clipped, self.low / 2 + self.high / 2)
            placed = graph.op("Div", moved, (self.high - self.low) / 2)
        return self.with_gap_in_onnx(graph, placed, missing)
