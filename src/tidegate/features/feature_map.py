"""What a feature map is, and all that configurations and cards can name.

What is known about a map stands in its own file, which adds it to the others by `register`.
"""

from abc import abstractmethod
from typing import Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import validate_data

from tidegate.features.numbers import as_numbers
from tidegate.features.rows import Rows, as_rows


class FeatureMap(Protocol):
    """A transformer that maps each record by itself and has learnt nothing from records."""

    def transform(self, X: Any) -> Any:
        """The features of each record, one row each."""


class NamedMap(FeatureMap, Protocol):
    """A map that a card describes so well that it can be built again.

    It is a dataclass whose fields are made by `tidegate.kinds.parameter`.

    Attributes:
        kind: Its name in configurations; empty if they cannot name it.
        about: What it is for, in a few words.
        takes_text: Whether a record is one text; otherwise it is a row of numbers.
    """

    kind: ClassVar[str]
    about: ClassVar[str]
    takes_text: ClassVar[bool]

    def __init__(self, **parameters: Any) -> None: ...


class Graph(Protocol):
    """An ONNX graph that is being written."""

    def constant(self, value: Any) -> str:
        """The name of a constant."""

    def add(self, call: str) -> str:
        """The name of what a call returns."""


@runtime_checkable
class InOnnx(Protocol):
    """A map that can be part of an ONNX graph."""

    def onnx(self, graph: Graph, rows: str) -> str:
        """The name of the mapped rows, given the name of the rows."""


Map = TypeVar("Map", bound=NamedMap)

MAPS: dict[str, type[NamedMap]] = {}
"""Every map that a card can be read back into, by the name of its class."""


def register(feature_map: type[Map]) -> type[Map]:
    """Add a map to those that there are."""
    MAPS[feature_map.__name__] = feature_map
    return feature_map


def configurable() -> dict[str, type[NamedMap]]:
    """The maps that a configuration can name, by their kind."""
    return {each.kind: each for each in MAPS.values() if each.kind}


class RecordMap(TransformerMixin, BaseEstimator):
    """A transformer that maps each record by itself, bit for bit, and learns nothing.

    The features of a record are the same in any batch, at any place in it, before and after
    `fit`. A record with an entry that is not finite becomes a row of not-a-numbers: raising would
    tell others about it, dropping it would shift its neighbours.
    """

    takes_text: ClassVar[bool] = False

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002 (scikit-learn passes y)
        """Note the number of columns and their names; what the records hold is ignored."""
        columns = self._rows(X, reset=True).shape[1]
        self._map(np.zeros((1, columns)))  # mapping a made-up record checks the parameters
        return self

    def transform(self, X: Any) -> Rows:
        """The features of each record, one row each; needs no `fit`."""
        return self._map(self._rows(X, reset=False))

    @abstractmethod
    def _map(self, rows: Rows) -> Rows:
        """Map rows that may be of any finite or non-finite numbers."""

    def _rows(self, X: Any, *, reset: bool) -> Rows:
        rows = as_rows(as_numbers(X))
        validate_data(self, X, reset=reset, skip_check_array=True)
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags
