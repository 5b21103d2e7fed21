"""The losses of fits, each with the constants on which privacy depends."""

from tidegate.learn.loss.classification import (
    LOSSES,
    UNIT,
    Floats,
    Huber,
    Indices,
    Logistic,
    Loss,
    Softmax,
    automatic_loss,
    loss_of,
)
from tidegate.learn.loss.regression import (
    TARGET_LOSSES,
    HuberError,
    SquaredError,
    TargetLoss,
    automatic_target_loss,
    target_loss_of,
)
from tidegate.learn.loss.squared import Squared


def every_loss() -> dict[str, type[Loss]]:
    """Every loss that can be named, of classes and of targets, by the name of its class.

    >>> sorted(every_loss())
    ['Huber', 'HuberError', 'Logistic', 'Softmax', 'SquaredError']
    """
    return {each.__name__: each for each in (*LOSSES.values(), *TARGET_LOSSES.values())}


__all__ = [
    "LOSSES",
    "TARGET_LOSSES",
    "UNIT",
    "Floats",
    "Huber",
    "HuberError",
    "Indices",
    "Logistic",
    "Loss",
    "Softmax",
    "Squared",
    "SquaredError",
    "TargetLoss",
    "automatic_loss",
    "automatic_target_loss",
    "every_loss",
    "loss_of",
    "target_loss_of",
]
