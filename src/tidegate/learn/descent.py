"""The public numbers of a descent along noisy gradients, and how far its steps travel."""

import math
from dataclasses import dataclass

TARGET_SPREAD = 1 / 16
"""The default deviation of the noise in a predicted target, in units of half its range."""

TWO_CLASS_SPREAD = 0.6
"""The default deviation of the noise in a margin of two classes, where surveys centre the rows."""


@dataclass(frozen=True, kw_only=True)
class Descent:
    """The public numbers of one fit, all fixed before its records are read.

    Attributes:
        steps: number of gradients released.
        rate: learning rate.
        clip: largest norm of one record's gradient.
        sigma: deviation of the noise in each coordinate of a sum of gradients.
        keep: factor by which the starting model is multiplied.
        lead: how far the model goes on in the direction from the starting model to it.
    """

    steps: int
    rate: float
    clip: float
    sigma: float
    keep: float = 1.0
    lead: float = 0.0

    @property
    def sensitivity(self) -> float:
        """The most that replacing one record moves a sum of gradients."""
        return 2 * self.clip


def spread_for(*, target: bool, pair: bool) -> float:
    """The deviation of the noise in a margin to aim at.

    Args:
        target: Whether a number is predicted, not a class.
        pair: Whether one of two classes is predicted, from rows that surveys centre.
    """
    if target:
        return TARGET_SPREAD
    return TWO_CLASS_SPREAD if pair else 1.0


def travel(steps: int) -> float:
    """The distance that accelerated descent covers along a constant slope of 1 at rate 1.

    >>> travel(1), travel(64)
    (1.0, 568.0)
    """
    return steps * (steps + 7) / 8


def steps_for(horizon: float, rate: float) -> int:
    """The least number of steps that cover the horizon at a rate.

    >>> steps_for(568.0, 1.0)
    64
    """
    return max(1, math.ceil(math.sqrt(12.25 + 8 * horizon / rate) - 3.5))
