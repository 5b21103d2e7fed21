"""Certified minimisation of the losses a fit may use. Nothing in here adds noise."""

from tidegate.learn.clip import clip_rows
from tidegate.learn.loss import Huber, Logistic, Loss, Softmax, Squared
from tidegate.learn.minimum import minimize
from tidegate.learn.solver import Solution

__all__ = ["Huber", "Logistic", "Loss", "Softmax", "Solution", "Squared", "clip_rows", "minimize"]
