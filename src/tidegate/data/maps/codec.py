"""Describes feature maps on a card by kinds and parameters, and builds them from it."""

from collections.abc import Mapping, Sequence
from inspect import signature
from math import isfinite
from typing import Any

from sklearn.pipeline import Pipeline, make_pipeline

from tidegate.checks import refuse
from tidegate.data.columns import Columns
from tidegate.data.maps.composed import family
from tidegate.data.maps.feature_map import MAPS, FeatureMap

Step = Mapping[str, Any]
"""A map on a card: its class name as "kind", and its parameters."""


def described_map(features: Any) -> list[Step]:
    """The steps of a feature map in their order, each with its kind and parameters.

    >>> from tidegate.features import AppendIntercept, NormClip
    >>> described_map(make_pipeline(AppendIntercept(0.5), NormClip()))
    [{'kind': 'AppendIntercept', 'value': 0.5}, {'kind': 'NormClip', 'norm': 1.0}]
    """
    features = getattr(features, "given", features)  # of a ComposedMap
    if features is None or isinstance(features, list):  # none, or described already
        return features or []
    if isinstance(features, Pipeline):
        return [step for _, part in features.steps for step in described_map(part)]
    if hasattr(features, "described"):
        return [features.described()]
    parameters = features.get_params(deep=False) if hasattr(features, "get_params") else {}
    names = [*parameters] if family(features) is None else _changed(features, parameters)
    return [{"kind": type(features).__name__, **{name: _plain(parameters[name]) for name in names}}]


def _changed(features: Any, parameters: Mapping[str, Any]) -> list[str]:
    """The parameters of a transformer of scikit-learn's that are not as by default."""
    defaults = signature(type(features).__init__).parameters
    return [name for name, value in parameters.items() if value is not defaults[name].default]


def _plain(value: Any) -> Any:
    """A parameter as a card can hold it: maps are described, functions and classes are named."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if hasattr(value, "transform"):
        return described_map(value)
    if isinstance(value, str | int | None) or (isinstance(value, float) and isfinite(value)):
        return value
    return getattr(value, "__name__", str(value))


def built_map(steps: Sequence[Step]) -> FeatureMap | None:
    """Build the feature map that a card describes, from registered maps.

    >>> built_map([{"kind": "AppendIntercept", "value": 0.5}]).transform([[2.0]])
    array([[2. , 0.5]])
    """
    pipeline: FeatureMap | None = make_pipeline(*map(built_step, steps)) if steps else None
    return pipeline


def built_step(step: Step) -> FeatureMap:
    """Build one step of the feature map that a card describes."""
    parameters = {key: tuple(v) if isinstance(v, list) else v for key, v in step.items()}
    kind = parameters.pop("kind")
    if kind not in MAPS:
        raise refuse("features", f"passed: {kind} cannot be built from the card", None)
    earlier = {"spelling": 1} if MAPS[kind] is Columns else {}  # which cards left out
    return MAPS[kind](**{**earlier, **parameters})


def columns_in(steps: Sequence[Step]) -> Columns | None:
    """The map of named columns of any kind that a card describes; None if it has none."""
    first = built_step(steps[0]) if steps and steps[0]["kind"] == Columns.__name__ else None
    return first if isinstance(first, Columns) else None


def takes_text(steps: Sequence[Step]) -> bool:
    """Whether the records of a card are texts."""
    return any(step["kind"] in MAPS and MAPS[step["kind"]].takes_text for step in steps[:1])
