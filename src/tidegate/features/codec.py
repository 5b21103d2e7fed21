"""Feature maps in the words of a card: their kinds and parameters, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.pipeline import Pipeline, make_pipeline

from tidegate.checks import refuse
from tidegate.features.feature_map import MAPS, FeatureMap

Step = Mapping[str, Any]
"""A map on a card: its class as "kind", and its parameters."""


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
    """The feature map that a card describes, made of maps that are registered.

    >>> built_map([{"kind": "AppendIntercept", "value": 0.5}]).transform([[2.0]])
    array([[2. , 0.5]])
    """
    made: FeatureMap | None = make_pipeline(*map(built_step, steps)) if steps else None
    return made


def built_step(step: Step) -> FeatureMap:
    """One step of the feature map that a card describes."""
    given = {key: tuple(v) if isinstance(v, list) else v for key, v in step.items()}
    kind = given.pop("kind")
    if kind not in MAPS:
        raise refuse("features", f"given: the card only names the map {kind}", None)
    return MAPS[kind](**given)


def takes_text(steps: Sequence[Step]) -> bool:
    """Whether the records of a card are texts."""
    return any(step["kind"] in MAPS and MAPS[step["kind"]].takes_text for step in steps[:1])
