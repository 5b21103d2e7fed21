"""Compares ways to keep a model up to date, on public records.

NOT PRIVATE: noise comes from a seed, and models are tested without noise. Use public records only.
"""

from tidegate.compare.contenders import Linear, Method, Problem, Scheduled
from tidegate.compare.labelled import Labelled, LabelledStream, interleaved
from tidegate.compare.results import Curve, measure

__all__ = [
    "Curve",
    "Labelled",
    "LabelledStream",
    "Linear",
    "Method",
    "Problem",
    "Scheduled",
    "interleaved",
    "measure",
]
