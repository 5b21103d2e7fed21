"""The logistic loss of two classes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tidegate.learn.loss.binary import Binary, signs
from tidegate.learn.loss.margins import UNIT, Floats, Indices, register, rounded_up


@register
@dataclass(frozen=True)
class Logistic(Binary):
    """Binary logistic loss log(1 + exp(-s w·x)), s = ±1 for class 1 and 0.

    >>> Logistic().lipschitz(2.0), round(Logistic().smoothness(2.0), 9)
    (2.0, 1.0)
    """

    kind: ClassVar[str] = "logistic"
    about: ClassVar[str] = "two classes"
    automatic: ClassVar[bool] = True

    scale = 0.25
    value_at_zero = 0.7  # ln 2, rounded up
    residual_error = 24 * UNIT

    def smoothness(self, norm: float) -> float:
        """The curvature p (1 - p) by the margin is at most 1/4."""
        return rounded_up(norm * norm / 4)

    def value(self, margins: Floats, y: Indices) -> Floats:
        """See `Loss`; the larger exponential is taken out, so that nothing overflows."""
        signed = signs(margins, y) * margins
        return np.maximum(-signed, 0) + np.log1p(np.exp(-np.abs(signed)))

    def residual(self, margins: Floats, y: Indices) -> Floats:
        """See `Loss`."""
        sign = signs(margins, y)
        return -sign * _sigmoid(-sign * margins)

    def curvature(self, margins: Floats, y: Indices, v: Floats) -> Floats:
        """See `Loss`."""
        del y
        return _sigmoid(margins) * _sigmoid(-margins) * v


def _sigmoid(t: Floats) -> Floats:
    small = np.exp(-np.abs(t))
    sigmoid: Floats = np.where(t < 0, small, np.ones_like(small)) / (1 + small)
    return sigmoid
