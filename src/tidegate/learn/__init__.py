"""Losses, the certified minimiser, and the learners that train private models."""

from tidegate.data.predicted import Target
from tidegate.learn.loss import (
    Huber,
    HuberError,
    Logistic,
    Loss,
    Softmax,
    Squared,
    SquaredError,
)
from tidegate.learn.minimum import minimize
from tidegate.learn.solver import Solution

# Imported in the order in which users see them.
# isort: off
from tidegate.learn.output import OutputPerturbation
from tidegate.learn.gradient import GradientPerturbation
# isort: on

__all__ = [
    "GradientPerturbation",
    "Huber",
    "HuberError",
    "Logistic",
    "Loss",
    "OutputPerturbation",
    "Softmax",
    "Solution",
    "Squared",
    "SquaredError",
    "Target",
    "minimize",
]
