"""Stored releases, each with a hash over its card, its weights and the hash before it."""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import Later, refuse
from tidegate.data.feature_map import FeatureMap, built_map, takes_text
from tidegate.data.predicted import Predicted, Target, predicted_on_card
from tidegate.data.values import a_rule
from tidegate.learn.transform import Prepared, Transform, prepared_on_card
from tidegate.release.card import Card, canonical

if TYPE_CHECKING:
    from tidegate.release import model as models
    from tidegate.release.model import Model, RegressionModel
else:
    models = Later("tidegate.release.model")

FIRST = "0" * 64
"""The previous hash of the first release, which has none before it."""


def release_hash(card: Card, weights: NDArray[np.float64], previous: str = FIRST) -> str:
    """The SHA-256 of a card, its weights and the hash of the release before, in this order.

    The card is canonical JSON in UTF-8, the weights are little-endian float64 row by row, and the
    previous hash is 64 characters. The card contains the shape of the weights, so two different
    releases never hash the same bytes.

    >>> release_hash({"shape": [1]}, np.array([0.5]))[:16]
    'b2538fe9688fd2df'
    """
    digest = hashlib.sha256(canonical(card).encode())
    digest.update(np.ascontiguousarray(weights, "<f8").tobytes())
    digest.update(previous.encode())
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredRelease:
    """A release as it is stored and published.

    Attributes:
        card: Its card.
        weights: The model; shape (d, K), or (d,) for two classes.
        previous: The hash of the release before, `FIRST` if there is none.
        hash: The `release_hash` of these three.
    """

    card: Card
    weights: NDArray[np.float64]
    previous: str
    hash: str

    @property
    def number(self) -> int:
        """Its place among the releases, counted from 0."""
        return int(self.card["release"])

    @property
    def text(self) -> str:
        """Everything in the release except its weights, as JSON."""
        return canonical({"card": self.card, "previous": self.previous, "hash": self.hash})

    @property
    def intact(self) -> bool:
        """Whether the hash and the shape match the card and the weights."""
        shape = list(self.weights.shape)
        same = self.hash == release_hash(self.card, self.weights, self.previous)
        return same and self.card.get("shape") == shape

    @property
    def prepared(self) -> Prepared:
        """What the release does to clipped rows."""
        return prepared_on_card(self.card)

    @property
    def transform(self) -> Transform | None:
        """How the release centres and scales features; None if it does not."""
        return self.prepared.stated

    @property
    def predicted(self) -> Predicted:
        """What the release predicts."""
        return predicted_on_card(self.card)

    @property
    def target(self) -> Target | None:
        """The range of what the release predicts; None if it predicts classes."""
        return Target.of_card(self.card)

    def model(self, features: FeatureMap | None = None) -> "Model | RegressionModel":
        """The model of the release: a `Model`, or a `RegressionModel` if it predicts a target.

        Args:
            features: The feature map, needed only if the card does not describe it in full.
        """
        card, target = self.card, self.target
        common: dict[str, Any] = {
            "weights": self.weights,
            "norm": card["norm"],
            "transform": self.transform,
            "features": built_map(card["features"]) if features is None else features,
            "columns": named_columns(card),
            "card": card,
            "spelling": a_rule("spelling", card.get("spelling", 1)),
        }
        if target is not None:
            return models.RegressionModel(target=target, **common)
        return models.Model(classes=np.asarray(card["classes"]), **common)

    def classifier(self, features: FeatureMap | None = None) -> "Model":
        """The model of a release that predicts classes; refuse one that predicts a target.

        Args:
            features: The feature map, needed only if the card does not describe it in full.
        """
        model = self.model(features)
        if not isinstance(model, models.Model):
            raise refuse("the release", "one that predicts classes", shown="one with a target")
        return model


def named_columns(card: Card) -> list[str] | None:
    """The names of the columns that a release takes; None if records are texts or have no names."""
    return None if takes_text(card["features"]) else card.get("columns")


def seal(card: Card, weights: NDArray[np.float64], previous: str = FIRST) -> StoredRelease:
    """Make the stored release that follows the one with the hash `previous`."""
    return StoredRelease(
        card=card, weights=weights, previous=previous, hash=release_hash(card, weights, previous)
    )
