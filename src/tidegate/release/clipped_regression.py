"""A linear regressor for scikit-learn whose predictions stay in a range."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression
from sklearn.utils.validation import check_array, check_is_fitted

from tidegate.data.target import Target


class ClippedRegression(RegressorMixin, BaseEstimator):
    """A linear regression whose predictions are clipped into a range.

    It is the last step of an exported pipeline. Fitting it is not private.

    Args:
        low: The least prediction.
        high: The largest prediction.

    >>> model = ClippedRegression(0, 10).fit([[0.0], [1.0]], [1.0, 4.0])
    >>> model.predict([[2.0], [9.0], [-9.0]])
    array([ 7., 10.,  0.])
    """

    def __init__(self, low: float = -math.inf, high: float = math.inf) -> None:
        self.low = low
        self.high = high

    @classmethod
    def of(cls, weights: NDArray[np.float64], target: Target) -> "ClippedRegression":
        """The regressor that predicts what these weights do."""
        made = cls(target.low, target.high)
        made.coef_ = target.half * weights
        made.intercept_ = target.middle
        made.n_features_in_ = len(weights)
        return made

    def fit(self, X: Any, y: Any) -> "ClippedRegression":
        """Fit the regression by least squares: not private."""
        fitted = LinearRegression().fit(X, y)
        self.coef_, self.intercept_ = fitted.coef_, fitted.intercept_
        self.n_features_in_ = fitted.n_features_in_
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The prediction of each row, shape (n,)."""
        check_is_fitted(self)
        rows = check_array(X, accept_sparse="csr")
        return np.asarray((rows @ self.coef_ + self.intercept_).clip(self.low, self.high))
