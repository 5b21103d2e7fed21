"""The scikit-learn estimators."""

from tidegate.estimators.continual import ContinualClassifier, ContinualRegressor
from tidegate.estimators.fading import FadingClassifier, FadingRegressor
from tidegate.estimators.growing import GrowingClassifier, GrowingRegressor
from tidegate.estimators.histogram import PrivateHistogram
from tidegate.estimators.mean import PrivateMean
from tidegate.estimators.private import PrivateClassifier, PrivateRegressor
from tidegate.estimators.sliding import SlidingWindowClassifier, SlidingWindowRegressor
from tidegate.estimators.twostream import TwoStreamClassifier, TwoStreamRegressor

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
