"""diffprivlib, retrained for each release: what a practitioner finds first."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn import linear_model

from tidegate.checks import InvalidValueError
from tidegate.learn.learner import Weights
from tidegate.privacy.budget import Budget
from tidegate.privacy.rounding import down
from tidegate.study.baselines.refit import Times
from tidegate.study.study_stream import StudyStream

PULLS = (1e-3, 1e-2, 1e-1, 1.0)
"""Lambdas to choose from."""

MISSING = "diffprivlib is missing: pip install 'tidegate[bench]'"


def installed() -> bool:
    """Whether there is a diffprivlib to compare with."""
    return find_spec("diffprivlib") is not None


def logistic_regression(**parameters: Any) -> Any:
    """The LogisticRegression of diffprivlib.

    Its release 0.6.6 asks scikit-learn for two names and an argument that are there no more; they
    mean nothing to this model, and are put back for the time it takes.
    """
    tree = import_module("sklearn.tree._tree")
    plain = linear_model.LogisticRegression.__init__

    def forgiving(self: Any, *, multi_class: str, **kept: Any) -> None:
        del multi_class
        plain(self, **kept)

    with (
        patch.object(tree, "DOUBLE", np.float64, create=True),
        patch.object(tree, "DTYPE", np.float32, create=True),
        patch.object(linear_model.LogisticRegression, "__init__", forgiving),
    ):
        try:
            models = import_module("diffprivlib.models")
        except ImportError as error:
            raise InvalidValueError(f"{MISSING} ({error})") from None
        return models.LogisticRegression(**parameters)


@dataclass(frozen=True, kw_only=True)
class Diffprivlib:
    """Each of T releases learns all records that count with diffprivlib, for epsilon/T.

    It trains a model for each class against the rest and splits epsilon over these once more.
    What it promises is taken as it stands: pure epsilon, however far its solver got.

    Args:
        budget: What any record may lose; its delta is not used.
        times: When, and of which records.
        regularization: Lambda, as in this library: mean(loss) + lambda ||w||^2.
    """

    budget: Budget
    times: Times
    regularization: float = 1e-3
    name: str = "diffprivlib"

    private = True

    def models(self, stream: StudyStream, seed: int) -> Iterator[tuple[int, Weights]]:
        """Each release."""
        spans = self.times.spans(stream.n)
        epsilon = down(Fraction(self.budget.epsilon) / len(spans))
        random = np.random.RandomState(seed)
        for span in spans:
            records = stream.between(*span)
            model = logistic_regression(
                epsilon=epsilon,
                data_norm=stream.norm,
                C=1 / (2 * self.regularization * records.n),
                fit_intercept=False,
                random_state=random,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it has much to say about versions and iterations
                model.fit(records.X, records.y)
            yield span.stop, _columns(model, stream.classes)


def _columns(model: Any, classes: int) -> Weights:
    """A column of weights for each class; one that did not occur is never predicted."""
    columns = model.coef_.T
    weights = np.zeros((len(columns), classes))
    weights[:, model.classes_] = columns if columns.shape[1] > 1 else columns * [-1, 1]
    return weights
