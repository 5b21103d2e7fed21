"""What the summaries share: a released vector at every step of one stream."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from tidegate.estimators.stream import as_allocation
from tidegate.learn.learner import Learner, Pull
from tidegate.learn.records import Records
from tidegate.learn.trainer import Trainer
from tidegate.plan import Plan
from tidegate.privacy import Allocation, Budget, Certificate, Ledger
from tidegate.privacy.allocation import OneStream
from tidegate.privacy.bits import NotPrivateBits, SystemBits
from tidegate.release import Release
from tidegate.run import Run


class Summary(BaseEstimator):
    """A mean or a histogram; the faces below make records of what they are given."""

    budget: Budget
    schedule: OneStream
    regularization: float
    allocation: str | Allocation
    not_private_seed: int | None

    releases_: list[Release]
    ledger_: Ledger
    certificate_: Certificate
    quarantined_: int

    def fit(self, X: Any, y: Any = None) -> Self:
        """Forget everything, then take X in as the start of the stream.

        Args:
            X: Records, as in `partial_fit`.
            y: Not read.
        """
        self.__dict__.pop("_run", None)
        return self.partial_fit(X, y)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Take in any number of records; each step they complete makes its releases."""
        raise NotImplementedError

    def _take(self, learner: Learner[Pull], norm: float, records: Records) -> Self:
        if not hasattr(self, "_run"):
            seed = self.not_private_seed
            task = Pull(norm=norm, regularization=self.regularization)
            bits = SystemBits() if seed is None else NotPrivateBits(seed)
            plan = Plan(
                schedule=self.schedule,
                budget=self.budget,
                allocation=as_allocation(self.allocation),
            )
            trainer = Trainer(task=task, learner=learner, budget=self.budget, bits=bits)
            self._run = Run(plan, trainer)
            self.releases_, self.ledger_ = self._run.models.releases, self._run.ledger
            self.certificate_ = plan.certificate
            self.quarantined_ = 0
        self.quarantined_ += int(records.n - records.usable.sum())
        self._run.take(records)
        return self

    def _newest(self) -> NDArray[np.float64]:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: nothing is released "
                "before enough records have arrived; `tidegate plan` shows when"
            )
        return self.releases_[-1].weights

    def __sklearn_is_fitted__(self) -> bool:
        return bool(getattr(self, "releases_", None))
