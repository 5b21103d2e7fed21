"""Centres and scales records by public numbers, which it is given: it learns nothing."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin

from tidegate.checks import InvalidValueError
from tidegate.data.feature_map import Graph, clipped_in_onnx
from tidegate.data.maps.intercept import AppendIntercept
from tidegate.data.maps.record_map import RecordMap
from tidegate.data.rows import (
    ENTRY_BITS,
    LARGEST_ENTRY,
    NO_MIX,
    Rows,
    centred_rows,
    mixes,
    nan_if_not_finite,
    on_mix_lattice,
)


@dataclass(eq=False, repr=False)
class CenterScale(OneToOneFeatureMixin, RecordMap):
    """Centre and scale each record by given public numbers, clip it to norm 1, add a constant.

    A matrix may mix the scaled columns before the clipping, to make them uncorrelated.

    Exported releases contain it, with the numbers that their surveys gave.

    Args:
        center: subtracted from each record, one finite number for each column.
        scale: multiplies each column afterwards; above 0.
        constant: the value of the last column, which lets decision boundaries lie anywhere.
        mix: a matrix that multiplies the scaled record; None for none.

    >>> CenterScale(center=[1.0, 0.0], scale=[1.0, 0.5]).transform([[1.5, 1.0]]).round(3)
    array([[0.5 , 0.5 , 0.15]])
    """

    center: Any
    scale: Any
    constant: float = 0.15
    mix: Any = None

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the input columns, then "constant"."""
        return np.append(super().get_feature_names_out(input_features), "constant")

    def _map(self, rows: Rows) -> Rows:
        center, scale, mix = self._numbers()
        if not isinstance(rows, np.ndarray) and (center.any() or mix.size):
            rows = rows.toarray()
        return nan_if_not_finite(centred_rows(rows, center, scale, self.constant, mix))

    def _numbers(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        center, scale = np.asarray(self.center, np.float64), np.asarray(self.scale, np.float64)
        good = center.ndim == 1 and center.shape == scale.shape and bool((scale > 0).all())
        if not good or not np.isfinite([center, scale]).all():
            advice = "one finite number for each column, the scale above 0"
            raise InvalidValueError(f"center and scale must have {advice}")
        given = getattr(self, "mix", None)  # one that an earlier version pickled has none
        mix = NO_MIX if given is None else on_mix_lattice(np.asarray(given, np.float64))
        if not mixes(mix, center.size):
            raise InvalidValueError("mix must be a small square matrix, a row for each column")
        return center, scale, mix

    def onnx(self, graph: Graph, rows: str) -> str:
        """See `InOnnx`."""
        center, scale, mix = self._numbers()
        scaled = graph.op("Mul", graph.op("Sub", rows, center), scale)
        if mix.size:
            scaled = mixed_in_onnx(graph, scaled, mix)
        clipped = clipped_in_onnx(graph, scaled, 1.0)
        return AppendIntercept(self.constant).onnx(graph, clipped)


def mixed_in_onnx(graph: Graph, rows: str, matrix: NDArray[Any]) -> str:
    """Add what `mixed` computes, of rows of doubles; return the name of its result."""
    most, finer, coarser = (
        graph.constant(each) for each in (LARGEST_ENTRY, 2.0**ENTRY_BITS, 2.0**-ENTRY_BITS)
    )
    size, sign = graph.op("Abs", rows), graph.op("Sign", rows)
    beyond = graph.op("Greater", size, most)  # false for NaN, which stays NaN
    bounded = graph.op("Where", beyond, most, size)
    kept = graph.op("Add", bounded, graph.op("Mul", rows, 0.0))  # NaN if infinite
    whole = graph.op("Floor", graph.op("Mul", kept, finer))
    cut = graph.op("Mul", graph.op("Mul", whole, coarser), sign)
    return graph.op("MatMul", cut, matrix.astype(np.float64))
