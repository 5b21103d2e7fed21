"""Releases as they are kept: each bound by a hash to its card, its weights and all before it."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidegate.features.codec import built_map
from tidegate.features.feature_map import FeatureMap
from tidegate.release.card import Card, canonical
from tidegate.release.model import Model

FIRST = "0" * 64
"""What stands for the hash of the release before the first."""


def release_hash(card: Card, weights: NDArray[np.float64], previous: str = FIRST) -> str:
    """What binds a card, its weights and all releases before: SHA-256 over the three in turn.

    The card as canonical JSON in UTF-8, the weights as little-endian float64 in rows, the hash
    before as 64 characters. The card has the weights' shape, so no two releases share a text.

    >>> release_hash({"shape": [1]}, np.array([0.5]))[:16]
    'b2538fe9688fd2df'
    """
    digest = hashlib.sha256(canonical(card).encode())
    digest.update(np.ascontiguousarray(weights, "<f8").tobytes())
    digest.update(previous.encode())
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredRelease:
    """A release as it is kept and handed out: nothing else is needed to predict with it.

    Attributes:
        card: What it is.
        weights: The model; shape (d, K), or (d,) for two classes.
        previous: The hash of the release before, `FIRST` if there is none.
        hash: What `release_hash` says of the three.
    """

    card: Card
    weights: NDArray[np.float64]
    previous: str
    hash: str

    @property
    def number(self) -> int:
        """Its place among the releases."""
        return int(self.card["release"])

    @property
    def intact(self) -> bool:
        """Whether the hash is that of what is here."""
        shape = list(self.weights.shape)
        same = self.hash == release_hash(self.card, self.weights, self.previous)
        return same and self.card.get("shape") == shape

    def model(self, features: FeatureMap | None = None) -> Model:
        """What predicts.

        Args:
            features: The feature map, where the card only names it.
        """
        card = self.card
        return Model(
            weights=self.weights,
            classes=np.asarray(card["classes"]),
            norm=card["norm"],
            features=built_map(card["features"]) if features is None else features,
        )


def seal(card: Card, weights: NDArray[np.float64], previous: str = FIRST) -> StoredRelease:
    """A release with its place in the chain."""
    return StoredRelease(
        card=card, weights=weights, previous=previous, hash=release_hash(card, weights, previous)
    )
