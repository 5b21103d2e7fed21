"""What a feature map is."""

from typing import Any, Protocol


class FeatureMap(Protocol):
    """A transformer that maps each record by itself and has learnt nothing from records."""

    def transform(self, X: Any) -> Any:
        """The features of each record, one row each."""
