"""The base classes of classifiers."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from tidegate.checks import InvalidValueError, refuse
from tidegate.data.labels import as_labels
from tidegate.data.predicted import Classes
from tidegate.data.spelling import scalar
from tidegate.estimators.linear import Goal, LinearEstimator, LinearStream
from tidegate.learn.loss import loss_of
from tidegate.release import Model


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
