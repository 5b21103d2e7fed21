"""Predicting with the weights of a release."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError
from tidegate.features.feature_map import FeatureMap
from tidegate.features.rows import Rows
from tidegate.learn.intake import Intake
from tidegate.learn.labels import predicted_codes


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """A linear classifier that predicts, and knows nothing of how it came to be.

    Attributes:
        weights: Shape (d, K), or (d,) for two classes.
        classes: The labels, in the order of the weights' columns.
        norm: What the features of every record are clipped to.
        features: The map that every record goes through first.
        form: No rows, but of the dtype and kind that records are stored in; None to take them as
            they come.

    >>> model = Model(weights=np.array([1.0, -2.0]), classes=np.array(["no", "yes"]), norm=5.0)
    >>> model.predict([[3.0, 1.0], [0.0, 4.0]]), model.predict_proba([[3.0, 1.0]]).round(3)
    (array(['yes', 'no'], dtype='<U3'), array([[0.269, 0.731]]))
    """

    weights: NDArray[np.float64]
    classes: NDArray[Any]
    norm: float
    features: FeatureMap | None = None
    form: Rows | None = None

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The margins of each record, shape (n, K), or (n,) for two classes.

        Args:
            X: Records as the fit took them: what `features` takes, if given.
        """
        intake = Intake(norm=self.norm, features=self.features, form=self.form)
        margins = np.asarray(intake.rows(X, self.weights.shape[0]) @ self.weights)
        if not np.isfinite(margins).all():
            told = "X contains NaN, infinity or text: these cannot be predicted; leave them out"
            raise InvalidValueError(told)
        return margins

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, shape (n, K).

        Args:
            X: Records as the fit took them.
        """
        margins = self.decision_function(X)
        if margins.ndim == 1:
            margins = np.column_stack([np.zeros_like(margins), margins])
        shares = np.exp(margins - margins.max(axis=1, keepdims=True))
        probabilities: NDArray[np.float64] = shares / shares.sum(axis=1, keepdims=True)
        return probabilities

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each record, shape (n,).

        Args:
            X: Records as the fit took them.
        """
        labels: NDArray[Any] = self.classes[predicted_codes(self.decision_function(X))]
        return labels
