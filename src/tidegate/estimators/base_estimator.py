"""The base class of all estimators."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from tidegate.checks import InvalidValueError, refuse
from tidegate.compute import Engine
from tidegate.learn.intake import CategoryIntake, Intake
from tidegate.learn.learner import Learner, Weights
from tidegate.learn.records import Records
from tidegate.learn.trainer import Trainer
from tidegate.memory_run import MemoryRun
from tidegate.plan import Plan
from tidegate.privacy import Allocation, Budget, Certificate, Ledger, Paper, Tapered
from tidegate.privacy.bits import NotPrivateBits, SystemBits
from tidegate.release import Release
from tidegate.schedule import Schedule
from tidegate.schedule.registry import SCHEDULES

ALLOCATIONS: dict[str, Allocation] = {"paper": Paper(), "tapered": Tapered()}


@dataclass(frozen=True, kw_only=True)
class Begun:
    """A stream in progress, whose parameters are fixed until the next `fit`.

    Attributes:
        run: Carries out the plan.
        intake: Converts batches to records: an Intake or a CategoryIntake.
        attributes: The fitted attributes that the estimator shows.
        parameters: The parameters of the estimator when the stream began.
    """

    run: MemoryRun
    intake: Any
    attributes: Mapping[str, Any]
    parameters: Mapping[str, Any]


class StreamEstimator(BaseEstimator):
    """An estimator of streams; subclasses define the task, the records and the schedule."""

    budget: Budget
    allocation: str | Allocation
    not_private_seed: int | None
    compute: Engine | None = None

    releases_: list[Release]
    ledger_: Ledger
    certificate_: Certificate
    quarantined_: int
    _begun: Begun

    def _begin(
        self,
        schedule: Schedule,
        trainer: Trainer[Any],
        intake: Intake | CategoryIntake,
        survey: Fraction = Fraction(0),
        **attributes: Any,
    ) -> Begun:
        """Make a new stream, without changing the estimator."""
        if type(schedule) not in SCHEDULES.values():
            names = ", ".join(each.__name__ for each in SCHEDULES.values())
            raise refuse("schedule", f"a schedule of one stream ({names})", schedule)
        # Copy it: a schedule caches what it computes, and a parameter must not change.
        plan = Plan(
            schedule=copy(schedule),
            budget=self.budget,
            allocation=self._allocation(),
            survey=survey,
        )
        run = MemoryRun(plan, trainer, self._engine())
        shown = {"ledger_": run.ledgers, "certificate_": plan.certificate, **attributes}
        return self._begun_with(run, intake, shown)

    def _begun_with(self, run: MemoryRun, intake: Any, attributes: Mapping[str, Any]) -> Begun:
        return Begun(
            run=run,
            intake=intake,
            attributes={"releases_": run.releases, **attributes},
            parameters=self.get_params(),
        )

    def _trainer(self, task: Any, learner: Learner[Any]) -> Trainer[Any]:
        seed = self.not_private_seed
        bits = SystemBits() if seed is None else NotPrivateBits(seed)
        return Trainer(task=task, learner=learner, budget=self._budget(), bits=bits)

    def _engine(self) -> Engine | None:
        if self.compute is not None and not hasattr(self.compute, "parts"):
            raise refuse("compute", "None or an engine, such as Dask()", self.compute)
        return self.compute

    def _budget(self) -> Budget:
        if not isinstance(self.budget, Budget):
            raise refuse("budget", "PureDP or ApproxDP", self.budget)
        return self.budget

    def _allocation(self) -> Allocation:
        """The allocation, looked up if it is given by name."""
        given: Any = self.allocation
        if isinstance(given, Allocation):
            return given
        if not isinstance(given, str) or given not in ALLOCATIONS:
            raise refuse("allocation", f"one of {', '.join(ALLOCATIONS)}, or an Allocation", given)
        return ALLOCATIONS[given]

    def _take(self, begun: Begun, X: Any, y: Any, *stream: Any) -> Self:
        """Take in a whole batch, or refuse it before anything changes.

        If a fit is interrupted, the batch has been taken in, and the next batch completes the step.
        """
        new = begun is not vars(self).get("_begun")
        if not new:
            begun.run.check_going()
            self._check_parameters(begun.parameters)
            self._check_columns(X, reset=False)
        records = begun.intake.records(X, y)
        if new:
            self._check_columns(X, reset=True)
            if getattr(self, "features", None) is None and records.X.shape[1]:
                self.n_features_in_ = int(records.X.shape[1])
            begun = replace(begun, intake=begun.intake.after(records))
            self.__dict__.update(begun.attributes, quarantined_=0, _begun=begun)
        self.quarantined_ += int((~records.usable).sum())
        self._hand_over(begun.run, records, *stream)
        return self

    def _hand_over(self, run: Any, records: Records, *stream: Any) -> None:
        """Add records to the stream."""
        run.take(records, *stream)

    def _check_parameters(self, begun: Mapping[str, Any]) -> None:
        """Refuse parameters that changed since the stream began: they would have no effect."""
        now = self.get_params()
        for name, value in begun.items():
            if not _same(now.get(name), value):
                raise InvalidValueError(
                    f"{name} has changed since the stream began: set it back, or call fit to "
                    "start a new stream, which charges its records again"
                )

    def _check_columns(self, X: Any, *, reset: bool) -> None:
        """Store the number and names of columns, or refuse a batch with different ones.

        Lists are not checked: their first element is a record, which may be of any type.
        """
        if getattr(X, "ndim", None) == 2:
            validate_data(self, X, reset=reset, skip_check_array=True)

    def _newest(self) -> Weights:
        """The weights of the newest release."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: {self._missing()}"
            )
        return self.releases_[-1].weights

    def _missing(self) -> str:
        """What is needed before there is a model."""
        begun = vars(self).get("_begun")
        if begun is None:
            return "call fit with records first"
        run: MemoryRun = begun.run
        missing = run.plan.first - run.count(run.progress.streams[0])
        return f"{missing:,} more records have to arrive before the first release; call partial_fit"

    def __sklearn_is_fitted__(self) -> bool:
        return bool(getattr(self, "releases_", None))


def _same(one: Any, other: Any) -> bool:
    """Whether two values of a parameter are equal; a transformer's own are compared by name.

    >>> _same(np.array([1, 2]), np.array([1, 2])), _same([0, 1], ["0", "1"])
    (True, False)
    """
    if one is other or type(one) is not type(other):
        return one is other
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, BaseEstimator) or np.array_equal(one, other)
