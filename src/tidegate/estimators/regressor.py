"""The base classes of regressors."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from tidegate.data.predicted import Target
from tidegate.estimators.linear import Goal, LinearEstimator, LinearStream
from tidegate.learn.loss import target_loss_of
from tidegate.release import RegressionModel


@dataclass(kw_only=True, eq=False, repr=False)
class Regressor(RegressorMixin, LinearEstimator):
    """A linear regressor whose models are all private; subclasses choose when to fit.

    A target outside its range is clipped into it. A record whose target is not a finite number
    cannot be used.

    Args:
        target: The public range (low, high) of the number to predict; a number outside it counts as
            the nearer end.
        loss: "squared", "huber" or "auto": squared for a budget with a delta, else huber.
    """

    target: Any

    target_: Target = field(init=False)

    def _goal(self) -> Goal:
        target = Target.of(self.target)
        loss = target_loss_of(self.loss, self._budget().unit)
        return Goal(loss, target, {"target_": target})

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The predicted target of each record, shape (n,), by the newest release.

        Predictions are in the target's unit, and clipped into its range.

        Args:
            X: Records as in `fit`, shape (n, d).
        """
        common = self._of_model_for(X)  # first: it refuses if nothing is fitted
        return RegressionModel(**common, target=self.target_).predict(X)

    @property
    def coef_(self) -> NDArray[np.float64]:
        """The weights of the newest release, shape (d,): in the target's unit.

        They are per unit of each feature: of each column of X, or of what `features` makes of
        them. For a record that is not clipped, the prediction is features @ coef_ + intercept_,
        clipped into the target's range.
        """
        return self._named_model().coef_

    @property
    def intercept_(self) -> float:
        """The prediction for a record whose features are all 0, before it is clipped."""
        return self._named_model().intercept_

    def weights_by_name(self) -> dict[str, float]:
        """The weights in `coef_` by the names of their features, the largest effect first.

        It costs nothing: the release has been paid for.
        """
        return self._named_model().weights_by_name()

    def _named_model(self) -> RegressionModel:
        common = self._of_named_model()  # first: it refuses if nothing is fitted
        return RegressionModel(**common, target=self.target_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination R^2 of the newest release.

        Args:
            X: Records as in `fit`, shape (n, d).
            y: The target of each, shape (n,).
            sample_weight: How much each counts, shape (n,).
        """
        return float(super().score(X, y, sample_weight))


class StreamRegressor(Regressor, LinearStream):
    """A regressor of one stream; subclasses choose the schedule."""
