"""Other ways to keep a model fresh, each as strong as its budget allows: one file per way."""

from tidegate.study.baselines.diffprivlib import Diffprivlib
from tidegate.study.baselines.ftrl import DPFTRL
from tidegate.study.baselines.nonprivate import NonPrivate
from tidegate.study.baselines.refit import NaiveSplitting, Overspent, WindowRefit
from tidegate.study.baselines.tuning import best_of

__all__ = [
    "DPFTRL",
    "Diffprivlib",
    "NaiveSplitting",
    "NonPrivate",
    "Overspent",
    "WindowRefit",
    "best_of",
]
