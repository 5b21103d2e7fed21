"""Releases: published models, each with a card that says what it is and what it cost."""

from typing import TYPE_CHECKING, Any

from tidegate.checks import Later
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

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    """Load models on first use: they are estimators of scikit-learn."""
    if name in __all__:
        return getattr(Later("tidegate.release.model"), name)
    raise AttributeError(f"module 'tidegate.release' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All public names, also those that are not loaded yet."""
    return sorted({*globals(), *__all__})
