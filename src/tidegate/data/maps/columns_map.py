"""Named columns of any kind, as a transformer of scikit-learn."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from tidegate.data.columns.table import TableColumns
from tidegate.data.feature_map import register
from tidegate.data.rows import Rows


@register
@dataclass(eq=False, repr=False)
class Columns(TableColumns, TransformerMixin, BaseEstimator):
    """Encode the columns of a table, each by its kind.

    The features of a record depend on that record and the settings of the columns alone. A missing
    value is a value: it sets a feature of its own. A record with a value that contradicts its
    column's kind becomes a row of NaN, so it cannot be used.

    Each column's features are bounded, so a whole row has a norm of at most `norm`. An estimator
    with these features needs no norm of its own.

    Args:
        columns: The columns: `Number`, `Category`, `Flag`, `Time`, `Text` and `Vector`.
        spelling: The rule by which values are spelled, see `tidegate.data.values`; 1 is that
            of states and releases before version 0.2.

    >>> from tidegate.features import Category, Number
    >>> columns = Columns([Number("age", low=0, high=80), Category("sex", values=["f", "m"])])
    >>> columns.transform([{"age": 20, "sex": "m"}, {"age": "?", "sex": "f"}, {"age": 60}])
    array([[-0.5,  0. ,  0. ,  1. ,  0. ,  0. ],
           [ nan,  nan,  nan,  nan,  nan,  nan],
           [ 0.5,  0. ,  0. ,  0. ,  0. ,  1. ]], dtype=float32)
    >>> columns.get_feature_names_out().tolist()
    ['age', 'age missing', 'sex=f', 'sex=m', 'sex other', 'sex missing']
    >>> round(columns.norm, 3)
    1.414
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Keep rule 1 for columns that an earlier version has pickled."""
        super().__setstate__({"spelling": 1, **state})

    def fit(self, X: object = None, y: object = None) -> Self:  # noqa: ARG002
        """Check the columns; no record is read."""
        self.feature_names_in_ = np.array(self.names, object)
        self.n_features_in_ = len(self.names)
        return self

    def transform(self, X: Any) -> Rows:
        """The features of each record, float32.

        Args:
            X: A table with these columns: a DataFrame, an Arrow table, a dict of columns, a list of
                dicts, or rows without names in this order. Other columns are ignored.
        """
        return super().transform(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.no_validation = True
        return tags
