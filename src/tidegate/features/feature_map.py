"""What a feature map is, and all that configurations and cards can name.

What is known about a map stands in its own file, which adds it to the others by `register`.
"""

from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable


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
