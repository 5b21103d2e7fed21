"""Clips records onto a ball, so that the exact norm of each stored row is within the bound."""

from dataclasses import dataclass
from typing import Any, ClassVar

from sklearn.base import OneToOneFeatureMixin

from tidegate.checks import positive
from tidegate.data.feature_map import Graph, clipped_in_onnx, register
from tidegate.data.maps.record_map import RecordMap
from tidegate.data.rows import Rows, clip_rows
from tidegate.kinds import parameter


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
        """See `InOnnx`."""
        return clipped_in_onnx(graph, rows, self.norm)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
