"""The interface and the registry of losses of margins.

Such a loss depends on the features x of a record only through its margins w·x. Margins of m records
are an array of shape (m,), or (K, m) for K classes; y holds class indices from 0. The constants on
which privacy depends are derived, and shown to be attained, in docs/proofs/losses.md. One class
holds everything about a loss, and `register` adds it to the registry.
"""

from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import refuse

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

    def curvature(self, margins: Floats, y: Indices, v: Floats) -> Floats:
        """Second derivative of each record's loss in its margins, applied to v."""


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
