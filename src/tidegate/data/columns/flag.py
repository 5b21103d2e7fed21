"""Columns that are true or false."""

from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.data.columns.column import Cells, Floats, OneNumber, none, register
from tidegate.data.columns.unpacking import GAP
from tidegate.data.feature_map import Graph
from tidegate.data.values import Odd, is_text, nulls, spells_number

WORDS = {
    **dict.fromkeys(("true", "yes", "t", "y", "1"), True),
    **dict.fromkeys(("false", "no", "f", "n", "0"), False),
}
"""The texts of a flag, in lower case."""


@register
@dataclass(frozen=True)
class Flag(OneNumber):
    """True or false, as 1 or -1; 0 if it is missing, and then a second feature is 1.

    The texts true, yes, t, y, 1 and false, no, f, n, 0 are flags, in upper or lower case, and so
    are the numbers 1 and 0, such as 1.0. Anything else makes a record unusable.

    Args:
        name: The name of the column.
        gaps: Texts that stand for a missing value; False if none is ever missing.

    >>> out = np.zeros((4, 2), np.float32)
    >>> smoker = Flag("smoker")
    >>> smoker.encode(smoker.cells(["Yes", 0, None, True]), out)
    >>> out
    array([[ 1.,  0.],
           [-1.,  0.],
           [ 0.,  1.],
           [ 1.,  0.]], dtype=float32)
    """

    kind: ClassVar[str] = "flag"
    about: ClassVar[str] = "true or false"
    dtype: ClassVar[Any] = np.bool_

    def of_text(self, text: str) -> bool | Odd:
        """See `Column`."""
        if spells_number(text, self.spelling):
            return self.of_object(float(text))
        return WORDS.get(text.lower(), Odd.WRONG) if text.isascii() else Odd.WRONG

    def of_object(self, value: object) -> bool | Odd:
        """See `Column`."""
        if not isinstance(value, Real | Decimal):
            return Odd.WRONG
        if value in self.gap_numbers:
            return Odd.GAP
        return bool(value) if value in (0, 1) else Odd.WRONG

    def of_arrow(self, values: pa.Array) -> Cells:
        """See `Column`."""
        if pa.types.is_boolean(values.type) and not self.gap_numbers:
            found = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
            return Cells(found, nulls(values), none(len(values)))
        return self.few_by_few(values) if is_text(values.type) else super().of_arrow(values)

    def pack(self, cells: Cells, out: Floats) -> None:
        """See `Column`."""
        out[:, 0] = np.where(cells.gap, GAP, np.where(cells.values, 1.0, -1.0))

    def onnx(self, graph: Graph, values: str) -> str:
        """See `Column`; the input is 1 or 0, NaN if it is missing."""
        missing = self.missing_in_onnx(graph, values)
        sign = graph.op("Sub", graph.op("Mul", values, 2.0), 1.0)
        return self.with_gap_in_onnx(graph, sign, missing)
