"""The losses a fit may use, each with the constants its privacy rests on: one file per loss."""

from tidegate.learn.loss.margins import (
    LOSSES,
    UNIT,
    Floats,
    Indices,
    Loss,
    automatic_loss,
    loss_of,
    register,
)

# In the order in which users are shown them.
# isort: off
from tidegate.learn.loss.logistic import Logistic
from tidegate.learn.loss.softmax import Softmax
from tidegate.learn.loss.huber import Huber
from tidegate.learn.loss.squared import Squared
# isort: on

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
    "register",
]
