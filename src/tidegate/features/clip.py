"""Clips records onto a ball, so that the exact norm of each stored row is within the bound."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin

from tidegate.checks import between, positive, whole
from tidegate.features.feature_map import Graph, RecordMap, register
from tidegate.features.rows import Rows, as_rows, chunks, owners_of, row_norms, with_entries
from tidegate.kinds import parameter

SELECT_BELOW = 0.25
"""Below this share of rows, it is faster to select those to be scaled than to scale all."""


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
    outside, powers, factors = _judged(rows, norm)
    return _scaled(rows, outside, powers, factors), ~np.isnan(factors)


@np.errstate(all="ignore")
def clip_in_place(rows: Rows, norm: float) -> None:
    """Clip float rows as `clip_rows` does, bit for bit, in their own memory; there may be none.

    >>> rows = np.array([[3.0, 4.0], [0.3, 0.4]])
    >>> clip_in_place(rows, norm=1.0)
    >>> rows.round(12)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """
    outside, powers, factors = _judged(rows, norm)
    if not outside.any():
        return
    if not isinstance(rows, np.ndarray):
        counts = np.diff(rows.indptr)
        few = np.repeat(outside, counts)
        times, more = (np.repeat(each[outside], counts[outside]) for each in (powers, factors))
        rows.data[few] = rows.data[few] * times * more
    elif outside.mean() < SELECT_BELOW or (powers[outside] != 1).any():
        rows[outside] = rows[outside] * powers[outside, None] * factors[outside, None]
    else:  # the others times 1, exactly
        np.multiply(rows, np.where(outside, factors, 1)[:, None], out=rows, casting="same_kind")


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
        highest = graph.reduced("ReduceMax", graph.add(f"Abs({rows})"))
        peak = graph.add(f"Max({highest}, {one})")
        small = graph.add(f"Div({rows}, {peak})")
        length = graph.reduced("ReduceL2", small)
        within = graph.add(f"Div({graph.constant(self.norm)}, {peak})")
        factor = graph.add(f"Min({graph.add(f'Div({within}, {length})')}, {one})")
        return graph.add(f"Mul({rows}, {factor})")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _judged(
    rows: Rows, norm: float
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Which rows to scale, and each row's power and factor; a NaN factor if it is not finite."""
    norm = between("norm", norm, 2**-64, 2**64)
    margin = _margin(rows.shape[1], rows.dtype)
    norms, powers = row_norms(rows)
    outside = ~(norms <= norm * (1 - margin) * powers)
    return outside, powers, norm * (1 - 2 * margin) / norms


def _margin(columns: int, dtype: np.dtype[Any]) -> float:
    """Bound on the rounding errors of a norm and of a scaling, relative to the norm."""
    whole("the number of columns", columns, most=2**31)
    return (2 * columns + 16) * 2.0**-53 + float(np.finfo(dtype).eps)


def _scaled(
    rows: Rows,
    chosen: NDArray[np.bool_],
    powers: NDArray[np.float64],
    factors: NDArray[np.float64],
) -> Rows:
    """A copy in which each chosen row is multiplied by its power, then by its factor."""
    if not isinstance(rows, np.ndarray):
        owners = owners_of(rows)
        scaled = rows.data * powers[owners] * factors[owners]
        return with_entries(rows, np.where(chosen[owners], scaled, rows.data).astype(rows.dtype))
    copy = np.empty(rows.shape, rows.dtype)
    for part in chunks(rows):
        few = chosen[part]
        if few.any():  # the others times 1, exactly: cheaper than selecting rows
            scaled = rows[part].astype(np.float64)
            if (powers[part] != 1).any():
                scaled *= np.where(few, powers[part], 1)[:, None]
            scaled *= np.where(few, factors[part], 1)[:, None]
            copy[part] = scaled
        else:
            copy[part] = rows[part]
    return copy
