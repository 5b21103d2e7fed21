"""The base classes of linear models: what all share, classifiers and regressors."""

from abc import abstractmethod
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin

from tidegate.checks import InvalidValueError, fraction, refuse
from tidegate.data.columns import TableColumns
from tidegate.data.feature_map import FeatureMap
from tidegate.data.intake import Intake
from tidegate.data.maps.composed import plain_copy
from tidegate.data.predicted import Classes, Predicted, Target
from tidegate.data.values import as_labels, scalar
from tidegate.estimators.base_estimator import Begun, Learning, StreamEstimator
from tidegate.kinds import parameters
from tidegate.learn.learner import LEARNERS, Learner, Task, automatic_learner
from tidegate.learn.loss import Loss, loss_of, target_loss_of
from tidegate.privacy import Budget
from tidegate.release import Model, RegressionModel
from tidegate.schedule import Schedule
from tidegate.schedule.plan import default_survey


class Goal(NamedTuple):
    """What a model learns to predict.

    Attributes:
        loss: The loss of one record.
        predicted: What is predicted.
        attributes: The fitted attributes that show it.
    """

    loss: Loss
    predicted: Predicted
    attributes: Mapping[str, Any]


@dataclass(kw_only=True, eq=False, repr=False)
class LinearEstimator(StreamEstimator):
    """A linear model whose releases are all private; subclasses choose what it predicts, and when.

    All settings are parameters, because reading them off the records would leak. A record that
    cannot be used keeps its slot and counts as nothing; `quarantined_` counts such records, for the
    operator only.

    Args:
        norm: The largest norm of a record; longer records are clipped to it. Public. With a survey
            a generous bound will do. It may be left out if `features` is
            `tidegate.features.Columns`.
        regularization: Lambda, the weight of the squared distance to the prior, or to 0 without
            one; by default the learner chooses it from public numbers or needs none.
        learner: How a fit is made private; by default OutputPerturbation for a pure budget,
            GradientPerturbation for a Gaussian one.
        features: A feature map that is applied to every record first.
        survey: The share of the budget for a private survey of each step, by which features are
            centred and scaled and a constant is added; by default 1/20 for a budget with a delta,
            else 0: no survey, so add `tidegate.features.AppendIntercept()` to `features`.
    """

    budget: Budget
    norm: float | None = None
    regularization: float | None = None
    loss: str = "auto"
    learner: Learner[Task] | None = None
    features: FeatureMap | None = None
    survey: Any = None
    contributions: int | None = None
    period: int | None = None
    typical: Any = 1
    not_private_seed: int | None = None

    @abstractmethod
    def _goal(self) -> Goal:
        """What to predict; refuse bad parameters."""

    def _begin_with(self, schedule: Schedule) -> Begun:
        """Make a new stream; refuse bad parameters before any record is read."""
        learning, attributes = self._parts()
        return self._begin(schedule, learning, self._survey(), **attributes)

    def _parts(self) -> tuple[Learning, Mapping[str, Any]]:
        """What a new stream learns, and the attributes that show it."""
        goal, learner = self._goal(), self._learner()
        task = Task(loss=goal.loss, norm=self._norm(), regularization=self.regularization)
        if self.features is not None and not hasattr(self.features, "transform"):
            raise refuse("features", "None or an object with a transform method", self.features)
        intake = Intake(
            norm=task.norm, features=plain_copy(self.features), predicted=goal.predicted
        )
        return Learning(task, learner, intake), goal.attributes

    def _norm(self) -> float:
        """The largest norm of a record: as given, or as it follows from columns with kinds."""
        if self.norm is not None:
            return self.norm
        if isinstance(self.features, TableColumns):
            return self.features.norm
        raise refuse("norm", "a number, unless features is Columns", None)

    def _survey(self) -> Fraction:
        """The share of each record's budget that its step's survey costs."""
        if self.survey is None:
            return default_survey(self._budget())
        share = fraction("survey", self.survey)
        if share == 1:
            raise refuse("survey", "a share from 0 to below 1, such as 0.05", self.survey)
        return share

    def _learner(self) -> Learner[Task]:
        if self.learner is None:
            return LEARNERS[automatic_learner(self._budget().unit)]()
        parts = (getattr(self.learner, name, None) for name in ("fit", "check"))
        if isinstance(self.learner, type) or not all(map(callable, parts)):
            names = [f"{each.__name__}()" for each in LEARNERS.values()]
            allowed = f"None or one of tidegate.learn: {' or '.join(names)}"
            raise refuse("learner", allowed, self.learner)
        return self.learner

    def _of_model_for(self, X: Any) -> dict[str, Any]:
        """What the model of the newest release is made of, if X has the columns of the stream."""
        common = self._of_model()  # first: it refuses if nothing is fitted
        self._check_columns(X, reset=False)
        return common

    def _of_model(self) -> dict[str, Any]:
        """What the model of the newest release is made of."""
        weights, intake = self._newest(), self._begun.intake
        return {
            "weights": weights,
            "transform": self.releases_[-1].transform,
            "norm": intake.norm,
            "features": intake.features,
            "spelling": intake.spelling,
            "form": intake.form,
        }

    def _of_named_model(self) -> dict[str, Any]:
        """What the model of the newest release is made of, with the names of the columns."""
        return {**self._of_model(), "columns": self._column_names()}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LinearStream(LinearEstimator):
    """A linear model of one stream; subclasses choose the schedule.

    Attributes:
        ledger_: What each record has paid.
        certificate_: The plan's worst-case charge before shares are divided by it.
    """

    _schedule_kind: ClassVar[type[Schedule]]  # its parameters are parameters of the estimator

    def _schedule(self) -> Schedule:
        """The schedule of the stream."""
        names = (each.name for each in parameters(self._schedule_kind))
        return self._schedule_kind(**{name: getattr(self, name) for name in names})

    def fit(self, X: Any, y: Any, *, persons: Any = None) -> Self:
        """Start a new stream with X and y, and forget any earlier one.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; the input of `features`, if given.
            y: A label or target for each, shape (n,).
            persons: The id of each record's person, text or whole numbers, shape (n,); needed if
                `contributions` is set.
        """
        return self._take(self._begin_with(self._schedule()), X, y, persons=persons)

    def partial_fit(self, X: Any, y: Any, *, persons: Any = None) -> Self:
        """Take in any number of records; each step they complete makes its releases.

        The split into batches makes no difference. The first batch fixes the form of the stored
        records: float32 or float64, dense or sparse. A refused batch changes nothing. If a fit is
        interrupted, its batch has been taken in, and the next batch completes the step.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; the input of `features`, if given.
            y: A label or target for each, shape (n,).
            persons: The id of each record's person, text or whole numbers, shape (n,); needed if
                `contributions` is set.
        """
        if hasattr(self, "_begun"):
            return self._take(self._begun, X, y, persons=persons)
        return self.fit(X, y, persons=persons)


