"""The scikit-learn estimators."""

from tidegate.estimators.continual_estimators import ContinualClassifier, ContinualRegressor
from tidegate.estimators.fading_estimators import FadingClassifier, FadingRegressor
from tidegate.estimators.growing_estimators import GrowingClassifier, GrowingRegressor
from tidegate.estimators.private_estimators import PrivateClassifier, PrivateRegressor
from tidegate.estimators.sliding_estimators import SlidingWindowClassifier, SlidingWindowRegressor
from tidegate.estimators.summary import PrivateHistogram, PrivateMean
from tidegate.estimators.twostream_estimators import TwoStreamClassifier, TwoStreamRegressor

__all__ = [
    "ContinualClassifier",
    "ContinualRegressor",
    "FadingClassifier",
    "FadingRegressor",
    "GrowingClassifier",
    "GrowingRegressor",
    "PrivateClassifier",
    "PrivateHistogram",
    "PrivateMean",
    "PrivateRegressor",
    "SlidingWindowClassifier",
    "SlidingWindowRegressor",
    "TwoStreamClassifier",
    "TwoStreamRegressor",
]
