"""What the summaries share: a released vector at every step of one stream."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

from tidegate.estimators.base_estimator import Begun, StreamEstimator
from tidegate.privacy import Allocation, Budget
from tidegate.schedule import Schedule


@dataclass(kw_only=True, eq=False, repr=False)
class Summary(StreamEstimator):
    """A mean or a histogram; subclasses say how a stream begins."""

    budget: Budget
    schedule: Schedule
    regularization: float = 1.0
    allocation: str | Allocation = "paper"
    not_private_seed: int | None = None

    @abstractmethod
    def _new(self) -> Begun:
        """A new stream; bad parameters are refused before any record is looked at."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Forget everything, then take X in as the start of a stream.

        Args:
            X: Records, as in `partial_fit`.
            y: Not read.
        """
        return self._take(self._new(), X, y)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Take in any number of records; each step they complete makes its releases.

        How the stream is cut into batches makes no difference. A batch that is refused changes
        nothing; one whose fit is interrupted is in, and the next one completes its step.

        Args:
            X: Vectors, shape (n, d), for a mean; values, shape (n,), for a histogram.
            y: Not read.
        """
        return self._take(self._begun if hasattr(self, "_begun") else self._new(), X, y)
