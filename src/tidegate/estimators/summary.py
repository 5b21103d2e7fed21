"""A private mean and a private histogram at every step, and linear queries on the latter."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidegate.checks import refuse
from tidegate.data.intake import CategoryIntake, Intake
from tidegate.estimators.base_estimator import Begun, Learning, StreamEstimator
from tidegate.estimators.documented import documented
from tidegate.estimators.linear import as_classes
from tidegate.learn.learner import Pull
from tidegate.learn.mean import HistogramPerturbation, MeanPerturbation
from tidegate.privacy import Allocation, Budget
from tidegate.schedule import Schedule


@dataclass(kw_only=True, eq=False, repr=False)
class Summary(StreamEstimator):
    """A mean or a histogram of a stream; subclasses define how the stream begins.

    Args:
        schedule: Which records a release reads, and when.
        regularization: Lambda, the weight of the squared distance to the prior release.

    Attributes:
        ledger_: What each record has paid.
        certificate_: The plan's worst-case charge before shares are divided by it.
    """

    budget: Budget
    schedule: Schedule
    regularization: float = 1.0
    allocation: str | Allocation = "paper"
    contributions: int | None = None
    period: int | None = None
    typical: Any = 1
    not_private_seed: int | None = None

    @abstractmethod
    def _new(self) -> Begun:
        """Make a new stream; refuse bad parameters before any record is read."""

    def fit(self, X: Any, y: Any = None, *, persons: Any = None) -> Self:
        """Start a new stream with X, and forget any earlier one.

        Args:
            X: Records, as in `partial_fit`.
            y: Ignored.
            persons: The id of each record's person, text or whole numbers, shape (n,); needed if
                `contributions` is set.
        """
        return self._take(self._new(), X, y, persons=persons)

    def partial_fit(self, X: Any, y: Any = None, *, persons: Any = None) -> Self:
        """Take in any number of records; each step they complete makes its releases.

        The split into batches makes no difference. A refused batch changes nothing. If a fit is
        interrupted, its batch has been taken in, and the next batch completes the step.

        Args:
            X: Vectors, shape (n, d), for a mean; values, shape (n,), for a histogram.
            y: Ignored.
            persons: The id of each record's person, text or whole numbers, shape (n,); needed if
                `contributions` is set.
        """
        begun = self._begun if hasattr(self, "_begun") else self._new()
        return self._take(begun, X, y, persons=persons)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateMean(Summary):
    """Releases the mean of the records that a schedule reads, at every step.

    A record that is not finite counts as the origin; `quarantined_` counts such records, for the
    operator only.

    Args:
        norm: The largest norm of a record; longer records are clipped to it. Public.

    Attributes:
        mean_: The newest release.

    >>> from tidegate import ApproxDP
    >>> from tidegate.schedule import SlidingWindow
    >>> mean = PrivateMean(
    ...     budget=ApproxDP(1.0, 1e-6), schedule=SlidingWindow(window=7000, step=1000), norm=1.0,
    ...     not_private_seed=7)
    >>> mean.partial_fit(np.full((8000, 2), 0.5)).mean_.round(1)
    array([0.5, 0.5])
    """

    norm: float

    @property
    def mean_(self) -> NDArray[np.float64]:
        """The newest release."""
        return self._newest()

    def _new(self) -> Begun:
        task = Pull(norm=self.norm, regularization=self.regularization)
        learning = Learning(task, MeanPerturbation(), Intake(norm=task.norm))
        return self._begin(self.schedule, learning)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


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
