"""Clips records onto a ball, so that the exact norm of each stored row is within the bound."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin

from tidegate.checks import between, positive, whole
from tidegate.data.maps.feature_map import Graph, RecordMap, register
from tidegate.data.rows import Rows, as_rows, entries_of, row_norms, with_entries
from tidegate.kinds import parameter

SELECT_BELOW = 0.25
"""Below this share of rows, it is faster to select those to be scaled than to scale all."""

LEAST_NORM, MOST_NORM, MOST_COLUMNS = 2**-64, 2**64, 2**31
"""For which norms and widths the constants are proved."""


def clip_rows(X: Any, norm: float) -> Rows:
    """Scale every row longer than `norm` back onto the ball, in its own dtype.

    The exact Euclidean norm of the stored floats, taken as real numbers, is at most `norm`. A row
    well inside the ball is unchanged. A row within a few roundings of the sphere, or beyond it, is
    scaled to lie those few roundings inside, so clipping it again changes nothing. The constants
    are proved in docs/proofs/clipping.md. A row that is not finite becomes NaN.

    >>> clip_rows([[3.0, 4.0], [0.3, 0.4]], norm=1.0).round(12)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    >>> clip_rows(np.full((1, 4), 1e300), norm=1.0).round(12)
    array([[0.5, 0.5, 0.5, 0.5]])
    """
    return clipped_and_finite(X, norm)[0]


@np.errstate(all="ignore")
def clipped_and_finite(X: Any, norm: float) -> tuple[Rows, NDArray[np.bool_]]:
    """The rows that `clip_rows` returns, never sharing memory with X, and which are finite.

    >>> rows, finite = clipped_and_finite([[3.0, 4.0], [0.0, np.inf]], norm=1.0)
    >>> rows.round(12), finite
    (array([[0.6, 0.8],
           [nan, nan]]), array([ True, False]))
    """
    rows = as_rows(X)
    copy = with_entries(rows, entries_of(rows).copy())
    return copy, clip_in_place(copy, norm)


@np.errstate(all="ignore")
def clip_in_place(rows: Rows, norm: float) -> NDArray[np.bool_]:
    """Clip float rows as `clip_rows` does, in their own memory; return which are finite.

    There may be none.

    >>> rows = np.array([[3.0, 4.0], [0.3, 0.4]])
    >>> clip_in_place(rows, norm=1.0)
    array([ True,  True])
    >>> rows.round(12)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """
    outside, powers, factors = _judged(rows, norm)
    if not outside.any():
        return ~outside
    if not isinstance(rows, np.ndarray):
        counts = np.diff(rows.indptr)
        few = np.repeat(outside, counts)
        times, more = (np.repeat(each[outside], counts[outside]) for each in (powers, factors))
        rows.data[few] = rows.data[few] * times * more
    elif outside.mean() < SELECT_BELOW or (powers[outside] != 1).any():
        rows[outside] = rows[outside] * powers[outside, None] * factors[outside, None]
    else:  # the others times 1, exactly
        np.multiply(rows, np.where(outside, factors, 1)[:, None], out=rows, casting="same_kind")
    return ~np.isnan(factors)


@register
@dataclass(eq=False, repr=False)
class NormClip(OneToOneFeatureMixin, RecordMap):
    """Clip each record onto the ball of radius `norm`.

    Args:
        norm: the public bound on the Euclidean norm of every record, from 2^-64 to 2^64.

    >>> NormClip(norm=5.0).transform([[6.0, 8.0], [0.0, 0.0]]).round(12)
    array([[3., 4.],
           [0., 0.]])
    """

    kind: ClassVar[str] = ""
    about: ClassVar[str] = "records scaled onto a ball; configurations use records.norm instead"

    norm: float = parameter("the largest norm of a record", positive, default=1.0)

    def _map(self, rows: Rows) -> Rows:
        return clip_rows(rows, self.norm)

    def onnx(self, graph: Graph, rows: str) -> str:
        """See `InOnnx`; a row is divided by its peak first, so that no square overflows."""
        one = graph.constant(1.0)
        highest = graph.reduced("ReduceMax", graph.op("Abs", rows))
        peak = graph.op("Max", highest, one)
        length = graph.reduced("ReduceL2", graph.op("Div", rows, peak))
        within = graph.op("Div", self.norm, peak)
        return graph.op("Mul", rows, graph.op("Min", graph.op("Div", within, length), one))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _judged(
    rows: Rows, norm: float
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Which rows to scale, and each row's power and factor; a NaN factor if it is not finite."""
    columns = rows.shape[1]
    if type(norm) is bool or not LEAST_NORM < norm < MOST_NORM or not 1 <= columns <= MOST_COLUMNS:
        between("norm", norm, LEAST_NORM, MOST_NORM)
        whole("the number of columns", columns, most=MOST_COLUMNS)
    # Bounds the rounding errors of a norm and of a scaling, relative to the norm.
    margin = (2 * columns + 16) * 2.0**-53 + float(np.finfo(rows.dtype).eps)
    norms, powers = row_norms(rows)
    outside = ~(norms <= norm * (1 - margin) * powers)
    return outside, powers, norm * (1 - 2 * margin) / norms
