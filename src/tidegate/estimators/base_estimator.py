"""The base class of all estimators."""

from collections import Counter
from collections.abc import Mapping, Set
from copy import copy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from secrets import token_bytes
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import validate_data

from tidegate.checks import FewAdmittedWarning, InvalidValueError, refuse, warn_caller
from tidegate.data.columns import TableColumns
from tidegate.data.feature_map import described_map
from tidegate.data.intake import CategoryIntake, Intake
from tidegate.data.owners import as_list, check_type, owned_by, owners_of
from tidegate.data.records import Records
from tidegate.estimators.spending import note_batch, warn_if_standardised
from tidegate.learn.learner import Learner, Weights
from tidegate.privacy import Allocation, Budget, Certificate, Ledger, Paper, Tapered
from tidegate.privacy.noise import bits_of
from tidegate.privacy.person import Person
from tidegate.release import About, Release
from tidegate.run.engine import Engine, Memory
from tidegate.run.memory_run import MemoryRun
from tidegate.run.settings import OneSource, Settings
from tidegate.run.step_admission import StepAdmission, few_admitted, warning
from tidegate.schedule import Schedule
from tidegate.schedule.plan import AnyPlan, Plan
from tidegate.schedule.protocol import SCHEDULES

ALLOCATIONS: dict[str, Allocation] = {"paper": Paper(), "tapered": Tapered()}


class Learning(NamedTuple):
    """What an estimator learns, how, and how it reads records."""

    task: Any
    learner: Learner[Any]
    intake: Intake | CategoryIntake


@dataclass(frozen=True, kw_only=True)
class Begun:
    """A stream in progress, whose parameters are fixed until the next `fit`.

    Attributes:
        run: Carries out the plan.
        intake: Converts batches to records: an Intake or a CategoryIntake.
        attributes: The fitted attributes that the estimator shows.
        parameters: The parameters of the estimator when the stream began.
        key: With which ids of persons are hashed; None if records are protected.
    """

    run: MemoryRun
    intake: Any
    attributes: Mapping[str, Any]
    parameters: Mapping[str, Any]
    key: bytes | None = field(default=None, repr=False)


