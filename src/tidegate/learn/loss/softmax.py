"""The logistic loss of any number of classes."""

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from tidegate.checks import whole
from tidegate.learn.loss.margins import UNIT, Floats, Indices, register, rounded_up


@register
@dataclass(frozen=True)
class Softmax:
    """Multinomial logistic loss log(sum of exp(margins)) - margin of the class, K classes jointly.

    >>> round(Softmax(classes=10).lipschitz(1.0) ** 2, 9), Softmax(classes=10).shape(784)
    (2.0, (784, 10))
    """

    kind: ClassVar[str] = "softmax"
    about: ClassVar[str] = "any number of classes"
    most_classes: ClassVar[int] = 2**20
    automatic: ClassVar[bool] = True

    classes: int

    def __post_init__(self) -> None:
        whole("classes", self.classes, least=2, most=self.most_classes)

    @classmethod
    def of(cls, classes: int) -> Self:
        """The loss for so many classes."""
        return cls(classes)

    @property
    def outputs(self) -> int:
        """See `Loss`."""
        return self.classes

    @property
    def scale(self) -> float:
        """See `Loss`; the curvature where all classes are equally likely."""
        return 1 / self.classes

    @property
    def value_at_zero(self) -> float:
        """See `Loss`; ln K."""
        return rounded_up(math.log(self.classes))

    @property
    def residual_error(self) -> float:
        """See `Loss`."""
        return (3 * self.classes + 32) * UNIT

    def lipschitz(self, norm: float) -> float:
        """The residual p - (one-hot y) has norm at most sqrt 2."""
        return rounded_up(math.sqrt(2) * norm)

    def smoothness(self, norm: float) -> float:
        """The curvature diag(p) - p p' by the margins is at most 1/2."""
        return rounded_up(norm * norm / 2)

    def shape(self, features: int) -> tuple[int, ...]:
        """One column of weights per class."""
        return (features, self.classes)

    def value(self, margins: Floats, y: Indices) -> Floats:
        """See `Loss`; the largest margin is taken out, so that nothing overflows."""
        shifted = margins - margins.max(axis=0)
        value: Floats = np.log(np.exp(shifted).sum(axis=0)) - shifted[y, np.arange(y.size)]
        return value

    def residual(self, margins: Floats, y: Indices) -> Floats:
        """See `Loss`."""
        residual = _probabilities(margins)
        residual[y, np.arange(y.size)] -= 1
        return residual

    def curvature(self, margins: Floats, y: Indices, v: Floats) -> Floats:
        """See `Loss`."""
        del y
        p = _probabilities(margins)
        change: Floats = p * v
        change -= p * change.sum(axis=0)
        return change


def _probabilities(margins: Floats) -> Floats:
    p: Floats = np.exp(margins - margins.max(axis=0))
    p /= p.sum(axis=0)
    return p
