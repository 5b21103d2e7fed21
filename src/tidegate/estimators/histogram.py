"""A private histogram at every step, and linear queries on it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidegate.checks import refuse
from tidegate.estimators.base_estimator import Begun
from tidegate.estimators.classifier import as_classes
from tidegate.estimators.summary import Summary
from tidegate.learn.intake import CategoryIntake
from tidegate.learn.learner import Pull
from tidegate.learn.mean import HistogramPerturbation


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateHistogram(Summary):
    """Releases the fraction of records in each category, at every step.

    A record in no category counts in none; `quarantined_` counts such records, for the operator
    only.

    Args:
        budget: The bound on the privacy loss of any one record, over all time; of any one person if
            contributions is set.
        schedule: Which records a release reads, and when.
        categories: All values that a record can have; public.
        regularization: Lambda, the weight of the squared distance to the prior histogram.
        allocation: How the budget is divided among levels: "paper", "tapered" or an Allocation.
        contributions: Protects persons instead of records: the budget is then about any one
            person, whose records together may cost this many times what one record may cost. By
            default records are protected.
        period: With `contributions`, protect what a person does within any `period` consecutive
            steps; by default for life.
        typical: With `contributions`, how many records of a fit a person is expected to have. It
            sizes descents, means and histograms, and enters no guarantee.
        not_private_seed: A seed makes the noise repeatable, so NOT PRIVATE: for studies and tests.

    Attributes:
        releases_: All releases so far, the newest last.
        histogram_: The newest of them, in the order of `categories`.
        ledger_: What each record has paid.
        certificate_: The most that any record can ever pay before shares are divided by it.
        quarantined_: How many records could not be used; for the operator only.

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
        trainer = self._trainer(task, HistogramPerturbation(categories.size))
        return self._begin(self.schedule, trainer, CategoryIntake(categories.tolist()))

    def _check_columns(self, X: Any, *, reset: bool) -> None:
        """Do nothing: the records have no columns."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
