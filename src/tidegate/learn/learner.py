"""What a learner is: it turns the records of a fit into private weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import between, positive, refuse
from tidegate.learn.loss import Loss
from tidegate.learn.records import Records
from tidegate.privacy.bits import Bits
from tidegate.privacy.budget import Allowance

Weights = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is learnt, fixed before the first record.

    Attributes:
        loss: The loss of one record.
        norm: The public bound R on the norm of every record.
        regularization: Lambda, the pull towards the prior (or the origin).
    """

    loss: Loss
    norm: float
    regularization: float

    def __post_init__(self) -> None:
        between("norm", self.norm, 2**-64, 2**64)
        if self.regularization != 0:
            positive("regularization", self.regularization)


class Learner(Protocol):
    """Spends an allowance on a fit's records and returns weights that may be published."""

    def check(self, task: Task, unit: str) -> None:
        """Refuse, before any record, a task or a kind of budget that it cannot serve."""

    def settings(
        self, task: Task, *, n: int, d: int, allowance: Allowance, prior: Weights | None
    ) -> Mapping[str, float]:
        """The public numbers of a fit, for its card: noise scale, tolerance, steps ..."""

    def fit(
        self,
        task: Task,
        records: Records,
        *,
        allowance: Allowance,
        prior: Weights | None,
        bits: Bits,
    ) -> Weights:
        """Private weights for mean(loss) + lambda ||w - prior||^2, over all slots."""


def refuse_unit(learner: str, allowed: str, unit: str) -> Exception:
    """The error for a learner that cannot spend a kind of budget."""
    kind = "PureDP" if unit == "epsilon" else "ApproxDP"
    return refuse("budget", f"{allowed} for {learner}", kind)
