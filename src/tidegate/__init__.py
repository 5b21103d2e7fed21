"""Train a fresh, differentially private model at every step of a stream, under one fixed budget."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidegate.plan import Plan, TwoStreamPlan
from tidegate.privacy import ApproxDP, Paper, PureDP, Tapered

if TYPE_CHECKING:
    from tidegate.client import Client
    from tidegate.estimators import (
        ContinualClassifier,
        ContinualRegressor,
        FadingClassifier,
        FadingRegressor,
        GrowingClassifier,
        GrowingRegressor,
        PrivateClassifier,
        PrivateHistogram,
        PrivateMean,
        PrivateRegressor,
        SlidingWindowClassifier,
        SlidingWindowRegressor,
        TwoStreamClassifier,
        TwoStreamRegressor,
    )
    from tidegate.gate import Config, Gate
    from tidegate.gate.loading import load

__all__ = [
    "ApproxDP",
    "Client",
    "Config",
    "ContinualClassifier",
    "ContinualRegressor",
    "FadingClassifier",
    "FadingRegressor",
    "Gate",
    "GrowingClassifier",
    "GrowingRegressor",
    "Paper",
    "Plan",
    "PrivateClassifier",
    "PrivateHistogram",
    "PrivateMean",
    "PrivateRegressor",
    "PureDP",
    "SlidingWindowClassifier",
    "SlidingWindowRegressor",
    "Tapered",
    "TwoStreamClassifier",
    "TwoStreamPlan",
    "TwoStreamRegressor",
    "load",
]


def __getattr__(name: str) -> Any:
    """Load the estimators, the gate and the client on first use: planning needs no scikit-learn."""
    if name in __all__:
        homes = {"Client": "client", "Config": "gate", "Gate": "gate", "load": "gate.loading"}
        return getattr(import_module(f"tidegate.{homes.get(name, 'estimators')}"), name)
    raise AttributeError(f"module 'tidegate' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All public names, also those that are not loaded yet."""
    return sorted({*globals(), *__all__})
