"""A private histogram at every step, and linear queries on it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidegate.checks import refuse
from tidegate.data.intake import CategoryIntake
from tidegate.estimators.base_estimator import Begun, Learning
from tidegate.estimators.classifier import as_classes
from tidegate.estimators.documented import documented
from tidegate.estimators.summary import Summary
from tidegate.learn.learner import Pull
from tidegate.learn.mean import HistogramPerturbation


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateHistogram(Summary):
    """Releases the fraction of records in each category, at every step.

    A record in no category counts in none; `quarantined_` counts such records, for the operator
    only.

    Args:
        categories: All values that a record can have; public.

    Attributes:
        histogram_: The newest release, in the order of `categories`.

    >>> from tidegate import PureDP
    >>> from tidegate.schedule import Continual
    >>> histogram = PrivateHistogram(
    ...     budget=PureDP(1.0), schedule=Continual(block=2000, step=1000),
    ...     categories=["mild", "severe"], not_private_seed=7)
    >>> histogram = histogram.partial_fit(["mild", "mild", "mild", "severe"] * 1000)
    >>> histogram.histogram_.round(2), round(histogram.query([0, 1]), 2)
    (array([0.75, 0.25]), 0.25)
    """

    categories: Any

    @property
    def histogram_(self) -> NDArray[np.float64]:
        """The newest release."""
        return self._newest()

    def query(self, weights: ArrayLike) -> float:
        """Answer a linear query, the weighted sum of the fractions, at no privacy cost.

        Args:
            weights: A number for each category, shape (K,).
        """
        query = np.asarray(weights)
        if query.dtype.kind not in "biuf" or query.shape != self.histogram_.shape:
            shown = f"an array of {query.dtype}, shape {query.shape}"
            raise refuse("weights", f"{self.histogram_.size} numbers", shown=shown)
        if not np.isfinite(query).all():
            raise refuse("weights", "finite", weights)
        return float(query @ self.histogram_)

    def _new(self) -> Begun:
        categories = as_classes("categories", self.categories)
        task = Pull(norm=1.0, regularization=self.regularization)
        learner, intake = (
            HistogramPerturbation(categories.size),
            CategoryIntake(categories.tolist()),
        )
        return self._begin(self.schedule, Learning(task, learner, intake))

    def _check_columns(self, X: Any, *, reset: bool) -> None:
        """Do nothing: the records have no columns."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
