"""Columns that are true or false."""

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.features.arrow_values import as_objects, is_text, nulls
from tidegate.features.columns.column import (
    Cells,
    Column,
    Floats,
    none,
    register,
)
from tidegate.features.columns.unpacking import GAP, unpack_number
from tidegate.features.feature_map import Graph
from tidegate.features.spelling import Odd, plain_number

WORDS = {
    **dict.fromkeys(("true", "yes", "t", "y", "1"), True),
    **dict.fromkeys(("false", "no", "f", "n", "0"), False),
}
"""The texts of a flag, in lower case."""


@register
@dataclass(frozen=True)
class Flag(Column):
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

    squared_norm = 1

    @cached_property
    def features(self) -> tuple[str, ...]:
        """See `Column`."""
        return ("", *self.gap_feature)

    def read(self, value: object) -> Any:
        """See `Column`."""
        if isinstance(value, str):
            text = self.stripped(value)
            if text is None:
                return Odd.GAP
            number = plain_number(text) if self.spelling > 1 else None
            if number is None:
                return WORDS.get(text.lower(), Odd.WRONG) if text.isascii() else Odd.WRONG
            value = number
        if value is None:
            return Odd.GAP
        if not isinstance(value, Real | Decimal):
            return Odd.WRONG
        if value in self.gap_numbers:
            return Odd.GAP
        return bool(value) if value in (0, 1) else Odd.WRONG

    def stacked(self, values: list[Any]) -> Any:
        """See `Column`."""
        return np.array([bool(value) for value in values], np.bool_)

    def of_arrow(self, values: pa.Array) -> Cells | None:
        """See `Column`."""
        if pa.types.is_boolean(values.type) and not self.gap_numbers:
            found = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
            return Cells(found, nulls(values), none(len(values)))
        if not is_text(values.type):
            return None
        encoded = values.dictionary_encode(null_encoding="encode")
        few = [self.read(each) for each in as_objects(encoded.dictionary)]
        if not few:
            return Cells(none(0), none(0), none(0))
        places = encoded.indices.to_numpy(zero_copy_only=False)
        kinds = (True, Odd.GAP, Odd.WRONG)
        return Cells(*(np.array([each is kind for each in few])[places] for kind in kinds))

    def pack(self, cells: Cells, out: Floats) -> None:
        """See `Column`."""
        out[:, 0] = np.where(cells.gap, GAP, np.where(cells.values, 1.0, -1.0))

    def unpack(self, packed: Floats, out: Floats) -> None:
        """See `Column`."""
        unpack_number(packed[:, 0], out)

    def onnx(self, graph: Graph, values: str) -> str:
        """See `Column`; the input is 1 or 0, NaN if it is missing."""
        missing = self.missing_in_onnx(graph, values)
        doubled = graph.add(f"Mul({values}, {graph.constant(2.0)})")
        sign = graph.add(f"Sub({doubled}, {graph.constant(1.0)})")
        return self.with_gap_in_onnx(graph, sign, missing)
