"""What the classifiers share: labels, features, prediction, and the making of releases."""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from tidegate.checks import InvalidValueError, refuse
from tidegate.learn import GradientPerturbation, Huber, Logistic, Loss, OutputPerturbation, Softmax
from tidegate.learn.learner import Learner, Task
from tidegate.learn.records import FeatureMap, Records, clean, featurize
from tidegate.learn.trainer import Trainer
from tidegate.privacy import Budget
from tidegate.privacy.bits import NotPrivateBits, SystemBits
from tidegate.release import Release

LossName = Literal["auto", "logistic", "softmax", "huber"]
LOSSES: tuple[str, ...] = get_args(LossName)


class Classifier(ClassifierMixin, BaseEstimator):
    """A linear classifier whose models are all private; the faces below say when they are made.

    The classes and the norm are parameters: read off the records they would leak. A record that
    cannot be used (not finite, an unknown label) keeps its slot and has no weight;
    `quarantined_` counts these, for the operator's eyes only.
    """

    budget: Budget
    classes: Any
    norm: float
    regularization: float | None
    loss: LossName
    learner: Learner[Task] | None
    features: FeatureMap | None
    not_private_seed: int | None

    releases_: list[Release]
    classes_: NDArray[Any]
    n_features_in_: int
    quarantined_: int

    def _trainer(self) -> Trainer[Task]:
        """What makes the models; bad parameters are refused before any record is looked at."""
        self.classes_ = as_classes("classes", self.classes)
        loss = _loss(self.loss, len(self.classes_))
        seed = self.not_private_seed
        learner = self._learner()
        pull = self.regularization
        if pull is None:
            pull = 0.0 if isinstance(learner, GradientPerturbation) else 0.01
        return Trainer(
            task=Task(loss=loss, norm=self.norm, regularization=pull),
            learner=learner,
            budget=self.budget,
            bits=SystemBits() if seed is None else NotPrivateBits(seed),
        )

    def _learner(self) -> Learner[Task]:
        if self.learner is not None:
            return self.learner
        return OutputPerturbation() if self.budget.unit == "epsilon" else GradientPerturbation()

    def _clean(self, X: Any, y: Any) -> Records:
        """The batch as records; the estimator does not change."""
        return clean(
            X,
            y,
            classes=self.classes_.tolist(),
            norm=self.norm,
            features=self.features,
            width=getattr(self, "_width", None),
        )

    def _count(self, records: Records) -> None:
        """Take note of records that were let in."""
        self._width = int(records.X.shape[1])
        self.n_features_in_ = self._width
        self.quarantined_ += int(records.n - records.usable.sum())

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The margins of each record, shape (n, K), or (n,) for two classes.

        Args:
            X: Records as in `fit`, shape (n, d).
        """
        return self._margins(X)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, shape (n, K), by the newest release.

        Args:
            X: Records as in `fit`, shape (n, d).
        """
        margins = self._margins(X)
        if margins.ndim == 1:
            margins = np.column_stack([np.zeros_like(margins), margins])
        shares = np.exp(margins - margins.max(axis=1, keepdims=True))
        probabilities: NDArray[np.float64] = shares / shares.sum(axis=1, keepdims=True)
        return probabilities

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each record, shape (n,), by the newest release.

        Args:
            X: Records as in `fit`, shape (n, d).
        """
        margins = self._margins(X)
        codes = (margins > 0).astype(np.intp) if margins.ndim == 1 else margins.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[codes]
        return labels

    def _margins(self, X: Any) -> NDArray[np.float64]:
        if not getattr(self, "releases_", None):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: no model is released "
                "before enough records have arrived; `tidegate plan` shows when"
            )
        rows = featurize(X, norm=self.norm, features=self.features, width=self._width)
        margins = np.asarray(rows @ self.releases_[-1].weights)
        if not np.isfinite(margins).all():
            raise InvalidValueError("X contains NaN, infinity or text: these cannot be predicted")
        return margins

    def __sklearn_is_fitted__(self) -> bool:
        return bool(getattr(self, "releases_", None))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def as_classes(name: str, classes: Any) -> NDArray[Any]:
    """Public labels as an array; their order is the order of what is released about them."""
    try:
        labels = np.asarray(list(classes))
    except TypeError:
        raise refuse(name, "a list of two or more different labels", classes) from None
    if labels.ndim != 1 or labels.size < 2 or len(set(labels.tolist())) != labels.size:
        raise refuse(name, "a list of two or more different labels", labels.tolist())
    return labels


def _loss(name: str, classes: int) -> Loss:
    if name not in LOSSES:
        raise refuse("loss", f"one of {', '.join(LOSSES)}", name)
    if name == "softmax" or (name == "auto" and classes > 2):
        return Softmax(classes)
    if classes > 2:
        raise refuse("loss", f"softmax for {classes} classes", name)
    return Huber() if name == "huber" else Logistic()
