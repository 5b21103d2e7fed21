"""Columns whose values are lists of numbers, such as the output of a model."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.checks import between, whole
from tidegate.data.columns.column import Cells, Floats, OneVector, register
from tidegate.data.feature_map import BOOL, DOUBLE, Graph, clipped_in_onnx
from tidegate.data.rows import clip_in_place, clip_rows
from tidegate.data.values import Odd, is_list, is_text, nulls
from tidegate.kinds import parameter


@register
@dataclass(frozen=True, kw_only=True)
class Vector(OneVector):
    """A list of numbers of fixed length, clipped to a public norm and divided by it.

    One more feature is 1 where the list is missing. A list of another length, or with anything in
    it that is not a finite number, makes a record unusable. In a CSV file, write a JSON list.

    Args:
        name: The name of the column.
        size: How many numbers a list has; public.
        norm: The Euclidean norm that longer lists are clipped to; public.
        gaps: Texts that stand for a missing list; False if none is ever missing.

    >>> out = np.zeros((2, 3), np.float32)
    >>> embedding = Vector("embedding", size=2, norm=5.0)
    >>> embedding.encode(embedding.cells([[3.0, 2.0], "[6, 8]"]), out)
    >>> out.round(3)
    array([[0.6, 0.4, 0. ],
           [0.6, 0.8, 0. ]], dtype=float32)
    """

    kind: ClassVar[str] = "vector"
    about: ClassVar[str] = "a list of numbers of fixed length"

    dtype: ClassVar[Any] = np.float64

    size: int = parameter("how many numbers a list has", partial(whole, most=2**16))
    norm: float = parameter(
        "the Euclidean norm that longer lists are clipped to",
        partial(between, low=2.0**-64, high=2.0**64),
    )

    @cached_property
    def features(self) -> tuple[str, ...]:
        """See `Column`."""
        return (*map(str, range(self.size)), *self.gap_feature)

    @property
    def blank(self) -> list[float]:
        """See `Column`."""
        return [0.0] * self.size

    @property
    def onnx_width(self) -> int:
        """See `Column`."""
        return self.size

    @property
    def reading(self) -> str:
        """See `Column`."""
        return f"{self.size:,} numbers, clipped to norm {self.norm:g}"

    def of_text(self, text: str) -> Any:
        """See `Column`."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return Odd.WRONG
        return Odd.GAP if found is None else self.of_object(found)

    def of_object(self, value: object) -> Any:
        """See `Column`."""
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, Sequence) or len(value) != self.size:
            return Odd.WRONG
        numbers = [_number(each) for each in value]
        return numbers if all(np.isfinite(numbers)) else Odd.WRONG

    def of_arrow(self, values: pa.Array) -> Cells:
        """See `Column`; lists are read one by one unless all are complete."""
        if not is_list(values.type) or values.null_count:
            return super().of_arrow(values)
        flat = values.flatten()
        sizes = pc.unique(pc.list_value_length(values)).to_pylist()
        numbers = pa.types.is_floating(flat.type) or pa.types.is_integer(flat.type)
        if not numbers or flat.null_count or sizes != [self.size]:
            return super().of_arrow(values)
        rows = flat.to_numpy(zero_copy_only=False).astype(np.float64).reshape(-1, self.size)
        wrong = ~np.isfinite(rows).all(axis=1)
        return Cells(np.where(wrong[:, None], 0.0, rows), nulls(values), wrong)

    def pack(self, cells: Cells, out: Floats) -> None:
        """See `Column`."""
        vectors, out[:, self.size :] = out[:, : self.size], cells.gap[:, None]
        if len(cells.gap):
            vectors[:] = clip_rows(cells.values, self.norm) / self.norm
            clip_in_place(vectors, 1.0)

    def takes(self, kind: pa.DataType) -> bool:
        """See `Column`."""
        return is_list(kind) or is_text(kind) or bool(pa.types.is_null(kind))

    def onnx(self, graph: Graph, values: str) -> str:
        """See `Column`; the input has shape (n, size), NaN throughout where it is missing."""
        each = graph.op("Cast", graph.op("IsNaN", values), to=DOUBLE)
        missing = graph.op("Cast", graph.reduced("ReduceMin", each), to=BOOL)
        given = graph.op("Where", missing, 0.0, values)
        clipped = clipped_in_onnx(graph, given, self.norm)
        return self.with_gap_in_onnx(graph, graph.op("Div", clipped, self.norm), missing)


def _number(value: object) -> float:
    try:
        real = isinstance(value, Real) and not isinstance(value, bool)
        return float(value) if real else np.nan  # type: ignore[arg-type]
    except OverflowError:
        return np.nan
