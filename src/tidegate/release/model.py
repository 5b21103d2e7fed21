"""Predictions with the weights of a release."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import validate_data

from tidegate.checks import InvalidValueError
from tidegate.data.columns import TableColumns
from tidegate.data.columns.table import few
from tidegate.data.feature_map import FeatureMap
from tidegate.data.intake import Intake, check_width
from tidegate.data.maps.composed import first_map
from tidegate.data.predicted import Target, predicted_codes
from tidegate.data.rows import Rows
from tidegate.data.values import NEWEST
from tidegate.learn.transform import Prepared, Transform, prepared_by
from tidegate.release.coefficients import Coefficients


@dataclass(frozen=True, kw_only=True, eq=False)
class Scorer:
    """All that the margins of a release depend on, but for the records.

    Attributes:
        weights: As in `LinearModel`.
        width: Number of features of a record, after the feature map and before the transform.
        prepared: What happens to clipped features.
        intake: Maps and clips the features.
        wrong: Says what cannot be predicted in some records.
    """

    weights: NDArray[np.float64]
    width: int
    prepared: Prepared
    intake: Intake
    wrong: Callable[[Any], str]

    def margins(self, features: Any, X: Any) -> NDArray[np.float64]:
        """The margins of each record, shape (n, K), or (n,) for two classes or a target.

        Args:
            features: What the feature map makes of the records; without one, their numbers.
            X: The records, to say which of them cannot be predicted.
        """
        rows = self.intake.clipped(features)[0]
        check_width(rows, self.width)
        if not isinstance(rows, np.ndarray) and self.prepared.needs_dense_rows:
            rows = rows.toarray()
        margins = np.asarray(self.prepared.rows(rows) @ self.weights)
        if not np.isfinite(margins).all():
            raise InvalidValueError(f"{self.wrong(X)}: these cannot be predicted; leave them out")
        return margins


def probabilities(margins: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probability of each class, shape (n, K).

    >>> probabilities(np.array([0.0, 1.0])).round(3)
    array([[0.5  , 0.5  ],
           [0.269, 0.731]])
    """
    if margins.ndim == 1:
        margins = np.column_stack([np.zeros_like(margins), margins])
    shares = np.exp(margins - margins.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearModel(BaseEstimator):
    """A linear model with given weights; subclasses say what its margins predict.

    To scikit-learn it is a fitted estimator.

    Attributes:
        weights: Shape (d, K), or (d,) for two classes or a target; with a transform d + 1 instead
            of d.
        norm: The norm that the features of every record are clipped to.
        features: The feature map that is applied to every record first, if any.
        transform: How clipped features are centred and scaled, if they are.
        form: An empty array with the dtype and kind of the stored records; None to accept records
            in any form.
        columns: The names of the columns of a record, if they have names.
        card: The card of the release; None if it is not known.
        spelling: The rule by which values are read, see `tidegate.data.values`.
    """

    weights: NDArray[np.float64]
    norm: float
    features: FeatureMap | None = None
    transform: Transform | None = None
    form: Rows | None = None
    columns: Sequence[str] | None = None
    card: Mapping[str, Any] | None = None
    spelling: int = NEWEST

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Keep rule 1 for a model that an earlier version has pickled."""
        super().__setstate__({"spelling": 1, **state})

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The names of the columns of a record; missing if they have none."""
        if not self.columns:
            raise AttributeError("the columns of this model have no names")
        return np.array(self.columns, object)

    @property
    def n_features_in_(self) -> int:
        """The number of columns of a record; missing if only the feature map knows it."""
        if self.columns:
            return len(self.columns)
        if self.features is not None:
            raise AttributeError("only the feature map of this model knows the number of columns")
        return self.width

    @property
    def width(self) -> int:
        """Number of features of a record, after the feature map and before the transform."""
        return int(self.weights.shape[0]) - self.prepared.added

    @property
    def prepared(self) -> Prepared:
        """What happens to clipped features."""
        return prepared_by(self.transform)

    @property
    def coefficients(self) -> Coefficients:
        """The margins in the units of the features, with the names of the features."""
        return Coefficients.of(self.weights, self.prepared, self.features, self.columns)

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Return the model unchanged: a release is final, and scikit-learn looks for `fit`."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def margins(self, X: Any) -> NDArray[np.float64]:
        """The margins of each record, shape (n, K), or (n,) for two classes or a target.

        Args:
            X: Records in the form used for training: the input of `features`, if given.
        """
        self._check_names(X)
        scorer = self.scorer()
        return scorer.margins(scorer.intake.mapped(X), X)

    def scorer(self) -> "Scorer":
        """What computes the margins: prepare it once to predict many batches."""
        return Scorer(
            weights=self.weights,
            width=self.width,
            prepared=self.prepared,
            intake=Intake(
                norm=self.norm, features=self.features, form=self.form, spelling=self.spelling
            ),
            wrong=self._wrong,
        )

    def _wrong(self, X: Any) -> str:
        """What cannot be predicted: for columns with kinds, which columns."""
        first = first_map(self.features)
        if not isinstance(first, TableColumns):
            return "X contains NaN, infinity or text"
        bad = first.bad(X)
        names = [each.shown for each in first.checked if bad[each.name].any()]
        return f"X has values that contradict the kind of {few(names)}"

    def _check_names(self, X: Any) -> None:
        """Refuse a table whose columns are others or in another order, unless a map finds them."""
        first = first_map(self.features)
        table = hasattr(X, "columns") or hasattr(X, "column_names")
        if self.columns and table and not getattr(first, "takes_columns", False):
            validate_data(self, X, reset=False, skip_check_array=True)


@dataclass(frozen=True, kw_only=True, eq=False)
class Model(ClassifierMixin, LinearModel):
    """A linear classifier that makes predictions with given weights.

    To scikit-learn it is a fitted classifier.

    Attributes:
        classes: The labels, in the order of the weights' columns.

    >>> model = Model(weights=np.array([1.0, -2.0]), classes=np.array(["no", "yes"]), norm=5.0)
    >>> model.predict([[3.0, 1.0], [0.0, 4.0]]), model.predict_proba([[3.0, 1.0]]).round(3)
    (array(['yes', 'no'], dtype='<U3'), array([[0.269, 0.731]]))
    """

    classes: NDArray[Any]

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, under scikit-learn's name."""
        return self.classes

    @property
    def coef_(self) -> NDArray[np.float64]:
        """The weights per unit of each feature, shape (K, d), or (1, d) for two classes.

        For a record that is not clipped, `decision_function` is features @ coef_.T + intercept_.
        Features are the columns of a record, or what `features` makes of them.
        """
        return self.coefficients.weights

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """The intercepts, shape (K,), or (1,) for two classes."""
        return self.coefficients.intercepts

    def weights_by_name(self) -> dict[str, Any]:
        """The weights in `coef_` by the names of their features, the largest effect first.

        With two classes a weight is a number, else a dict of one for each class. Effects are
        compared after the model has scaled its features, so that units do not matter.
        """
        found = self.coefficients
        if len(found.weights) == 1:
            return {found.names[place]: float(found.weights[0, place]) for place in found.order}
        labels = self.classes.tolist()
        return {
            found.names[place]: dict(zip(labels, found.weights[:, place].tolist(), strict=True))
            for place in found.order
        }

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The margins of each record, shape (n, K), or (n,) for two classes.

        Args:
            X: Records in the form used for training: the input of `features`, if given.
        """
        return self.margins(X)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, shape (n, K).

        Args:
            X: Records in the form used for training.
        """
        return probabilities(self.decision_function(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The predicted class of each record, shape (n,).

        Args:
            X: Records in the form used for training.
        """
        labels: NDArray[Any] = self.classes[predicted_codes(self.decision_function(X))]
        return labels


@dataclass(frozen=True, kw_only=True, eq=False)
class RegressionModel(RegressorMixin, LinearModel):
    """A linear regression that makes predictions with given weights.

    To scikit-learn it is a fitted regressor.

    Attributes:
        target: The public range of what it predicts.

    >>> model = RegressionModel(weights=np.array([0.5, -1.0]), target=Target(0, 10), norm=5.0)
    >>> model.predict([[1.0, 0.25], [0.0, 4.0]])
    array([6.25, 0.  ])
    """

    target: Target

    @property
    def coef_(self) -> NDArray[np.float64]:
        """The weights in the target's unit per unit of each feature, shape (d,).

        For a record that is not clipped, the prediction is features @ coef_ + intercept_, clipped
        into the target's range.
        """
        weights: NDArray[np.float64] = self.target.half * self.coefficients.weights[0]
        return weights

    @property
    def intercept_(self) -> float:
        """The prediction for a record whose features are all 0, before it is clipped."""
        return self.target.middle + self.target.half * float(self.coefficients.intercepts[0])

    def weights_by_name(self) -> dict[str, float]:
        """The weights in `coef_` by the names of their features, the largest effect first.

        Effects are compared after the model has scaled its features, so that units do not matter.
        """
        found, weights = self.coefficients, self.coef_
        return {found.names[place]: float(weights[place]) for place in found.order}

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The predicted target of each record, shape (n,): in its unit, clipped into its range.

        Args:
            X: Records in the form used for training.
        """
        return self.target.predictions(self.margins(X))
