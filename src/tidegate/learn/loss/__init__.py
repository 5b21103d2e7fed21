"""The losses of fits, each with the constants on which privacy depends."""

from tidegate.learn.loss.classification import Huber, Logistic, Softmax
from tidegate.learn.loss.margins import LOSSES, UNIT, Floats, Indices, Loss, automatic_loss, loss_of
from tidegate.learn.loss.squared import Squared

__all__ = [
    "LOSSES",
    "UNIT",
    "Floats",
    "Huber",
    "Indices",
    "Logistic",
    "Loss",
    "Softmax",
    "Squared",
    "automatic_loss",
    "loss_of",
]
