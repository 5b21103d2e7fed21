"""What the classifiers of one stream share: records in by any batch, a release at every step."""

from abc import abstractmethod
from typing import Any, Self

from tidegate.checks import refuse
from tidegate.estimators.classifier import Classifier
from tidegate.plan import Plan
from tidegate.privacy import Allocation, Certificate, Ledger, Paper, Tapered
from tidegate.privacy.allocation import OneStream
from tidegate.run import Run

ALLOCATIONS: dict[str, Allocation] = {"paper": Paper(), "tapered": Tapered()}


class StreamClassifier(Classifier):
    """A classifier of one stream; its faces choose the schedule."""

    allocation: str | Allocation
    ledger_: Ledger
    certificate_: Certificate

    @abstractmethod
    def _schedule(self, records: int) -> OneStream:
        """The schedule, given how many records the first batch has."""

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, then take X and y in as the start of the stream.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; what `features` takes, if given.
            y: A label for each, shape (n,).
        """
        self.__dict__.pop("_run", None)
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
        if not hasattr(self, "_run"):
            self._begin(X, y)
        else:
            self._count(records := self._clean(X, y))
            self._run.take(records)
        return self

    def _begin(self, X: Any, y: Any) -> None:
        """Start a run; nothing is kept if a parameter or the batch is refused."""
        self.__dict__.pop("_width", None)
        trainer = self._trainer()
        records = self._clean(X, y)
        schedule = self._schedule(records.n)
        plan = Plan(
            schedule=schedule, budget=self.budget, allocation=as_allocation(self.allocation)
        )
        run = Run(plan, trainer)
        self.quarantined_ = 0
        self.releases_, self.ledger_ = run.models.releases, run.ledger
        self.certificate_ = plan.certificate
        self._count(records)
        self._run = run
        run.take(records)


def as_allocation(given: str | Allocation) -> Allocation:
    """An allocation, by its name or as it is."""
    if isinstance(given, Paper | Tapered):
        return given
    if given not in ALLOCATIONS:
        raise refuse("allocation", f"one of {', '.join(ALLOCATIONS)}, or an Allocation", given)
    return ALLOCATIONS[given]