class StreamEstimator(BaseEstimator):
    """An estimator of streams; subclasses define the task, the records and the schedule.

    Args:
        budget: The bound on the privacy loss of any one record, over all time; of any one person if
            contributions is set.
        allocation: How the budget is divided among levels: "paper", "tapered" or an Allocation.
        compute: Where fits are computed, such as a Dask cluster; by default in memory.
        contributions: Protects persons instead of records: the budget is then about any one
            person, whose records together may cost this many times what one record may cost. By
            default records are protected.
        period: With `contributions`, protect what a person does within any `period` consecutive
            steps; by default for life.
        typical: With `contributions`, how many records of a fit a person is expected to have. It
            sizes descents, means and histograms, and enters no guarantee.
        not_private_seed: A seed makes the noise repeatable, so NOT PRIVATE: for studies and tests.

    Attributes:
        releases_: All releases so far, the newest last.
        quarantined_: How many records could not be used; for the operator only.
    """

    budget: Budget
    allocation: str | Allocation
    not_private_seed: int | None
    compute: Engine | None = None
    contributions: int | None
    period: int | None
    typical: Any

    releases_: list[Release]
    ledger_: Ledger
    certificate_: Certificate
    quarantined_: int
    _begun: Begun

    def _begin(
        self,
        schedule: Schedule,
        learning: Learning,
        survey: Fraction = Fraction(0),
        **attributes: Any,
    ) -> Begun:
        """Make a new stream, without changing the estimator."""
        if type(schedule) not in SCHEDULES.values():
            names = ", ".join(each.__name__ for each in SCHEDULES.values())
            raise refuse("schedule", f"a schedule of one stream ({names})", schedule)
        # Copy it: a schedule caches what it computes, and a parameter must not change.
        plan = Plan(schedule=copy(schedule), survey=survey, **self._shares())
        run = self._run(plan, learning)
        shown = {"ledger_": run.steps.ledgers, "certificate_": plan.certificate, **attributes}
        return self._begun_with(run, shown)

    def _shares(self) -> dict[str, Any]:
        """What a plan says about shares, from the parameters that all estimators have."""
        person, allocation = self._person(), self._allocation()
        return {"budget": self._budget(), "allocation": allocation, "person": person}

    def _run(self, plan: AnyPlan, learning: Learning) -> MemoryRun:
        """A new run: everything that it is told is resolved here."""
        return MemoryRun(
            Settings(
                plan=plan,
                task=learning.task,
                learner=learning.learner,
                intake=learning.intake,
                features=described_map(getattr(learning.intake, "features", None)),
                noise=OneSource(bits_of(self.not_private_seed)),
                engine=self._engine(),
            )
        )

    def _begun_with(self, run: MemoryRun, attributes: Mapping[str, Any]) -> Begun:
        return Begun(
            run=run,
            intake=run.settings.intake,
            attributes={"releases_": run.releases, **attributes},
            parameters=self.get_params(),
            key=token_bytes(32) if run.plan.protects.persons else None,
        )

    def _engine(self) -> Engine:
        engine = Memory() if self.compute is None else self.compute
        if not hasattr(engine, "parts"):
            raise refuse("compute", "None or an engine, such as Dask()", self.compute)
        return engine

    def _budget(self) -> Budget:
        if not isinstance(self.budget, Budget):
            raise refuse("budget", "PureDP or ApproxDP", self.budget)
        person = self._person()
        if person:
            return replace(self.budget, contributions=person.contributions)
        if self.budget.contributions != 1:
            raise InvalidValueError(
                "the budget has contributions, but the estimator has none: "
                f"set contributions={self.budget.contributions} on the estimator"
            )
        return self.budget

    def _person(self) -> Person | None:
        """How much a person may contribute; None if records are protected."""
        if self.contributions is not None:
            return Person(
                contributions=self.contributions, typical=self.typical, period=self.period
            )
        for name, usual in (("period", None), ("typical", 1)):
            if getattr(self, name) != usual:
                raise InvalidValueError(f"{name} is set, but contributions is not: set both")
        return None

    def _allocation(self) -> Allocation:
        """The allocation, looked up if it is given by name."""
        given: Any = self.allocation
        if isinstance(given, Allocation):
            return given
        if not isinstance(given, str) or given not in ALLOCATIONS:
            raise refuse("allocation", f"one of {', '.join(ALLOCATIONS)}, or an Allocation", given)
        return ALLOCATIONS[given]

    def _take(self, begun: Begun, X: Any, y: Any, *stream: Any, persons: Any = None) -> Self:
        """Take in a whole batch, or refuse it before anything changes.

        If a fit is interrupted, the batch has been taken in, and the next batch completes the step.
        """
        new = begun is not vars(self).get("_begun")
        if not new:
            begun.run.check_going()
            self._check_parameters(begun.parameters)
            self._check_columns(X, reset=False)
        records = owned(begun.intake.records(X, y), persons, begun.key)
        if begun.run.settings.private:  # with a seed nothing is promised that could be lost
            self._warn(begun.run, X, new=new)
        if new:
            for name in ("n_features_in_", "feature_names_in_"):  # of an earlier stream
                self.__dict__.pop(name, None)
            self._check_columns(X, reset=True)
            if getattr(self, "features", None) is None and records.X.shape[1]:
                self.n_features_in_ = int(records.X.shape[1])
            begun = replace(begun, intake=begun.intake.after(records))
            begun.run.steps.about = self._about(begun, records)
            self.__dict__.update(begun.attributes, quarantined_=0, _begun=begun)
        self.quarantined_ += int((~records.usable).sum())
        before = few_admitted(begun.run.admissions)
        self._hand_over(begun.run, records, *stream)
        for name, step in few_admitted(begun.run.admissions).items():
            person = begun.run.plan.person
            if name not in before and person:  # not again at every step after
                said = warning(step, person, "In a new stream")
                warn_caller(said, FewAdmittedWarning)
        return self

    def _warn(self, run: MemoryRun, X: Any, *, new: bool) -> None:
        """Warn if records are learnt from again, or were prepared by a step that learns."""
        if new:
            warn_if_standardised(X)
        note_batch(type(self).__name__, run, X, again=new and hasattr(self, "_begun"))

    def _about(self, begun: Begun, records: Records) -> About:
        """What the cards of the stream say about its settings."""
        columns, dtype = self._column_names(), str(records.X.dtype)
        return replace(begun.run.settings, columns=columns, dtype=dtype).about

    def _column_names(self) -> tuple[str, ...] | None:
        """The names of the columns of the stream, if they have names."""
        return tuple(getattr(self, "feature_names_in_", ())) or None

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

        Lists are not checked: their first element is a record, which may be of any type. `Columns`
        finds its own columns by their names, in any order, and ignores others.
        """
        features = getattr(self, "features", None)
        first = features.steps[0][1] if isinstance(features, Pipeline) else features
        if isinstance(first, TableColumns):
            if reset:
                self.n_features_in_ = len(first.names)
                self.feature_names_in_ = np.array(first.names, object)
        elif len(getattr(X, "shape", ())) == 2:
            names = getattr(X, "column_names", getattr(X, "columns", ()))  # of Arrow, of a frame
            if twice := [name for name, times in Counter(names).items() if times > 1]:
                raise InvalidValueError(f"X has the column {twice[0]!r} twice: name each once")
            validate_data(self, X, reset=reset, skip_check_array=True)

    @property
    def admitted_(self) -> list[StepAdmission]:
        """How many records of each step count, if persons are protected: SECRET, for you alone.

        The numbers are exact, without noise, and no budget covers them: show them to nobody who may
        not see the records. No release, card or export has them. Each entry has `span`, `records`
        (how many have a person), `counted` (how many of these are learnt from) and their `share`.
        """
        begun = vars(self).get("_begun")
        if not begun or not begun.run.plan.protects.persons:
            missing = "it protects records" if begun else "it is not fitted yet"
            raise AttributeError(f"this {type(self).__name__} has no admitted_: {missing}")
        run: MemoryRun = begun.run
        return run.admissions

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
        if not begun:
            return "call fit with records first"
        run: MemoryRun = begun.run
        missing = run.plan.first - run.steps.count(run.progress.streams[0])
        return f"{missing:,} more records have to arrive before the first release; call partial_fit"

    def __sklearn_is_fitted__(self) -> bool:
        return bool(getattr(self, "releases_", None))


def owned(records: Records, persons: Any, key: bytes | None) -> Records:
    """The records with their owners, if persons are protected.

    Args:
        records: The records.
        persons: The id of the person of each.
        key: The key with which ids are hashed; None if records are protected.
    """
    if not key:
        if persons is not None:
            raise InvalidValueError(
                "persons are given, but the estimator protects records: set contributions, the "
                "most that a person's records may cost together, in units of one record"
            )
        return records
    if persons is None:
        raise InvalidValueError(
            "persons are missing: because contributions is set, give persons=, an id for each "
            "record"
        )
    if isinstance(persons, str | bytes | Set | Mapping) or getattr(persons, "ndim", 1) != 1:
        raise refuse("persons", "one-dimensional, an id for each record", shown="something else")
    check_type(persons)
    ids = as_list(persons)
    if len(ids) != records.n:
        raise refuse("persons", f"{records.n} ids, one for each record", shown=f"{len(ids)}")
    return owned_by(records, owners_of(ids, key).owners)


def _same(one: Any, other: Any) -> bool:
    """Whether two values of a parameter are equal; a transformer's own are compared by name.

    >>> _same(np.array([1, 2]), np.array([1, 2])), _same([0, 1], ["0", "1"])
    (True, False)
    """
    if one is other or type(one) is not type(other):
        return one is other
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    gaps = isinstance(one, float) and np.isnan(one) and np.isnan(other)
    return isinstance(one, BaseEstimator) or gaps or np.array_equal(one, other)