@dataclass(kw_only=True, eq=False, repr=False)
class Classifier(ClassifierMixin, LinearEstimator):
    """A linear classifier whose models are all private; subclasses choose when to fit.

    A record with an unknown label cannot be used, like one that is not finite.

    Args:
        classes: All labels that can occur; public.
        loss: "logistic", "softmax", "huber" or "auto": logistic for two classes, else softmax.
    """

    classes: Any

    classes_: NDArray[Any] = field(init=False)

    def _goal(self) -> Goal:
        classes = as_classes("classes", self.classes)
        loss = loss_of(self.loss, classes.size)
        return Goal(loss, Classes(classes.tolist()), {"classes_": classes})

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The margins of each record, shape (n, K), or (n,) for two classes.

        Args:
            X: Records as in `fit`, shape (n, d).
        """
        return self._model(X).decision_function(X)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, shape (n, K), by the newest release.

        Args:
            X: Records as in `fit`, shape (n, d).
        """
        return self._model(X).predict_proba(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """The predicted class of each record, shape (n,), by the newest release.

        Args:
            X: Records as in `fit`, shape (n, d).
        """
        return self._model(X).predict(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy of the newest release: the fraction of records it predicts right.

        Args:
            X: Records as in `fit`, shape (n, d).
            y: The label of each, shape (n,).
            sample_weight: How much each counts, shape (n,).
        """
        if any(scalar(label) is None for label in as_labels(y)):
            raise InvalidValueError("y contains NaN: leave out records that have no label")
        return float(super().score(X, y, sample_weight))

    @property
    def coef_(self) -> NDArray[np.float64]:
        """The weights of the newest release, shape (K, d), or (1, d) for two classes.

        They are per unit of each feature: of each column of X, or of what `features` makes of
        them. For a record that is not clipped, `decision_function` is
        features @ coef_.T + intercept_.
        """
        return self._named_model().coef_

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """The intercepts of the newest release, shape (K,), or (1,) for two classes."""
        return self._named_model().intercept_

    def weights_by_name(self) -> dict[str, Any]:
        """The weights in `coef_` by the names of their features, the largest effect first.

        With two classes a weight is a number, else a dict of one for each class. It costs nothing:
        the release has been paid for.
        """
        return self._named_model().weights_by_name()

    def _model(self, X: Any) -> Model:
        """The model of the newest release, after a check that X has the columns of the stream."""
        common = self._of_model_for(X)  # first: it refuses if nothing is fitted
        return Model(**common, classes=self.classes_)

    def _named_model(self) -> Model:
        common = self._of_named_model()  # first: it refuses if nothing is fitted
        return Model(**common, classes=self.classes_)


class StreamClassifier(Classifier, LinearStream):
    """A classifier of one stream; subclasses choose the schedule."""

    def partial_fit(self, X: Any, y: Any, classes: Any = None, *, persons: Any = None) -> Self:
        """Take in any number of records; each step they complete makes its releases.

        The split into batches makes no difference. The first batch fixes the form of the stored
        records: float32 or float64, dense or sparse. A refused batch changes nothing. If a fit is
        interrupted, its batch has been taken in, and the next batch completes the step.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; the input of `features`, if given.
            y: A label for each, shape (n,).
            classes: Ignored: the classes are a parameter of the estimator.
            persons: The id of each record's person, text or whole numbers, shape (n,); needed if
                `contributions` is set.
        """
        del classes
        return super().partial_fit(X, y, persons=persons)


def as_classes(name: str, classes: Any) -> NDArray[Any]:
    """Public labels as an array, in the order that releases use for them.

    >>> as_classes("classes", range(3)), as_classes("classes", [1, "a"])
    (array([0, 1, 2]), array([1, 'a'], dtype=object))
    """
    allowed = "a list of two or more different labels"
    if isinstance(classes, str | bytes | Set | Mapping):  # sets have no fixed order
        raise refuse(name, allowed, classes)
    try:
        given = as_labels(classes, name)
        different = len(set(given)) == len(given) >= 2
        different &= not any(label != label for label in given)  # noqa: PLR0124 (NaN)
    except (InvalidValueError, TypeError):
        different = False
    if not different:
        raise refuse(name, allowed, classes)
    labels = np.empty(len(given), object)
    labels[:] = given
    plain = np.asarray(given)
    return plain if plain.tolist() == given else labels


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
