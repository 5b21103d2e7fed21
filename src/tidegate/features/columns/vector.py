"""Columns whose values are lists of numbers, such as the output of a model."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tidegate.checks import between, whole
from tidegate.features.arrow_values import is_list, is_text, nulls
from tidegate.features.clip import NormClip, clip_in_place, clip_rows
from tidegate.features.columns.column import Cells, Column, Floats, register
from tidegate.features.columns.unpacking import unpack_vector
from tidegate.features.feature_map import Graph
from tidegate.features.spelling import Odd
from tidegate.kinds import parameter


@register
@dataclass(frozen=True)
class Vector(Column):
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

    size: int = parameter("how many numbers a list has", partial(whole, most=2**16), kw_only=True)
    norm: float = parameter(
        "the Euclidean norm that longer lists are clipped to",
        partial(between, low=2.0**-64, high=2.0**64),
        kw_only=True,
    )

    squared_norm = 1

    @cached_property
    def features(self) -> tuple[str, ...]:
        """See `Column`."""
        return (*map(str, range(self.size)), *self.gap_feature)

    @property
    def onnx_width(self) -> int:
        """See `Column`."""
        return self.size

    @property
    def reading(self) -> str:
        """See `Column`."""
        return f"{self.size:,} numbers, clipped to norm {self.norm:g}"

    def read(self, value: object) -> Any:
        """See `Column`."""
        if isinstance(value, str):
            text = self.stripped(value)
            value = None if text is None else _parsed(text)
        if value is None:
            return Odd.GAP
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, Sequence) or len(value) != self.size:
            return Odd.WRONG
        numbers = [_number(each) for each in value]
        return numbers if all(np.isfinite(numbers)) else Odd.WRONG

    def stacked(self, values: list[Any]) -> Floats:
        """See `Column`."""
        made = np.zeros((len(values), self.size))
        for row, value in zip(made, values, strict=True):
            if value is not None:
                row[:] = value
        return made

    def of_arrow(self, values: pa.Array) -> Cells | None:
        """See `Column`; None unless all lists are complete."""
        if not (pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type)):
            return None
        inner = values.type.value_type
        if not (pa.types.is_floating(inner) or pa.types.is_integer(inner)) or values.null_count:
            return None
        flat = values.flatten()
        if len(flat) != self.size * len(values) or flat.null_count:
            return None
        if any(n != self.size for n in set(values.value_lengths().to_pylist())):
            return None
        numbers = flat.to_numpy(zero_copy_only=False).astype(np.float64)
        rows = numbers.reshape(len(values), self.size)
        wrong = ~np.isfinite(rows).all(axis=1)
        return Cells(np.where(wrong[:, None], 0.0, rows), nulls(values), wrong)

    @property
    def packed_width(self) -> int:
        """See `Column`: the features themselves."""
        return self.width

    def pack(self, cells: Cells, out: Floats) -> None:
        """See `Column`."""
        vectors, out[:, self.size :] = out[:, : self.size], cells.gap[:, None]
        if len(cells.gap):
            vectors[:] = clip_rows(cells.values, self.norm) / self.norm
            clip_in_place(vectors, 1.0)

    def unpack(self, packed: Floats, out: Floats) -> None:
        """See `Column`."""
        unpack_vector(packed, out, self.size)

    def takes(self, kind: pa.DataType) -> bool:
        """See `Column`."""
        return is_list(kind) or is_text(kind) or bool(pa.types.is_null(kind))

    def onnx(self, graph: Graph, values: str) -> str:
        """See `Column`; the input has shape (n, size), NaN throughout where it is missing."""
        each = graph.add(f"Cast <to = 11> ({graph.add(f'IsNaN({values})')})")
        missing = graph.add(f"Cast <to = 9> ({graph.reduced('ReduceMin', each)})")
        given = graph.add(f"Where({missing}, {graph.constant(0.0)}, {values})")
        clipped = NormClip(norm=self.norm).onnx(graph, given)
        return self.with_gap_in_onnx(
            graph, graph.add(f"Div({clipped}, {graph.constant(self.norm)})"), missing
        )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return ()


def _number(value: object) -> float:
    try:
        real = isinstance(value, Real) and not isinstance(value, bool)
        return float(value) if real else np.nan  # type: ignore[arg-type]
    except OverflowError:
        return np.nan
