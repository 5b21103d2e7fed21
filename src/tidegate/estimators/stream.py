"""A classifier that follows one stream by any schedule."""

from abc import abstractmethod
from typing import Any, Self

from tidegate.checks import refuse
from tidegate.estimators.classifier import Classifier
from tidegate.learn.records import Held
from tidegate.plan import Plan
from tidegate.privacy import Allocation, Certificate, Ledger, Paper, Tapered
from tidegate.privacy.allocation import OneStream

ALLOCATIONS: dict[str, Allocation] = {"paper": Paper(), "tapered": Tapered()}


class StreamClassifier(Classifier):
    """What the classifiers of one stream share: records in by any batch, a release at every step."""

    allocation: str | Allocation
    ledger_: Ledger
    certificate_: Certificate
    plan_: Plan

    @abstractmethod
    def _schedule(self, records: int) -> OneStream:
        """The schedule, and for how many records at once if that matters."""

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, then take X and y in as the start of the stream.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; what `features` takes, if given.
            y: A label for each, shape (n,).
        """
        self.__dict__.pop("plan_", None)
        return self.partial_fit(X, y)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Take in any number of records; each step they complete makes its releases.

        How the stream is cut into batches makes no difference.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; what `features` takes, if given.
            y: A label for each, shape (n,).
            classes: Not read: the classes are a parameter, known before the first record.
        """
        del classes
        if not hasattr(self, "plan_"):
            self._open(X, y)
        else:
            self._take(X, y)
        step, held = self.plan_.schedule.step, self._held
        while self._done + step <= held.count:
            at = self._done + step
            self._carry_out(self.plan_.due(at), held, self.ledger_)
            self._done = at
            self.ledger_.settle(self.plan_.schedule.settled(at))
            held.forget(self.plan_.schedule.needed(at))
        return self

    def _open(self, X: Any, y: Any) -> None:
        """Begin: nothing is kept if a parameter or the batch is refused."""
        self._start()
        records = self._clean(X, y)
        plan = Plan(
            schedule=self._schedule(records.n),
            budget=self.budget,
            allocation=_allocation(self.allocation),
        )
        self.certificate_ = plan.certificate
        self.ledger_ = plan.ledger()
        self._held, self._done = Held(), 0
        self._accept(records, self._held)
        self.plan_ = plan

    def _take(self, X: Any, y: Any) -> None:
        self._accept(self._clean(X, y), self._held)


def _allocation(given: str | Allocation) -> Allocation:
    if isinstance(given, Paper | Tapered):
        return given
    if given not in ALLOCATIONS:
        raise refuse("allocation", f"one of {', '.join(ALLOCATIONS)}, or an Allocation", given)
    return ALLOCATIONS[given]
