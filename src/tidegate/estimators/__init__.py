"""The scikit-learn estimators."""

from tidegate.estimators.continual import ContinualClassifier
from tidegate.estimators.fading import FadingClassifier
from tidegate.estimators.growing import GrowingClassifier
from tidegate.estimators.histogram import PrivateHistogram
from tidegate.estimators.mean import PrivateMean
from tidegate.estimators.private import PrivateClassifier
from tidegate.estimators.sliding import SlidingWindowClassifier
from tidegate.estimators.twostream import TwoStreamClassifier

__all__ = [
    "ContinualClassifier",
    "FadingClassifier",
    "GrowingClassifier",
    "PrivateClassifier",
    "PrivateHistogram",
    "PrivateMean",
    "SlidingWindowClassifier",
    "TwoStreamClassifier",
]
