"""The losses a fit may use, each with the constants its privacy rests on.

A loss of this module looks at a record (x, y) only through its margins w·x. Margins of m records
are an array of shape (m,), or (K, m) for K classes; y holds class indices from 0. The constants
are derived, and shown to be attained, in docs/proofs/losses.md.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import positive, whole

Floats = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]

UNIT = 2.0**-53
"""Unit roundoff of float64: one operation errs by at most this times its result."""


def _up(value: float) -> float:
    """A bound rounded so that a few roundings on the way to it cannot have made it too small."""
    return value * (1 + 8 * UNIT)


class Loss(Protocol):
    """What objectives and solvers need to know of a loss of margins."""

    @property
    def outputs(self) -> int:
        """Number K of margins of a record."""

    @property
    def scale(self) -> float:
        """Curvature of the loss in the margins at a typical record; for preconditioning only."""

    @property
    def value_at_zero(self) -> float:
        """Largest loss of a record whose margins are all 0."""

    @property
    def residual_error(self) -> float:
        """Most that `residual` errs in float64, in Euclidean norm, for exactly given margins."""

    def lipschitz(self, norm: float) -> float:
        """G: largest norm of the gradient in w of a record of norm at most `norm`, rounded up."""

    def smoothness(self, norm: float) -> float:
        """Beta: largest curvature in w of a record of norm at most `norm`, rounded up."""

    def shape(self, features: int) -> tuple[int, ...]:
        """Shape of the weights for this many features."""

    def value(self, margins: Floats, y: Indices) -> Floats:
        """Loss of each record."""

    def residual(self, margins: Floats, y: Indices) -> Floats:
        """Derivative of each record's loss by its margins."""

    def curvature(self, margins: Floats, y: Indices, v: Floats) -> Floats:
        """Second derivative of each record's loss by its margins, applied to v."""


class _Binary:
    """What the losses of one margin share; class 1 is coded as sign +1, class 0 as -1."""

    outputs = 1

    def lipschitz(self, norm: float) -> float:
        """The slope by the margin is at most 1."""
        return norm

    def shape(self, features: int) -> tuple[int, ...]:
        """One weight per feature."""
        return (features,)


def _signs(margins: Floats, y: Indices) -> Floats:
    return (2 * y - 1).astype(margins.dtype)


@dataclass(frozen=True)
class Logistic(_Binary):
    """Binary logistic loss log(1 + exp(-s w·x)), s = ±1 for class 1 and 0.

    >>> Logistic().lipschitz(2.0), round(Logistic().smoothness(2.0), 9)
    (2.0, 1.0)
    """

    scale = 0.25
    value_at_zero = 0.7  # ln 2, rounded up
    residual_error = 24 * UNIT

    def smoothness(self, norm: float) -> float:
        """The curvature p (1 - p) by the margin is at most 1/4."""
        return _up(norm * norm / 4)

    def value(self, margins: Floats, y: Indices) -> Floats:
        """See `Loss`; the larger exponential is taken out, so that nothing overflows."""
        signed = _signs(margins, y) * margins
        return np.maximum(-signed, 0) + np.log1p(np.exp(-np.abs(signed)))

    def residual(self, margins: Floats, y: Indices) -> Floats:
        """See `Loss`."""
        signs = _signs(margins, y)
        return -signs * _sigmoid(-signs * margins)

    def curvature(self, margins: Floats, y: Indices, v: Floats) -> Floats:
        """See `Loss`."""
        del y
        return _sigmoid(margins) * _sigmoid(-margins) * v


def _sigmoid(t: Floats) -> Floats:
    small = np.exp(-np.abs(t))
    sigmoid: Floats = np.where(t < 0, small, np.ones_like(small)) / (1 + small)
    return sigmoid


@dataclass(frozen=True)
class Huber(_Binary):
    """Hinge loss max(0, 1 - s w·x) made smooth: quadratic where s w·x is within h of 1.

    >>> Huber(h=0.5).lipschitz(1.0), round(Huber(h=0.5).smoothness(1.0), 9)
    (1.0, 1.0)
    """

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
        return _up(1.0 if self.h <= 1 else (1 + self.h) ** 2 / (4 * self.h))

    @property
    def residual_error(self) -> float:
        """See `Loss`; rounding 1 + h is what matters when h is small."""
        return (8 + 1 / self.h) * UNIT

    def smoothness(self, norm: float) -> float:
        """The curvature by the margin is at most 1/2h."""
        return _up(norm * norm / (2 * self.h))

    def _depth(self, margins: Floats, y: Indices) -> Floats:
        """How far the signed margin lies below 1 + h, in units of 2h; above 1 it is linear."""
        return (1 + self.h - _signs(margins, y) * margins) / (2 * self.h)

    def value(self, margins: Floats, y: Indices) -> Floats:
        """See `Loss`."""
        depth = np.maximum(self._depth(margins, y), 0)
        bent = np.minimum(depth, 1)
        value: Floats = self.h * (bent * bent + 2 * (depth - bent))
        return value

    def residual(self, margins: Floats, y: Indices) -> Floats:
        """See `Loss`."""
        return -_signs(margins, y) * np.clip(self._depth(margins, y), 0, 1)

    def curvature(self, margins: Floats, y: Indices, v: Floats) -> Floats:
        """See `Loss`."""
        depth = self._depth(margins, y)
        return np.where((depth > 0) & (depth < 1), v / (2 * self.h), np.zeros_like(v))


@dataclass(frozen=True)
class Softmax:
    """Multinomial logistic loss log(sum of exp(margins)) - margin of the class, K classes jointly.

    >>> round(Softmax(classes=10).lipschitz(1.0) ** 2, 9), Softmax(classes=10).shape(784)
    (2.0, (784, 10))
    """

    classes: int

    def __post_init__(self) -> None:
        whole("classes", self.classes, least=2, most=2**20)

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
        return _up(math.log(self.classes))

    @property
    def residual_error(self) -> float:
        """See `Loss`."""
        return (3 * self.classes + 32) * UNIT

    def lipschitz(self, norm: float) -> float:
        """The residual p - (one-hot y) has norm at most sqrt 2."""
        return _up(math.sqrt(2) * norm)

    def smoothness(self, norm: float) -> float:
        """The curvature diag(p) - p p' by the margins is at most 1/2."""
        return _up(norm * norm / 2)

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


@dataclass(frozen=True)
class Squared:
    """Squared distance ||x - w||² of a record to the weights: means and histograms.

    Its minimiser has a closed form. A record that cannot be used counts as the public `point`
    (the zero vector if None) with weight 1: leaving it out would make the denominator depend on
    the records, and the bound below would fail.
    """

    point: tuple[float, ...] | None = None

    def sensitivity(self, diameter: float, n: int, regularization: float) -> float:
        """Most the exact minimiser moves when one of n records moves by at most `diameter`.

        >>> round(Squared().sensitivity(diameter=2**0.5, n=100, regularization=1.0), 9)
        0.007071068
        """
        return _up(diameter / (n * (1 + regularization)))
