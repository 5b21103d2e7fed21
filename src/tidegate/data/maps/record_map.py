"""The base class of feature maps of numbers."""

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import validate_data

from tidegate.data.rows import Rows, as_rows
from tidegate.data.values import as_numbers


class RecordMap(TransformerMixin, BaseEstimator):
    """A transformer that maps each record by itself, bit for bit, and learns nothing.

    The features of a record are the same in any batch, at any place in it, before and after
    `fit`. A record with an entry that is not finite becomes a row of NaN: an error would reveal it
    to others, and dropping it would shift the records after it.
    """

    takes_text: ClassVar[bool] = False
    takes_columns: ClassVar[bool] = False

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002 (scikit-learn passes y)
        """Store the number and names of the columns; ignore the values of records."""
        columns = self._rows(X, reset=True).shape[1]
        self._map(np.zeros((1, columns)))  # mapping a made-up record checks the parameters
        return self

    def transform(self, X: Any) -> Rows:
        """The features of each record, one row each; needs no `fit`."""
        return self._map(self._rows(X, reset=False))

    @abstractmethod
    def _map(self, rows: Rows) -> Rows:
        """Map rows, which may hold any finite or non-finite numbers."""

    def _rows(self, X: Any, *, reset: bool) -> Rows:
        rows = as_rows(as_numbers(X))
        if reset or hasattr(self, "n_features_in_"):  # without a fit there is nothing to compare
            validate_data(self, X, reset=reset, skip_check_array=True)
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags
