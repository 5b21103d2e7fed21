"""Losses, the certified minimiser, and the learners that train private models."""

from tidegate.learn.loss import Huber, Logistic, Loss, Softmax, Squared
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
    "Logistic",
    "Loss",
    "OutputPerturbation",
    "Softmax",
    "Solution",
    "Squared",
    "minimize",
]
