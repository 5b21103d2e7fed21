"""Feature maps: their interface, the registry of those that have a name, and how cards name them.

One file in `data/maps` holds everything about a map, and adds it to the registry by `register`.
Maps are transformers of scikit-learn, whose import takes most of a second, so they are imported
when the first is asked for.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from tidegate.checks import Later, refuse
from tidegate.data.rows import Rows, as_rows
from tidegate.data.values import NEWEST, as_numbers, as_texts

if TYPE_CHECKING:
    import sklearn
    from sklearn import pipeline

    from tidegate.data import maps
    from tidegate.data.maps import composed
else:
    composed = Later("tidegate.data.maps.composed")
    maps = Later("tidegate.data.maps")
    pipeline = Later("sklearn.pipeline")
    sklearn = Later("sklearn")


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


COLUMNS = "Columns"
"""What cards call the map of named columns of any kind."""

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


def clipped_in_onnx(graph: Graph, rows: str, norm: float) -> str:
    """Add what `clip_rows` computes; a row is divided by its peak first: no square overflows."""
    one = graph.constant(1.0)
    highest = graph.reduced("ReduceMax", graph.op("Abs", rows))
    peak = graph.op("Max", highest, one)
    length = graph.reduced("ReduceL2", graph.op("Div", rows, peak))
    within = graph.op("Div", norm, peak)
    return graph.op("Mul", rows, graph.op("Min", graph.op("Div", within, length), one))


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


def known() -> Mapping[str, type[NamedMap]]:
    """Every map that can be built from a card, by the name of its class."""
    found: Mapping[str, type[NamedMap]] = maps.MAPS  # all files in `data/maps` are imported by now
    return found


def configurable() -> dict[str, type[NamedMap]]:
    """The maps that a configuration can name, by their kind."""
    return {each.kind: each for each in known().values() if each.kind}


@dataclass(frozen=True, kw_only=True)
class FeatureChain:
    """Applies feature maps in order, then converts to the dtype of stored records.

    Attributes:
        maps: The maps, in order.
        dtype: The dtype of stored features.
        spelling: The rule by which texts and flags are read, see `tidegate.data.values`.

    >>> from tidegate.features import AppendIntercept
    >>> FeatureChain(maps=(AppendIntercept(0.5),), dtype="float32").transform([[2, "x"], [1, 0]])
    array([[nan, nan, nan],
           [1. , 0. , 0.5]], dtype=float32)
    """

    maps: tuple[NamedMap, ...]
    dtype: str
    spelling: int = NEWEST

    def transform(self, X: Any) -> Rows:
        """The features of each record, one row each."""
        if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype == object:
            X = X.tolist()  # records that arrived as a list
        first = self.maps[:1]
        if any(each.takes_text for each in first):
            rows = as_texts(X, self.spelling)
        else:
            rows = X if any(each.takes_columns for each in first) else as_numbers(X, self.spelling)
        for each in self.maps:
            with arrays_from(each):
                rows = each.transform(rows)
        with np.errstate(over="ignore"):  # an infinite record is unusable
            kept: Rows = as_rows(rows).astype(self.dtype, copy=False)
        return kept


Step = Mapping[str, Any]
"""A map on a card: its class name as "kind", and its parameters."""


def arrays_from(feature_map: FeatureMap) -> AbstractContextManager[None]:
    """Have a transformer of scikit-learn return arrays, whatever `sklearn.set_config` says."""
    if not hasattr(feature_map, "set_output"):
        return nullcontext()
    context: AbstractContextManager[None] = sklearn.config_context(transform_output="default")
    return context


def record_map(features: Any) -> FeatureMap | None:
    """The feature map that maps each record by itself as the given object does."""
    return features if isinstance(features, FeatureChain | None) else composed.record_map(features)


def described_map(features: Any) -> list[Step]:
    """The steps of a feature map in their order, each with its kind and parameters.

    >>> from tidegate.features import AppendIntercept, NormClip
    >>> described_map(FeatureChain(maps=(AppendIntercept(0.5), NormClip()), dtype="float32"))
    [{'kind': 'AppendIntercept', 'value': 0.5}, {'kind': 'NormClip', 'norm': 1.0}]
    """
    if features is None or isinstance(features, list):  # none, or described already
        return features or []
    if isinstance(features, FeatureChain):
        return [step for each in features.maps for step in described_map(each)]
    if hasattr(features, "described"):
        return [features.described()]
    return composed.described(features)


def built_map(steps: Sequence[Step]) -> FeatureMap | None:
    """Build the feature map that a card describes, from registered maps.

    >>> built_map([{"kind": "AppendIntercept", "value": 0.5}]).transform([[2.0]])
    array([[2. , 0.5]])
    """
    built: FeatureMap | None = pipeline.make_pipeline(*map(built_step, steps)) if steps else None
    return built


def built_step(step: Step) -> FeatureMap:
    """Build one step of the feature map that a card describes."""
    parameters = {key: tuple(v) if isinstance(v, list) else v for key, v in step.items()}
    kind: Any = parameters.pop("kind")
    if kind not in known():
        raise refuse("features", f"passed: {kind} cannot be built from the card", None)
    earlier = {"spelling": 1} if kind == COLUMNS else {}  # which cards left out
    return known()[kind](**{**earlier, **parameters})


def takes_text(steps: Sequence[Step]) -> bool:
    """Whether the records of a card are texts."""
    return any(step["kind"] in known() and known()[step["kind"]].takes_text for step in steps[:1])
