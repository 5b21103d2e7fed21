"""diffprivlib, retrained for each release: a practitioner's likely first choice."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn import linear_model

from tidegate import InvalidValueError
from tidegate.compare import LabelledStream, Linear
from tidegate.privacy import Budget
from tidegate_lab.methods.refit import split
from tidegate_lab.methods.times import Times

PULLS = (1e-3, 1e-2, 1e-1, 1.0)
"""Lambdas to choose from."""

MISSING = (
    "diffprivlib is not installed: in your clone of Tidegate, run pip install './lab[diffprivlib]'"
)


def installed() -> bool:
    """Whether diffprivlib is installed."""
    return find_spec("diffprivlib") is not None


def logistic_regression(**parameters: Any) -> Any:
    """The LogisticRegression of diffprivlib.

    Its release 0.6.6 needs two names and an argument that scikit-learn has removed. They have no
    effect on this model, and are restored for the duration of the call.
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
    """Trains each of T releases with diffprivlib on all records that count, for epsilon/T.

    It trains a model for each class against the rest and splits epsilon over these once more. Its
    promise is taken at face value: pure epsilon, even if its solver did not converge.

    Args:
        budget: The budget of every record; its delta is not used.
        times: When to release, and which records count.
        regularization: Lambda, as in this library: mean(loss) + lambda ||w||^2.
    """

    budget: Budget
    times: Times
    regularization: float = 1e-3
    name: str = "diffprivlib"

    private = True
    probabilities = False  # those of each class against the rest do not add up to 1

    def models(self, stream: LabelledStream, seed: int) -> Iterator[tuple[int, Linear]]:
        """Each release."""
        spans = self.times.spans(stream.n)
        epsilon = split(self.budget, len(spans)).epsilon
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
                warnings.simplefilter("ignore")  # about versions and iterations
                model.fit(records.X, records.y)
            yield span.stop, Linear(_columns(model, stream.classes))


def _columns(model: Any, classes: int) -> NDArray[np.float64]:
    """A column of weights for each class, of zeros for a class that did not occur."""
    columns = model.coef_.T
    weights = np.zeros((len(columns), classes))
    weights[:, model.classes_] = columns if columns.shape[1] > 1 else columns * [-1, 1]
    return weights
