"""What all feature maps of numbers have in common."""

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import validate_data

from tidegate.features.numbers import as_numbers
from tidegate.features.rows import Rows, as_rows


class RecordMap(TransformerMixin, BaseEstimator):
    """A transformer that maps each record by itself, bit for bit, and learns nothing.

    The features of a record are the same in any batch, at any place in it, before and after
    `fit`. A record with an entry that is not finite becomes a row of not-a-numbers: raising would
    tell others about it, dropping it would shift its neighbours.
    """

    takes_text: ClassVar[bool] = False

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002 (scikit-learn passes y)
        """Note the number of columns and their names; what the records hold is ignored."""
        columns = self._rows(X, reset=True).shape[1]
        self._map(np.zeros((1, columns)))  # mapping a made-up record checks the parameters
        return self

    def transform(self, X: Any) -> Rows:
        """The features of each record, one row each; needs no `fit`."""
        return self._map(self._rows(X, reset=False))

    @abstractmethod
    def _map(self, rows: Rows) -> Rows:
        """Map rows that may be of any finite or non-finite numbers."""

    def _rows(self, X: Any, *, reset: bool) -> Rows:
        rows = as_rows(as_numbers(X))
        validate_data(self, X, reset=reset, skip_check_array=True)
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags
