"""What a learner is: it turns the records of a fit into private weights.

A `Task` is fixed before the first record; `Terms` belong to one fit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import between, positive
from tidegate.learn.loss import Loss
from tidegate.learn.parts import Parts
from tidegate.learn.records import Records
from tidegate.privacy.bits import Bits
from tidegate.privacy.budget import Allowance
from tidegate.schedule import SlotWeight

Weights = NDArray[np.float64]
Unit = Literal["epsilon", "mu"]


@dataclass(frozen=True, kw_only=True)
class Pull:
    """What every task has, fixed before the first record.

    Attributes:
        norm: The public bound R on the norm of every record.
        regularization: Lambda, the pull towards the prior (or the origin); None leaves it to the
            learner, which chooses it for each fit from public numbers.
    """

    norm: float
    regularization: float | None

    def __post_init__(self) -> None:
        # Stored as Python's own floats: arithmetic on NumPy's narrow ones would round coarsely.
        object.__setattr__(self, "norm", between("norm", self.norm, 2**-64, 2**64))
        if self.regularization is not None:
            pull = positive("regularization", self.regularization) if self.regularization else 0.0
            object.__setattr__(self, "regularization", pull)


@dataclass(frozen=True, kw_only=True)
class Task(Pull):
    """A model to be learnt by minimising a loss.

    Attributes:
        loss: The loss of one record.
    """

    loss: Loss


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """What belongs to one fit.

    Attributes:
        allowance: What it may cost.
        prior: An earlier model that it refines, and is drawn towards.
        start: An earlier model at which a descent without a prior may start.
        behind: How many records of the same stream the prior or the start has learnt from, if the
            plan says so.
        slot_weights: What its slots count for, where they do not all count for 1.
    """

    allowance: Allowance
    prior: Weights | None = None
    start: Weights | None = None
    behind: int | None = None
    slot_weights: tuple[SlotWeight, ...] = ()


AnyTask = TypeVar("AnyTask", contravariant=True)


class Learner(Protocol[AnyTask]):
    """Spends an allowance on a fit's records and returns weights that may be published.

    Attributes:
        takes_slot_weights: Whether it can serve fits whose records do not all count for 1.
    """

    takes_slot_weights: ClassVar[bool]

    def check(self, task: AnyTask, unit: str) -> None:
        """Refuse, before any record, a task or a kind of budget that it cannot serve."""

    def check_size(self, task: AnyTask, largest: int | None) -> None:
        """Refuse, before any record, a task whose fits could be too large to carry out.

        Args:
            task: What is learnt.
            largest: The most slots that a fit will read; None if there is no limit.
        """

    def settings(self, task: AnyTask, terms: Terms, *, n: int, d: int) -> Mapping[str, float]:
        """The public numbers of a fit, all that its card says about how it was made private.

        Args:
            task: What is learnt.
            terms: What belongs to this fit.
            n: What its slots count for together.
            d: How many features there are.
        """

    def fit(self, task: AnyTask, terms: Terms, records: Parts[Records], bits: Bits) -> Weights:
        """Private weights for mean(loss) + lambda ||w - prior||^2, over all slots."""


class NamedLearner(Learner[Task], Protocol):
    """A learner that configurations can name; `auto` chooses among these.

    It is a frozen dataclass whose fields are made by `tidegate.kinds.parameter`, in a file that
    holds all that is known about it, and is added to the others by `register`.

    Attributes:
        kind: Its name.
        about: How it makes a fit private, in a few words.
        budgets: The units of the budgets that it serves.
        automatic: The units of the budgets that "auto" chooses it for.
        default_regularization: Lambda where none is given; None if it chooses one for each fit.
    """

    kind: ClassVar[str]
    about: ClassVar[str]
    budgets: ClassVar[tuple[Unit, ...]]
    automatic: ClassVar[tuple[Unit, ...]]
    default_regularization: ClassVar[float | None]

    def __init__(self, **parameters: Any) -> None: ...


L = TypeVar("L", bound=NamedLearner)

LEARNERS: dict[str, type[NamedLearner]] = {}
"""Every learner that can be named, by its kind."""


def register(learner: type[L]) -> type[L]:
    """Add a learner to those that there are; its privacy must be proved."""
    LEARNERS[learner.kind] = learner
    return learner


def automatic_learner(unit: Unit) -> str:
    """The kind of the learner that "auto" stands for.

    >>> automatic_learner("epsilon"), automatic_learner("mu")
    ('output', 'gradient')
    """
    return next(kind for kind, each in LEARNERS.items() if unit in each.automatic)
