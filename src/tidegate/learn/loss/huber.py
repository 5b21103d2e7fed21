"""The smooth hinge loss of two classes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tidegate.checks import positive
from tidegate.learn.loss.binary import Binary, signs
from tidegate.learn.loss.margins import UNIT, Floats, Indices, register, rounded_up


@register
@dataclass(frozen=True)
class Huber(Binary):
    """Hinge loss max(0, 1 - s w·x) made smooth: quadratic where s w·x is within h of 1.

    >>> Huber(h=0.5).lipschitz(1.0), round(Huber(h=0.5).smoothness(1.0), 9)
    (1.0, 1.0)
    """

    kind: ClassVar[str] = "huber"
    about: ClassVar[str] = "two classes, by a hinge made smooth"
    automatic: ClassVar[bool] = False

    h: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "h", positive("h", self.h))

    @property
    def scale(self) -> float:
        """See `Loss`; the curvature inside the quadratic part."""
        return 0.5 / self.h

    @property
    def value_at_zero(self) -> float:
        """See `Loss`; 1, or (1 + h)²/4h if the quadratic part reaches 0."""
        return rounded_up(1.0 if self.h <= 1 else (1 + self.h) ** 2 / (4 * self.h))

    @property
    def residual_error(self) -> float:
        """See `Loss`; rounding 1 + h is what matters when h is small."""
        return (8 + 1 / self.h) * UNIT

    def smoothness(self, norm: float) -> float:
        """The curvature by the margin is at most 1/2h."""
        return rounded_up(norm * norm / (2 * self.h))

    def _depth(self, margins: Floats, y: Indices) -> Floats:
        """How far the signed margin lies below 1 + h, in units of 2h; above 1 it is linear."""
        return (1 + self.h - signs(margins, y) * margins) / (2 * self.h)

    def value(self, margins: Floats, y: Indices) -> Floats:
        """See `Loss`."""
        depth = np.maximum(self._depth(margins, y), 0)
        bent = np.minimum(depth, 1)
        value: Floats = self.h * (bent * bent + 2 * (depth - bent))
        return value

    def residual(self, margins: Floats, y: Indices) -> Floats:
        """See `Loss`."""
        return -signs(margins, y) * np.clip(self._depth(margins, y), 0, 1)

    def curvature(self, margins: Floats, y: Indices, v: Floats) -> Floats:
        """See `Loss`."""
        depth = self._depth(margins, y)
        return np.where((depth > 0) & (depth < 1), v / (2 * self.h), np.zeros_like(v))
