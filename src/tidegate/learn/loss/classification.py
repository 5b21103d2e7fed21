"""The interface and the registry of losses of margins, and the losses of classifiers.

Such a loss depends on the features x of a record only through its margins w·x. Margins of m records
are an array of shape (m,), or (K, m) for K classes; y holds class indices from 0. The constants on
which privacy depends are derived, and shown to be attained, in docs/proofs/losses.md. One class
holds everything about a loss, and `register` adds it to the registry.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import positive, refuse, whole
from tidegate.data.rows import lane_sum
from tidegate.learn.exact import exp, logistic
from tidegate.learn.loss.at_minimum import SLACK, half_apart, reach, sigmoid

Floats = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]

UNIT = 2.0**-53
"""Unit roundoff of float64: the error of one operation is at most this times its result."""


def rounded_up(value: float) -> float:
    """Round a bound up by more than the few roundings in its computation can have lowered it."""
    return value * (1 + 8 * UNIT)


class Loss(Protocol):
    """The properties of a loss of margins that objectives and solvers use."""

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
        """Largest error of `residual` in float64, in Euclidean norm, for exact margins."""

    def lipschitz(self, norm: float) -> float:
        """G: largest norm of the gradient in w of a record of norm at most `norm`, rounded up."""

    def lipschitz_at_minimum(
        self, norm: float, *, center_norm: float, regularization: float
    ) -> float:
        """Half of how far apart two records' gradients can be at a minimiser, rounded up.

        It is at most `lipschitz`: a minimiser does not lie far from the center.

        Args:
            norm: The largest norm of a record.
            center_norm: The norm of the center.
            regularization: Lambda.
        """

    def smoothness(self, norm: float) -> float:
        """Beta: largest curvature in w of a record of norm at most `norm`, rounded up."""

    def shape(self, features: int) -> tuple[int, ...]:
        """Shape of the weights for this many features."""

    def value(self, margins: Floats, y: Indices) -> Floats:
        """Loss of each record."""

    def residual(self, margins: Floats, y: Indices) -> Floats:
        """Derivative of each record's loss in its margins."""


class NamedLoss(Loss, Protocol):
    """A loss that configurations and estimators can name.

    Attributes:
        kind: Its name.
        about: What it is, in a few words.
        most_classes: The most classes that it supports.
        automatic: Whether "auto" may choose it. Of the losses that support all classes, "auto"
            chooses the one with the smallest `most_classes`.
    """

    kind: ClassVar[str]
    about: ClassVar[str]
    most_classes: ClassVar[int]
    automatic: ClassVar[bool]

    @classmethod
    def of(cls, classes: int) -> Self:
        """The loss for this many classes."""


L = TypeVar("L", bound=NamedLoss)

LOSSES: dict[str, type[NamedLoss]] = {}
"""Every loss that can be named, by its kind."""


def register(loss: type[L]) -> type[L]:
    """Add a loss to the registry; its constants must be proved."""
    LOSSES[loss.kind] = loss
    return loss


def automatic_loss(classes: int) -> str:
    """The kind of the loss that "auto" stands for.

    >>> automatic_loss(2), automatic_loss(3)
    ('logistic', 'softmax')
    """
    able = [each for each in LOSSES.values() if each.automatic and classes <= each.most_classes]
    return min(able, key=lambda each: each.most_classes).kind


def loss_of(kind: str, classes: int) -> Loss:
    """The loss of this name, for this many classes.

    >>> loss_of("auto", 3)
    Softmax(classes=3)
    """
    if kind not in ["auto", *LOSSES]:
        raise refuse("loss", f"one of {', '.join(['auto', *LOSSES])}", kind)
    loss = LOSSES[automatic_loss(classes) if kind == "auto" else kind]
    if classes > loss.most_classes:
        raise refuse("loss", f"{automatic_loss(classes)} for {classes} classes", kind)
    return loss.of(classes)


class OneMargin:
    """Base of the losses for two classes: class 1 has sign +1 and class 0 has -1."""

    most_classes: ClassVar[int] = 2
    outputs = 1

    @classmethod
    def of(cls, classes: int) -> Self:
        """The loss for two classes."""
        del classes
        return cls()

    def lipschitz(self, norm: float) -> float:
        """The derivative in the margin is at most 1 in size."""
        return norm

    def lipschitz_at_minimum(
        self, norm: float, *, center_norm: float, regularization: float
    ) -> float:
        """See `Loss`; two records at margin 0 may pull with all of G in opposite directions."""
        del center_norm, regularization
        return self.lipschitz(norm)

    def shape(self, features: int) -> tuple[int, ...]:
        """One weight per feature."""
        return (features,)


