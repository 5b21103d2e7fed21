"""The interface of feature maps, and the registry of those that configurations and cards can name.

One file holds everything about a map, and adds it to the registry by `register`.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import validate_data

from tidegate.data.numbers import as_numbers
from tidegate.data.rows import Rows, as_rows


class FeatureMap(Protocol):
    """A transformer that maps each record by itself and learns nothing from records."""

    def transform(self, X: Any) -> Any:
        """The features of each record, one row each."""


class NamedMap(FeatureMap, Protocol):
    """A map that can be built again from its description on a card.

    It is a dataclass whose fields are made by `tidegate.kinds.parameter`.

    Attributes:
        kind: Its name in configurations; empty if they cannot name it.
        about: What it is for, in a few words.
        takes_text: Whether a record is one text; otherwise it is a row of numbers or of columns.
        takes_columns: Whether a record is a row of named columns of any kind.
    """

    kind: ClassVar[str]
    about: ClassVar[str]
    takes_text: ClassVar[bool]
    takes_columns: ClassVar[bool]

    def __init__(self, **parameters: Any) -> None: ...


INT64, STRING, BOOL, DOUBLE = 7, 8, 9, 11
"""The numbers of ONNX types."""


class Graph(Protocol):
    """An ONNX graph under construction."""

    def constant(self, value: Any) -> str:
        """Add a constant; return its name."""

    def op(self, op: str, *operands: Any, **attributes: Any) -> str:
        """Add a call of an operator; return the name of its result.

        Args:
            op: The operator.
            operands: Names, and constants.
            attributes: Its attributes.
        """

    def reduced(self, op: str, rows: str) -> str:
        """Add a reduction of each row to one number; return the name of the column."""

    def with_gap(self, values: str, missing: str) -> str:
        """Add an indicator column to values, which are set to 0 where it is true."""

    def labels(self, texts: str, codes: Mapping[str, int], *, other: int) -> str:
        """Add a look-up of texts; return the name of their codes, int64."""

    def hashed(self, texts: str, buckets: int) -> str:
        """Add a hash of texts; return the name of their buckets, int64."""


@runtime_checkable
class InOnnx(Protocol):
    """A map that can be part of an ONNX graph."""

    def onnx(self, graph: Graph, rows: str) -> str:
        """Add the map to a graph; take the name of the rows, return that of the mapped rows."""


@runtime_checkable
class Pinned(Protocol):
    """A map that reads public files, which are frozen by their SHA-256.

    Attributes:
        files: The parameters that are paths of files.
        digest: The SHA-256 of each file, joined by +; None before they are pinned.
    """

    files: ClassVar[tuple[str, ...]]
    digest: str | None

    def pinned(self) -> Self:
        """The same map with the digests of its files; they are read only if it has none."""

    def described(self) -> dict[str, Any]:
        """Its parameters for a card: files by name and digest, without folders."""


Map = TypeVar("Map", bound=NamedMap)

MAPS: dict[str, type[NamedMap]] = {}
"""Every map that can be built from a card, by the name of its class."""


def register(feature_map: type[Map]) -> type[Map]:
    """Add a map to the registry."""
    MAPS[feature_map.__name__] = feature_map
    return feature_map


def first_map(features: Any) -> Any:
    """The map that reads records as they arrive: the first step of a pipeline, or the map."""
    return features.steps[0][1] if isinstance(features, Pipeline) else features


def configurable() -> dict[str, type[NamedMap]]:
    """The maps that a configuration can name, by their kind."""
    return {each.kind: each for each in MAPS.values() if each.kind}


class RecordMap(TransformerMixin, BaseEstimator):
    """A transformer that maps each record by itself, bit for bit, and learns nothing.

    The features of a record are the same in any batch, at any place in it, before and after
    `fit`. A record with an entry that is not finite becomes a row of NaN: an error would reveal it
    to others, and dropping it would shift the records after it.
    """

    takes_text: ClassVar[bool] = False
    takes_columns: ClassVar[bool] = False

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002 (scikit-learn passes y)
        """Store the number and names of the columns; ignore the values of records."""
        columns = self._rows(X, reset=True).shape[1]
        self._map(np.zeros((1, columns)))  # mapping a made-up record checks the parameters
        return self

    def transform(self, X: Any) -> Rows:
        """The features of each record, one row each; needs no `fit`."""
        return self._map(self._rows(X, reset=False))

    @abstractmethod
    def _map(self, rows: Rows) -> Rows:
        """Map rows, which may hold any finite or non-finite numbers."""

    def _rows(self, X: Any, *, reset: bool) -> Rows:
        rows = as_rows(as_numbers(X))
        if reset or hasattr(self, "n_features_in_"):  # without a fit there is nothing to compare
            validate_data(self, X, reset=reset, skip_check_array=True)
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags
