"""Train a fresh, differentially private model at every step of a stream, under one fixed budget."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidegate.checks import (
    FewAdmittedWarning,
    InvalidValueError,
    SpentAgainWarning,
    UnprotectedInputWarning,
)

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
    from tidegate.features.composed import check_pipeline
    from tidegate.gate import Config, Gate
    from tidegate.gate.loading import load
    from tidegate.plan import Plan, TwoStreamPlan
    from tidegate.privacy import ApproxDP, Paper, PureDP, Tapered

__all__ = [
    "ApproxDP",
    "Client",
    "Config",
    "ContinualClassifier",
    "ContinualRegressor",
    "FadingClassifier",
    "FadingRegressor",
    "FewAdmittedWarning",
    "Gate",
    "GrowingClassifier",
    "GrowingRegressor",
    "InvalidValueError",
    "Paper",
    "Plan",
    "PrivateClassifier",
    "PrivateHistogram",
    "PrivateMean",
    "PrivateRegressor",
    "PureDP",
    "SlidingWindowClassifier",
    "SlidingWindowRegressor",
    "SpentAgainWarning",
    "Tapered",
    "TwoStreamClassifier",
    "TwoStreamPlan",
    "TwoStreamRegressor",
    "UnprotectedInputWarning",
    "check_pipeline",
    "load",
]


HOMES = {
    "ApproxDP": "privacy",
    "Client": "client",
    "Config": "gate",
    "Gate": "gate",
    "Paper": "privacy",
    "Plan": "plan",
    "PureDP": "privacy",
    "Tapered": "privacy",
    "TwoStreamPlan": "plan",
    "check_pipeline": "features.composed",
    "load": "gate.loading",
}
"""The modules of names that are loaded on first use; the others are estimators."""


def __getattr__(name: str) -> Any:
    """Load all but errors on first use: planning needs no scikit-learn, and help no planning."""
    if name in __all__:
        return getattr(import_module(f"tidegate.{HOMES.get(name, 'estimators')}"), name)
    raise AttributeError(f"module 'tidegate' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All public names, also those that are not loaded yet."""
    return sorted({*globals(), *__all__})
