"""Centres and scales records by public numbers, which it is given: it learns nothing."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import OneToOneFeatureMixin

from tidegate.checks import InvalidValueError, refuse
from tidegate.data.maps.clip import NormClip, clip_in_place
from tidegate.data.maps.feature_map import Graph, RecordMap
from tidegate.data.maps.intercept import AppendIntercept
from tidegate.data.maps.mix import mixed, mixed_in_onnx, mixes, on_mix_lattice
from tidegate.data.rows import Rows, chunks, nan_if_not_finite, with_entries

NO_MIX = np.zeros((0, 0), np.float32)
"""The matrix of a transform that has none."""


def centred_rows(
    X: Rows,
    center: NDArray[Any],
    scale: NDArray[Any],
    constant: float,
    mix: NDArray[Any] = NO_MIX,
) -> Rows:
    """The rows scale * (x - center), mixed, clipped to norm 1, and a constant column.

    Each depends on its own row alone. A sparse row keeps its kind, so its center must be 0. There
    may be no row.

    >>> centred_rows(np.array([[3.0, 4.0], [0.25, 0.5]]), np.zeros(2), np.ones(2), 0.15).round(3)
    array([[0.6 , 0.8 , 0.15],
           [0.25, 0.5 , 0.15]])
    """
    if X.shape[1] != center.size:
        raise refuse("X", f"of {center.size} columns", shown=f"{X.shape[1]}")
    center, scale = center.astype(np.float64), scale.astype(np.float64)
    if not isinstance(X, np.ndarray):
        if center.any() or mix.size:
            raise refuse("center", "0 for sparse rows, without mix", shown="another number")
        return _scaled(X, scale, constant)
    result = np.empty((X.shape[0], center.size + 1), X.dtype)
    for part in chunks(result):  # few enough rows to stay in a core's cache
        moved = X[part].astype(np.float64)
        moved -= center
        moved *= scale
        result[part, :-1] = mixed(moved, mix) if mix.size else moved
        clip_in_place(result[part, :-1], 1.0)
    result[:, -1] = constant
    return result


def _scaled(X: csr_array, scale: NDArray[np.float64], constant: float) -> csr_array:
    scaled = (X.data * scale[X.indices]).astype(X.dtype)
    clip_in_place(with_entries(X, scaled), 1.0)
    ends = X.indptr + np.arange(X.indptr.size, dtype=X.indptr.dtype)
    given = np.ones(X.nnz + X.shape[0], np.bool_)  # the other places are for the constant:
    given[ends[1:] - 1] = False  # after the last entry of each row
    data = np.full(given.size, constant, X.dtype)
    indices = np.full(given.size, scale.size, X.indices.dtype)
    data[given], indices[given] = scaled, X.indices
    return type(X)((data, indices, ends), (X.shape[0], scale.size + 1))


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
        clipped = NormClip(norm=1.0).onnx(graph, scaled)
        return AppendIntercept(self.constant).onnx(graph, clipped)
