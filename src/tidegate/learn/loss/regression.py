"""The losses of regressions: one margin for each record, which predicts its target.

A target is a number t in [-1, 1], in units of half its public range; y holds codes, whole numbers
of `RESOLUTION` (`data/predicted.py`). The constants are derived in docs/proofs/losses.md.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, TypeVar

import numpy as np

from tidegate.checks import between, refuse
from tidegate.data.predicted import RESOLUTION
from tidegate.learn.loss.classification import UNIT, Floats, Indices, Loss, rounded_up


class TargetLoss(ABC):
    """Base of the losses of regressions: half the squared error, if that is small enough."""

    outputs = 1
    scale = 1.0

    @abstractmethod
    def lipschitz(self, norm: float) -> float:
        """See `Loss`."""

    def lipschitz_at_minimum(
        self, norm: float, *, center_norm: float, regularization: float
    ) -> float:
        """See `Loss`; targets at both ends may pull with all of G in opposite directions."""
        del center_norm, regularization
        return self.lipschitz(norm)

    def smoothness(self, norm: float) -> float:
        """The curvature in the margin is at most 1."""
        return rounded_up(norm * norm)

    def shape(self, features: int) -> tuple[int, ...]:
        """One weight per feature."""
        return (features,)


class NamedTargetLoss(Loss, Protocol):
    """A loss of regressions that configurations and estimators can name.

    Attributes:
        kind: Its name.
        about: What it is, in a few words.
        automatic: The units of the budgets for which "auto" chooses it.
    """

    kind: ClassVar[str]
    about: ClassVar[str]
    automatic: ClassVar[tuple[Literal["epsilon", "mu"], ...]]

    def __init__(self) -> None: ...


L = TypeVar("L", bound=NamedTargetLoss)

TARGET_LOSSES: dict[str, type[NamedTargetLoss]] = {}
"""Every loss of regressions that can be named, by its kind."""


def register(loss: type[L]) -> type[L]:
    """Add a loss to the registry; its constants must be proved."""
    TARGET_LOSSES[loss.kind] = loss
    return loss


def automatic_target_loss(unit: str) -> str:
    """The kind of the loss that "auto" stands for, by the unit of the budget.

    >>> automatic_target_loss("epsilon"), automatic_target_loss("mu")
    ('huber', 'squared')
    """
    return next(kind for kind, each in TARGET_LOSSES.items() if unit in each.automatic)


def target_loss_of(kind: str, unit: str) -> Loss:
    """The loss of this name for regressions, for a budget of this unit.

    >>> target_loss_of("auto", "epsilon")
    HuberError(h=0.5)
    """
    if kind not in ["auto", *TARGET_LOSSES]:
        raise refuse("loss", f"one of {', '.join(['auto', *TARGET_LOSSES])} for a target", kind)
    return TARGET_LOSSES[automatic_target_loss(unit) if kind == "auto" else kind]()


def _errors(margins: Floats, y: Indices) -> Floats:
    """Prediction minus truth; the truth is exact in float32 too."""
    errors: Floats = margins - y.astype(margins.dtype) * margins.dtype.type(RESOLUTION)
    return errors


@register
@dataclass(frozen=True)
class SquaredError(TargetLoss):
    """Half the squared error (w·x - t)²/2 of a prediction: its minimiser predicts means.

    Its gradients have no bound, so only learners that clip gradients support it.

    >>> SquaredError().lipschitz(1.0), round(SquaredError().smoothness(2.0), 9)
    (inf, 4.0)
    """

    kind: ClassVar[str] = "squared"
    about: ClassVar[str] = "a number, by squared errors"
    automatic: ClassVar[tuple[Literal["epsilon", "mu"], ...]] = ("mu",)

    value_at_zero = 0.5
    residual_error = math.inf

    def lipschitz(self, norm: float) -> float:
        """No bound: the error grows with the prediction."""
        del norm
        return math.inf

    def value(self, margins: Floats, y: Indices) -> Floats:
        """See `Loss`."""
        with np.errstate(over="ignore"):
            return _errors(margins, y) ** 2 / 2

    def residual(self, margins: Floats, y: Indices) -> Floats:
        """See `Loss`."""
        return _errors(margins, y)


@register
@dataclass(frozen=True)
class HuberError(TargetLoss):
    """Half the squared error of a prediction, but linear beyond an error of h.

    Args:
        h: Where it becomes linear, in units of half the target's range.

    >>> round(HuberError(h=0.25).lipschitz(2.0), 9), round(HuberError(h=0.25).smoothness(2.0), 9)
    (0.5, 4.0)
    """

    kind: ClassVar[str] = "huber"
    about: ClassVar[str] = "a number, by squared errors that are linear where they are large"
    automatic: ClassVar[tuple[Literal["epsilon", "mu"], ...]] = ("epsilon",)

    h: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "h", between("h", self.h, 2.0**-32, 2.0**32))

    @property
    def value_at_zero(self) -> float:
        """See `Loss`; the loss of an error of 1."""
        return rounded_up(0.5 if self.h >= 1 else self.h * (1 - self.h / 2))

    @property
    def residual_error(self) -> float:
        """See `Loss`; one subtraction is rounded, and only results up to h matter."""
        return 2 * self.h * UNIT

    def lipschitz(self, norm: float) -> float:
        """The derivative in the margin is at most h in size."""
        return rounded_up(self.h * norm)

    def value(self, margins: Floats, y: Indices) -> Floats:
        """See `Loss`."""
        size = np.abs(_errors(margins, y))
        near = np.minimum(size, self.h)
        value: Floats = near * near / 2 + self.h * (size - near)
        return value

    def residual(self, margins: Floats, y: Indices) -> Floats:
        """See `Loss`."""
        return _errors(margins, y).clip(-self.h, self.h)
