"""Releases: published models, each with a card that says what it is and what it cost."""

from tidegate.release.card import (
    FIRST,
    About,
    Card,
    Release,
    StoredRelease,
    canonical,
    described,
    make_card,
    release_hash,
    seal,
)
from tidegate.release.markdown import to_markdown
from tidegate.release.model import LinearModel, Model, RegressionModel

__all__ = [
    "FIRST",
    "About",
    "Card",
    "LinearModel",
    "Model",
    "RegressionModel",
    "Release",
    "StoredRelease",
    "canonical",
    "described",
    "make_card",
    "release_hash",
    "seal",
    "to_markdown",
]
