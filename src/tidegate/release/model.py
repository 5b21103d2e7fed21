"""Predictions with the weights of a release."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError
from tidegate.features.feature_map import FeatureMap
from tidegate.features.rows import Rows
from tidegate.learn.intake import Intake
from tidegate.learn.labels import predicted_codes
from tidegate.learn.transform import Transform


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """A linear classifier that makes predictions with given weights.

    Attributes:
        weights: Shape (d, K), or (d,) for two classes; with a transform d + 1 instead of d.
        classes: The labels, in the order of the weights' columns.
        norm: The norm that the features of every record are clipped to.
        features: The feature map that is applied to every record first, if any.
        transform: How clipped features are centred and scaled, if they are.
        form: An empty array with the dtype and kind of the stored records; None to accept records
            in any form.

    >>> model = Model(weights=np.array([1.0, -2.0]), classes=np.array(["no", "yes"]), norm=5.0)
    >>> model.predict([[3.0, 1.0], [0.0, 4.0]]), model.predict_proba([[3.0, 1.0]]).round(3)
    (array(['yes', 'no'], dtype='<U3'), array([[0.269, 0.731]]))
    """

    weights: NDArray[np.float64]
    classes: NDArray[Any]
    norm: float
    features: FeatureMap | None = None
    transform: Transform | None = None
    form: Rows | None = None

    @property
    def width(self) -> int:
        """Number of features of a record, after the feature map and before the transform."""
        return int(self.weights.shape[0]) - (self.transform is not None)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The margins of each record, shape (n, K), or (n,) for two classes.

        Args:
            X: Records in the form used for training: the input of `features`, if given.
        """
        intake = Intake(norm=self.norm, features=self.features, form=self.form)
        rows = intake.rows(X, self.width)
        if self.transform is not None:
            if not isinstance(rows, np.ndarray) and self.transform.center.any():
                rows = rows.toarray()
            rows = self.transform.rows(rows)
        margins = np.asarray(rows @ self.weights)
        if not np.isfinite(margins).all():
            message = "X contains NaN, infinity or text: these cannot be predicted; leave them out"
            raise InvalidValueError(message)
        return margins

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, shape (n, K).

        Args:
            X: Records in the form used for training.
        """
        margins = self.decision_function(X)
        if margins.ndim == 1:
            margins = np.column_stack([np.zeros_like(margins), margins])
        shares = np.exp(margins - margins.max(axis=1, keepdims=True))
        probabilities: NDArray[np.float64] = shares / shares.sum(axis=1, keepdims=True)
        return probabilities

    def predict(self, X: Any) -> NDArray[Any]:
        """The predicted class of each record, shape (n,).

        Args:
            X: Records in the form used for training.
        """
        labels: NDArray[Any] = self.classes[predicted_codes(self.decision_function(X))]
        return labels
