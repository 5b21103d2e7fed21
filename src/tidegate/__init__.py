"""Train a fresh, differentially private model at every step of a stream, under one fixed budget."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidegate.checks import (
    FewAdmittedWarning,
    InvalidValueError,
    SpentAgainWarning,
    UnprotectedInputWarning,
)
from tidegate.moved import Moved

if TYPE_CHECKING:
    from tidegate.client import Client
    from tidegate.data.maps.composed import check_pipeline
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
    from tidegate.gate import Gate
    from tidegate.privacy import ApproxDP, Paper, PureDP, Tapered
    from tidegate.run.config import Config
    from tidegate.schedule.plan import Plan, TwoStreamPlan
    from tidegate.state.loading import load

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

sys.meta_path.insert(0, Moved())  # before packages of the new place are searched

HOMES = {
    "ApproxDP": "privacy",
    "Client": "client",
    "Config": "run.config",
    "Gate": "gate",
    "Paper": "privacy",
    "Plan": "schedule.plan",
    "PureDP": "privacy",
    "Tapered": "privacy",
    "TwoStreamPlan": "schedule.plan",
    "check_pipeline": "data.maps.composed",
    "load": "state.loading",
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
