"""The weights of a release in the units of its features, and the names of the features.

A release keeps its weights as they were trained: for features that a transform has centred and
scaled, and with a constant column. Here the transform is undone, which is post-processing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from tidegate.data.columns import Number, TableColumns
from tidegate.data.columns.column import Column
from tidegate.data.feature_map import FeatureMap
from tidegate.data.maps.clip import NormClip
from tidegate.data.maps.intercept import AppendIntercept
from tidegate.learn.transform import Prepared

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Coefficients:
    """A linear model of its features: margins are features @ weights.T + intercepts.

    That is exact except for rounding, and for rows that are clipped.

    Attributes:
        names: The name of each feature.
        weights: Shape (K, d), or (1, d) for one margin: per unit of each feature.
        scaled: The same per unit of each feature as the model scales it, so that features of
            different units can be compared.
        intercepts: Shape (K,), or (1,).
        units: How much of its column one unit of a feature is; None for a feature that is not
            proportional to a number of the record.
    """

    names: tuple[str, ...]
    weights: Floats
    scaled: Floats
    intercepts: Floats
    units: tuple[float | None, ...]

    @classmethod
    def of(
        cls,
        weights: Floats,
        prepared: Prepared,
        features: FeatureMap | None,
        columns: Sequence[str] | None,
    ) -> Self:
        """The coefficients of a model, as `LinearModel` describes it.

        A constant that a feature map appends last belongs to the intercepts, not to the weights.
        """
        scaled, (raw, intercepts) = prepared.scaled(weights), prepared.undone(weights)
        names, maps = _names(features, columns, len(raw)), _maps(features)
        while maps and isinstance(maps[-1], AppendIntercept):
            intercepts = intercepts + raw[-1] * maps[-1].value
            scaled, raw, maps = scaled[:-1], raw[:-1], maps[:-1]
        return cls(
            names=names[: len(raw)],
            weights=raw.T.copy(),
            scaled=scaled.T.copy(),
            intercepts=intercepts,
            units=_units(maps, len(raw)),
        )

    @property
    def order(self) -> list[int]:
        """The features by the size of their scaled weights, the largest first."""
        sizes = np.abs(self.scaled).max(axis=0)
        return [int(index) for index in np.argsort(-sizes, kind="stable")]


def _maps(features: Any) -> list[Any]:
    """The maps that records go through, in their order."""
    features = getattr(features, "given", features)  # of a ComposedMap
    if isinstance(features, Pipeline):
        return [each for _, part in features.steps for each in _maps(part)]
    return [] if features is None or features == "passthrough" else [features]


def _names(features: Any, columns: Sequence[str] | None, width: int) -> tuple[str, ...]:
    """The names of features: as the maps name them, else numbered."""
    names: Any = columns
    parts = [part for _, part in features.steps] if isinstance(features, Pipeline) else [features]
    try:
        for part in parts if features is not None else ():
            names = _names_after(part, names)
    except (AttributeError, TypeError, ValueError):  # a map without names
        names = None
    if names is None or len(names) != width:
        return tuple(f"feature {index}" for index in range(width))
    named = tuple(map(str, names))
    times = Counter(named)  # a column "a missing" beside the gaps of a column "a"
    return tuple(
        each if times[each] == 1 else f"{each} (feature {index})"
        for index, each in enumerate(named)
    )


def _names_after(part: Any, names: Any) -> Any:
    """The names of what a map makes of features with these names."""
    if isinstance(part, AppendIntercept):  # it names nothing before its `fit`, which it never needs
        return None if names is None else [*names, "intercept"]
    return names if isinstance(part, NormClip) else part.get_feature_names_out(names)


def _units(maps: Sequence[Any], width: int) -> tuple[float | None, ...]:
    if all(isinstance(each, NormClip) for each in maps):
        return (1.0,) * width
    if len(maps) == 1 and isinstance(maps[0], TableColumns):
        return tuple(unit for each in maps[0].checked for unit in _units_of(each))
    return (None,) * width


def _units_of(column: Column) -> list[float | None]:
    units: list[float | None] = [None] * column.width
    if isinstance(column, Number) and not column.log:
        units[0] = (column.high - column.low) / 2
    return units
