"""The feature maps that a gate applies to every record before clipping it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate.data.maps.feature_map import NamedMap
from tidegate.data.numbers import as_numbers
from tidegate.data.rows import Rows, as_rows
from tidegate.data.spelling import NEWEST, as_texts


@dataclass(frozen=True, kw_only=True)
class FeatureChain:
    """Applies feature maps in order, then converts to the dtype of stored records.

    Attributes:
        maps: The maps, in order.
        dtype: The dtype of stored features.
        spelling: The rule by which texts and flags are read, see `tidegate.data.spelling`.

    >>> from tidegate.features import AppendIntercept
    >>> FeatureChain(maps=(AppendIntercept(0.5),), dtype="float32").transform([[2, "x"], [1, 0]])
    array([[nan, nan, nan],
           [1. , 0. , 0.5]], dtype=float32)
    """

    maps: tuple[NamedMap, ...]
    dtype: str
    spelling: int = NEWEST

    def transform(self, X: Any) -> Rows:
        """The features of each record, one row each."""
        if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype == object:
            X = X.tolist()  # records that arrived as a list
        first = self.maps[0] if self.maps else None
        numbers = first is None or not (first.takes_text or first.takes_columns)
        rows = as_numbers(X, self.spelling) if numbers else X
        if first is not None and first.takes_text:
            rows = as_texts(X, self.spelling)
        for each in self.maps:
            rows = each.transform(rows)
        with np.errstate(over="ignore"):  # an infinite record is unusable
            kept: Rows = as_rows(rows).astype(self.dtype, copy=False)
        return kept
