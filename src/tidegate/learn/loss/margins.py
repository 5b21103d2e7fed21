"""What a loss of margins is, and all that can be named.

Such a loss looks at a record (x, y) only through its margins w·x. Margins of m records are an
array of shape (m,), or (K, m) for K classes; y holds class indices from 0. The constants that
privacy rests on are derived, and shown to be attained, in docs/proofs/losses.md. A loss holds all
that is known about it, and is added to the others by `register`.
"""

from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import refuse

Floats = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]

UNIT = 2.0**-53
"""Unit roundoff of float64: one operation errs by at most this times its result."""


def rounded_up(value: float) -> float:
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


class NamedLoss(Loss, Protocol):
    """A loss that configurations and estimators can name.

    Attributes:
        kind: Its name.
        about: What it is, in a few words.
        most_classes: The most classes that it can tell apart.
        automatic: Whether "auto" may choose it, which it does for as few classes as possible.
    """

    kind: ClassVar[str]
    about: ClassVar[str]
    most_classes: ClassVar[int]
    automatic: ClassVar[bool]

    @classmethod
    def of(cls, classes: int) -> Self:
        """The loss for so many classes."""


L = TypeVar("L", bound=NamedLoss)

LOSSES: dict[str, type[NamedLoss]] = {}
"""Every loss that can be named, by its kind."""


def register(loss: type[L]) -> type[L]:
    """Add a loss to those that there are; its constants must be proved."""
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
    """The loss of a name, for so many classes.

    >>> loss_of("auto", 3)
    Softmax(classes=3)
    """
    if kind not in ["auto", *LOSSES]:
        raise refuse("loss", f"one of {', '.join(['auto', *LOSSES])}", kind)
    loss = LOSSES[automatic_loss(classes) if kind == "auto" else kind]
    if classes > loss.most_classes:
        raise refuse("loss", f"{automatic_loss(classes)} for {classes} classes", kind)
    return loss.of(classes)
