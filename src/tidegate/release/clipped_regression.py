"""A release as a scikit-learn pipeline, and its last step: a regressor that stays in a range."""

import io
import math
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_array, check_is_fitted

from tidegate.data.feature_map import FeatureMap
from tidegate.data.maps import NormClip
from tidegate.data.predicted import Target
from tidegate.release.card import StoredRelease
from tidegate.release.model import Model, RegressionModel


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


def to_sklearn(release: StoredRelease, features: FeatureMap | None = None) -> Any:
    """A fitted scikit-learn pipeline: the feature map, the clipping, a LogisticRegression.

    For a target, the last step is a `ClippedRegression` instead. If the release has surveys,
    records are centred and scaled after the clipping. Predictions equal those of the release, also
    for losses other than the logistic one. All steps but the last are transformers of
    `tidegate.features`, so using the pipeline requires Tidegate. Its attribute `card_` is the card.

    Args:
        release: The release.
        features: The feature map, if the card only names it.
    """
    model = release.model(features)
    if isinstance(model, RegressionModel):
        linear: Any = ClippedRegression.of(model.weights, model.target)
    else:
        linear = _logistic(model)
    before = [] if model.features is None else [model.features]
    after = model.prepared.feature_maps()
    pipeline = make_pipeline(*before, NormClip(norm=model.norm), *after, linear)
    pipeline.card_ = release.card
    return pipeline


def _logistic(model: Model) -> LogisticRegression:
    """A classifier with the weights of a model."""
    linear = LogisticRegression(solver="lbfgs" if model.weights.ndim == 2 else "liblinear")
    linear.coef_ = np.atleast_2d(model.weights.T)
    linear.intercept_ = np.zeros(linear.coef_.shape[0])  # a learnt intercept is a feature
    linear.classes_ = model.classes
    linear.n_features_in_ = linear.coef_.shape[1]
    linear.n_iter_ = np.zeros(1, np.int32)
    return linear


def to_joblib(release: StoredRelease) -> bytes:
    """`to_sklearn` as a joblib file. Loading one executes code: load only files you trust."""
    buffer = io.BytesIO()
    joblib.dump(to_sklearn(release), buffer)
    return buffer.getvalue()
