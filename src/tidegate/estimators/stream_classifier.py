"""What the classifiers of one stream share: a release at every step."""

from abc import abstractmethod
from typing import Any, Self

from tidegate.estimators.classifier import Classifier
from tidegate.schedule import Schedule


class StreamClassifier(Classifier):
    """A classifier of one stream; subclasses choose the schedule."""

    @abstractmethod
    def _schedule(self) -> Schedule:
        """Which records a release reads, and when."""

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, then take X and y in as the start of a stream.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; what `features` takes, if given.
            y: A label for each, shape (n,).
        """
        return self._take(self._begin_with(self._schedule()), X, y)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Take in any number of records; each step they complete makes its releases.

        How the stream is cut into batches makes no difference. The first batch fixes the form of
        the stored records: float32 or float64, dense or sparse. A batch that is refused changes
        nothing; one whose fit is interrupted is in, and the next one completes its step.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; what `features` takes, if given.
            y: A label for each, shape (n,).
            classes: Not read: the classes are a parameter, known before the first record.
        """
        del classes
        if hasattr(self, "_begun"):
            return self._take(self._begun, X, y)
        return self.fit(X, y)
