"""Describes feature maps on a card by kinds and parameters, and builds them from it."""

from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.pipeline import Pipeline, make_pipeline

from tidegate.checks import refuse
from tidegate.features.feature_map import MAPS, FeatureMap

Step = Mapping[str, Any]
"""A map on a card: its class name as "kind", and its parameters."""


def described_map(features: Any) -> list[Step]:
    """The steps of a feature map in their order, each with its kind and parameters.

    >>> from tidegate.features import AppendIntercept, NormClip
    >>> described_map(make_pipeline(AppendIntercept(0.5), NormClip()))
    [{'kind': 'AppendIntercept', 'value': 0.5}, {'kind': 'NormClip', 'norm': 1.0}]
    """
    if features is None:
        return []
    if isinstance(features, Pipeline):
        return [step for _, part in features.steps for step in described_map(part)]
    parameters = features.get_params(deep=False) if hasattr(features, "get_params") else {}
    return [{"kind": type(features).__name__, **parameters}]


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
    return MAPS[kind](**parameters)


def takes_text(steps: Sequence[Step]) -> bool:
    """Whether the records of a card are texts."""
    return any(step["kind"] in MAPS and MAPS[step["kind"]].takes_text for step in steps[:1])
