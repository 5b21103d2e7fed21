"""The base classes of classifiers."""

from abc import abstractmethod
from collections.abc import Mapping, Set
from copy import deepcopy
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from tidegate.checks import InvalidValueError, fraction, refuse
from tidegate.estimators.base_estimator import Begun, StreamEstimator
from tidegate.features.feature_map import FeatureMap
from tidegate.learn.intake import Intake
from tidegate.learn.labels import as_labels
from tidegate.learn.learner import LEARNERS, Learner, Task, automatic_learner
from tidegate.learn.loss import loss_of
from tidegate.learn.trainer import Trainer
from tidegate.plan import default_survey
from tidegate.privacy import Budget
from tidegate.release import Model
from tidegate.schedule import Schedule


@dataclass(kw_only=True, eq=False, repr=False)
class Classifier(ClassifierMixin, StreamEstimator):
    """A linear classifier whose models are all private; subclasses choose when to fit.

    The classes and the norm are parameters, because reading them off the records would leak. A
    record that cannot be used (not finite, or with an unknown label) keeps its slot and counts as
    nothing; `quarantined_` counts such records, for the operator only.
    """

    budget: Budget
    classes: Any
    norm: float
    regularization: float | None = None
    loss: str = "auto"
    learner: Learner[Task] | None = None
    features: FeatureMap | None = None
    survey: Any = None
    contributions: int | None = None
    period: int | None = None
    typical: Any = 1
    not_private_seed: int | None = None

    classes_: NDArray[Any] = field(init=False)

    def _begin_with(self, schedule: Schedule) -> Begun:
        """Make a new stream; refuse bad parameters before any record is read."""
        trainer, intake, classes = self._parts()
        return self._begin(schedule, trainer, intake, self._survey(), classes_=classes)

    def _parts(self) -> tuple[Trainer[Task], Intake, NDArray[Any]]:
        """The trainer, the intake and the classes of a new stream."""
        classes = as_classes("classes", self.classes)
        learner, loss = self._learner(), loss_of(self.loss, classes.size)
        task = Task(loss=loss, norm=self.norm, regularization=self.regularization)
        if self.features is not None and not hasattr(self.features, "transform"):
            raise refuse("features", "None or an object with a transform method", self.features)
        intake = Intake(norm=task.norm, classes=classes.tolist(), features=deepcopy(self.features))
        return self._trainer(task, learner), intake, classes

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
        if not hasattr(self.learner, "fit") or not hasattr(self.learner, "check"):
            allowed = " or ".join(each.__name__ for each in LEARNERS.values())
            raise refuse("learner", allowed, self.learner)
        return self.learner

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
        if any(label != label for label in as_labels(y)):  # noqa: PLR0124 (NaN)
            raise InvalidValueError("y contains NaN: leave out records that have no label")
        return float(super().score(X, y, sample_weight))

    def _model(self, X: Any) -> Model:
        """The model of the newest release, after a check that X has the columns of the stream."""
        weights, intake = self._newest(), self._begun.intake
        self._check_columns(X, reset=False)
        return Model(
            weights=weights,
            transform=self.releases_[-1].transform,
            classes=self.classes_,
            norm=intake.norm,
            features=intake.features,
            form=intake.form,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class StreamClassifier(Classifier):
    """A classifier of one stream; subclasses choose the schedule."""

    @abstractmethod
    def _schedule(self) -> Schedule:
        """The schedule of the stream."""

    def fit(self, X: Any, y: Any, *, persons: Any = None) -> Self:
        """Start a new stream with X and y, and forget any earlier one.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; the input of `features`, if given.
            y: A label for each, shape (n,).
            persons: The id of each record's person, text or whole numbers, shape (n,); needed if
                `contributions` is set.
        """
        return self._take(self._begin_with(self._schedule()), X, y, persons=persons)

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
        if hasattr(self, "_begun"):
            return self._take(self._begun, X, y, persons=persons)
        return self.fit(X, y, persons=persons)


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