def _signs(margins: Floats, y: Indices) -> Floats:
    """The sign of each record's class."""
    return (2 * y - 1).astype(margins.dtype)


@register
@dataclass(frozen=True)
class Logistic(OneMargin):
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

    def lipschitz_at_minimum(
        self, norm: float, *, center_norm: float, regularization: float
    ) -> float:
        """See `Loss`; it is from 1/2 to 1 of `lipschitz`.

        >>> bound = Logistic().lipschitz_at_minimum(1.0, center_norm=0.0, regularization=0.1)
        >>> round(bound, 3)
        0.565
        """
        away = reach(slope=norm, odds=norm * center_norm, regularization=regularization)
        return norm * half_apart(rounded_up(norm * (center_norm + away)))

    def smoothness(self, norm: float) -> float:
        """The curvature p (1 - p) in the margin is at most 1/4."""
        return rounded_up(norm * norm / 4)

    def value(self, margins: Floats, y: Indices) -> Floats:
        """See `Loss`; the larger exponential is factored out, so that nothing overflows."""
        signed = _signs(margins, y) * margins
        return np.maximum(-signed, 0) + np.log1p(np.exp(-np.abs(signed)))

    def residual(self, margins: Floats, y: Indices) -> Floats:
        """See `Loss`."""
        residual: Floats = logistic(margins)
        residual -= y
        return residual


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
        """The loss for this many classes."""
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

    def lipschitz_at_minimum(
        self, norm: float, *, center_norm: float, regularization: float
    ) -> float:
        """See `Loss`; it is from sqrt((1 - 1/K)/2) to 1 of `lipschitz`."""
        slope, others = math.sqrt(2) * norm, math.log(self.classes - 1)
        odds = slope * center_norm + others
        away = reach(slope=slope, odds=odds, regularization=regularization)
        odds = slope * (center_norm + away)
        wrong, one_class = sigmoid(odds + others), sigmoid(odds - others)
        bound = norm * math.sqrt(wrong * (wrong + one_class))
        return min(self.lipschitz(norm), SLACK * bound)

    def smoothness(self, norm: float) -> float:
        """The curvature diag(p) - p p' in the margins is at most 1/2."""
        return rounded_up(norm * norm / 2)

    def shape(self, features: int) -> tuple[int, ...]:
        """One column of weights per class."""
        return (features, self.classes)

    def value(self, margins: Floats, y: Indices) -> Floats:
        """See `Loss`; the largest margin is factored out, so that nothing overflows."""
        shifted = margins - margins.max(axis=0)
        value: Floats = np.log(np.exp(shifted).sum(axis=0)) - shifted[y, np.arange(y.size)]
        return value

    def residual(self, margins: Floats, y: Indices) -> Floats:
        """See `Loss`."""
        residual = _probabilities(margins)
        residual[y, np.arange(y.size)] -= 1
        return residual


def _probabilities(margins: Floats) -> Floats:
    """Of each class; those of a record depend on its own margins alone, wherever they lie."""
    p: Floats = exp(margins - margins.max(axis=0))
    p /= lane_sum(p.copy())
    return p


@register
@dataclass(frozen=True)
class Huber(OneMargin):
    """Smoothed hinge loss max(0, 1 - s w·x): quadratic where s w·x is within h of 1.

    >>> Huber(h=0.5).lipschitz(1.0), round(Huber(h=0.5).smoothness(1.0), 9)
    (1.0, 1.0)
    """

    kind: ClassVar[str] = "huber"
    about: ClassVar[str] = "two classes, with a smoothed hinge loss"
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
        """See `Loss`; if h is small, the rounding of 1 + h dominates."""
        return (8 + 1 / self.h) * UNIT

    def smoothness(self, norm: float) -> float:
        """The curvature in the margin is at most 1/2h."""
        return rounded_up(norm * norm / (2 * self.h))

    def _depth(self, margins: Floats, y: Indices) -> Floats:
        """How far the signed margin is below 1 + h, in units of 2h; beyond 1 the loss is linear."""
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
