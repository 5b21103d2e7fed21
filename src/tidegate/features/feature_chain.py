"""What every record of a gate goes through before it is clipped."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate.features.feature_map import NamedMap
from tidegate.features.numbers import as_numbers
from tidegate.features.rows import Rows, as_rows


@dataclass(frozen=True, kw_only=True)
class FeatureChain:
    """Feature maps one after the other, then the dtype that records are kept in.

    Attributes:
        maps: The maps, in order.
        dtype: Of the stored features.

    >>> from tidegate.features import AppendIntercept
    >>> FeatureChain(maps=(AppendIntercept(0.5),), dtype="float32").transform([[2, "x"], [1, 0]])
    array([[nan, nan, nan],
           [1. , 0. , 0.5]], dtype=float32)
    """

    maps: tuple[NamedMap, ...]
    dtype: str

    def transform(self, X: Any) -> Rows:
        """The features of each record, one row each."""
        if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype == object:
            X = X.tolist()  # records that were handed over as a list
        rows = X if self.maps and self.maps[0].takes_text else as_numbers(X)
        for each in self.maps:
            rows = each.transform(rows)
        with np.errstate(over="ignore"):  # what becomes infinite cannot be used
            kept: Rows = as_rows(rows).astype(self.dtype, copy=False)
        return kept
