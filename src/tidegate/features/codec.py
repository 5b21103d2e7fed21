"""Feature maps in the words of a card: their kinds and parameters, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.pipeline import Pipeline, make_pipeline

from tidegate import features as maps
from tidegate.checks import refuse
from tidegate.features.feature_map import FeatureMap

MAPS = (
    "AppendIntercept",
    "HashedText",
    "NormClip",
    "RandomFourier",
    "RandomProjection",
    "Scattering",
)


def described_map(features: Any) -> list[dict[str, Any]]:
    """The steps of a feature map in their order, each with its kind and parameters.

    >>> described_map(make_pipeline(maps.AppendIntercept(0.5), maps.NormClip()))
    [{'kind': 'AppendIntercept', 'value': 0.5}, {'kind': 'NormClip', 'norm': 1.0}]
    """
    if features is None:
        return []
    if isinstance(features, Pipeline):
        return [step for _, part in features.steps for step in described_map(part)]
    known = features.get_params(deep=False) if hasattr(features, "get_params") else {}
    return [{"kind": type(features).__name__, **known}]


def built_map(steps: Sequence[Mapping[str, Any]]) -> FeatureMap | None:
    """The feature map that a card describes, made of the maps of `tidegate.features`.

    >>> built_map([{"kind": "AppendIntercept", "value": 0.5}]).transform([[2.0]])
    array([[2. , 0.5]])
    """
    if not steps:
        return None
    parts = []
    for step in steps:
        known = {key: tuple(v) if isinstance(v, list) else v for key, v in step.items()}
        kind = known.pop("kind")
        if kind not in MAPS:
            raise refuse("features", f"given: the card only names the map {kind}", None)
        parts.append(getattr(maps, kind)(**known))
    made: FeatureMap = make_pipeline(*parts)
    return made
