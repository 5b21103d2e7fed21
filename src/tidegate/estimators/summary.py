"""The base class of means and histograms."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

from tidegate.estimators.base_estimator import Begun, StreamEstimator
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
