"""The intercept, as a constant coordinate."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import hstack, issparse
from sklearn.base import OneToOneFeatureMixin

from tidegate.checks import between, positive
from tidegate.data.feature_map import Graph, register
from tidegate.data.maps.record_map import RecordMap
from tidegate.data.rows import Rows, nan_if_not_finite
from tidegate.kinds import parameter


@register
@dataclass(eq=False, repr=False)
class AppendIntercept(OneToOneFeatureMixin, RecordMap):
    """Append a constant coordinate; its weight is regularised and noised like the others.

    Append it before `NormClip`: the norm bound of a private fit is on the whole record, including
    the intercept.

    Args:
        value: the constant, from 2^-64 to 2^64; a larger one takes more of the norm and is
            regularised less.

    >>> AppendIntercept(0.5).transform([[3.0, 4.0]])
    array([[3. , 4. , 0.5]])
    """

    kind: ClassVar[str] = "intercept"
    about: ClassVar[str] = "lets decision boundaries lie away from the origin"

    value: float = parameter("the constant", positive, default=1.0)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the input columns, then "intercept"."""
        return np.append(super().get_feature_names_out(input_features), "intercept")

    def _map(self, rows: Rows) -> Rows:
        value = between("value", self.value, 2**-64, 2**64)
        column = np.full((rows.shape[0], 1), value, rows.dtype)
        if issparse(rows):
            return nan_if_not_finite(hstack([rows, type(rows)(column)], format="csr"))
        return nan_if_not_finite(np.hstack([rows, column]))

    def onnx(self, graph: Graph, rows: str) -> str:
        """See `InOnnx`."""
        return graph.op("Pad", rows, [0, 0, 0, 1], self.value)
