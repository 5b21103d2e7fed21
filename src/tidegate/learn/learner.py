"""What a learner is, and how a plan's fits are trained by one.

A learner turns the records of a fit into private weights. A `Task` is fixed before the first
record; `Terms` belong to one fit. A `Trainer` trains each fit on its span, from its prior, with its
share.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import between, positive, refuse
from tidegate.data.predicted import Target, by_part
from tidegate.data.records import Parts, Records, Slots
from tidegate.learn.loss import Loss, TargetLoss
from tidegate.learn.refit import Fold
from tidegate.learn.rules import RULES
from tidegate.learn.transform import Transform
from tidegate.privacy import Budget, Line, epsilon_for_sample
from tidegate.privacy.budget import Allowance, allowance_of
from tidegate.privacy.noise import Bits
from tidegate.privacy.person import EACH_RECORD, Protects
from tidegate.privacy.sampling import draw
from tidegate.schedule.fit import RecordFit, SlotWeight, Span, mass

Weights = NDArray[np.float64]


class Fitted(NamedTuple):
    """What a fit makes: private weights, and the fold of its refit, which they contain."""

    weights: Weights
    fold: Fold = Fold()


Unit = Literal["epsilon", "mu"]


LARGEST_PULL = 2.0**500
"""The largest lambda: twice it, and its products with a norm, are finite."""


@dataclass(frozen=True, kw_only=True)
class Pull:
    """The settings of every task, fixed before the first record.

    Attributes:
        norm: The public bound R on the norm of every record.
        regularization: Lambda, the pull towards the prior (or the origin); None leaves it to the
            learner, which chooses it for each fit from public numbers.
    """

    norm: float
    regularization: float | None

    def __post_init__(self) -> None:
        # Store Python floats: arithmetic on NumPy's float32 would round more coarsely.
        object.__setattr__(self, "norm", between("norm", self.norm, 2**-64, 2**64))
        if self.regularization is not None:
            pull = positive("regularization", self.regularization) if self.regularization else 0.0
            if pull > LARGEST_PULL:
                allowed = f"at most {LARGEST_PULL:.4g}"
                raise refuse("regularization", allowed, self.regularization)
            object.__setattr__(self, "regularization", pull)


@dataclass(frozen=True, kw_only=True)
class Task(Pull):
    """A model to learn by minimising a loss.

    Attributes:
        loss: The loss of one record.
        surveyed: Whether rows are transformed by what surveys say; see `Transform`.
    """

    loss: Loss
    surveyed: bool = False

    @property
    def predicts_target(self) -> bool:
        """Whether a number is predicted, not a class."""
        return isinstance(self.loss, TargetLoss)

    @property
    def groups(self) -> int:
        """How many groups surveys count: the classes, or parts of a target's range."""
        return Target.parts if self.predicts_target else max(2, self.loss.outputs)

    def grouped(self, records: Parts[Records]) -> Parts[Records]:
        """The records as surveys count them: with the number of its group for each."""
        return records.map(by_part) if self.predicts_target else records

    def centred(self) -> "Task":
        """The same task on transformed rows, whose norm is bounded by `Transform.NORM`."""
        return replace(self, norm=Transform.NORM, surveyed=True)


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """The settings of one fit.

    Attributes:
        allowance: The budget of the fit, as an epsilon or a mu.
        prior: An earlier model that the fit refines; the regulariser pulls towards it.
        start: An earlier model at which a descent without a prior may start.
        behind: Number of records of the same stream that the prior or the start has learnt from;
            None if the plan does not say.
        slot_weights: The weights of its slots; empty if all are 1.
        class_shares: The share of each class, as surveys say; empty if unknown.
        protects: Who is protected: each record, or persons.
        rules: The number of the public rules that the fit follows; see `tidegate.learn.rules`.
    """

    allowance: Allowance
    prior: Weights | None = None
    start: Weights | None = None
    behind: int | None = None
    slot_weights: tuple[SlotWeight, ...] = ()
    class_shares: tuple[float, ...] = ()
    protects: Protects = EACH_RECORD
    rules: int = RULES

    @property
    def persons(self) -> bool:
        """Whether persons are protected; then records must have person weights."""
        return self.protects.persons

    def mass(self, slots: int) -> Fraction:
        """The sum of the weights of all slots that the fit reads: public."""
        return mass(self.slot_weights, slots)

    def people(self, slots: int) -> Fraction:
        """How many records the fit is worth: its mass over what a person is expected to have."""
        return self.mass(slots) / self.protects.typical


AnyTask = TypeVar("AnyTask", contravariant=True)


@runtime_checkable
class Changed(Protocol[AnyTask]):
    """A learner that chose otherwise in earlier versions what its settings leave open."""

    def earlier(self, task: AnyTask) -> "tuple[Learner[AnyTask], ...]":
        """Learners that choose as earlier versions did, so that their cards can be verified."""


@runtime_checkable
class Refits(Protocol[AnyTask]):
    """A learner that may also refit what it trained."""

    def fitted(self, task: AnyTask, terms: Terms, records: Parts[Records], bits: Bits) -> Fitted:
        """What `Learner.fit` returns, and the fold of the refit that it contains."""


class Learner(Protocol[AnyTask]):
    """Trains private weights from the records of a fit, within the fit's allowance.

    A record of slot weight e may lose at most e times the allowance: it is charged for no more.
    """

    def check(self, task: AnyTask, unit: str) -> None:
        """Refuse an unsupported task or kind of budget, before any record is read."""

    def check_size(self, task: AnyTask, largest: int | None) -> None:
        """Refuse a task whose fits could take too long, before any record is read.

        Args:
            task: What to learn.
            largest: The most slots that a fit will read; None if there is no limit.
        """

    def settings(self, task: AnyTask, terms: Terms, *, n: int, d: int) -> Mapping[str, float]:
        """The public numbers of a fit: all that its card says about how it was made private.

        `tidegate verify` recomputes them for every card of a state. So of the prior only its norm
        may matter, and for one version's states a later version must return the same numbers.

        Args:
            task: What to learn.
            terms: The settings of this fit.
            n: Number of slots that it reads.
            d: Number of features.
        """

    def fit(self, task: AnyTask, terms: Terms, records: Parts[Records], bits: Bits) -> Weights:
        """Private weights for mean(loss) + lambda ||w - prior||^2, over all slots."""


@runtime_checkable
class PersonLearner(Protocol):
    """A learner that can protect persons: whatever all records of a person are, they count for one.

    If all slots of a person change, what is noised may move by at most E times one record's
    sensitivity, E being the largest of their slot weights.
    """

    def person_factors(
        self, task: Any, terms: Terms, *, n: int, d: int
    ) -> Mapping[float, float] | None:
        """What the fit weighs a slot by, for each slot weight, rounded down; None if by that.

        Person weights are made of these numbers.

        Args:
            task: What to learn.
            terms: The settings of this fit.
            n: Number of slots that it reads.
            d: Number of features.
        """


class NamedLearner(Learner[Task], Protocol):
    """A learner that configurations can name; `auto` chooses among these.

    It is a frozen dataclass whose fields are made by `tidegate.kinds.parameter`. One file holds
    everything about it, and `register` adds it to the registry.

    Attributes:
        kind: Its name.
        about: How it makes a fit private, in a few words.
        budgets: The units of the budgets that it supports.
        automatic: The units of the budgets for which "auto" chooses it.
        descends: Whether a fit starts at the model of its `start`; other learners ignore it.
        default_regularization: Lambda if none is given; None if it chooses one for each fit.
    """

    kind: ClassVar[str]
    about: ClassVar[str]
    budgets: ClassVar[tuple[Unit, ...]]
    automatic: ClassVar[tuple[Unit, ...]]
    descends: ClassVar[bool]
    default_regularization: ClassVar[float | None]

    def __init__(self, **parameters: Any) -> None: ...

    def restated(
        self, task: Task, terms: Terms, stated: Mapping[str, float], *, n: int, d: int
    ) -> Mapping[str, float]:
        """The settings that a card must have, given those that cannot be recomputed from a card.

        Args:
            task: What to learn.
            terms: The settings of the fit, as far as its card tells; any prior stands for all.
            stated: The settings on the card.
            n: Number of slots that it reads.
            d: Number of features.
        """


L = TypeVar("L", bound=NamedLearner)

LEARNERS: dict[str, type[NamedLearner]] = {}
"""Every learner that can be named, by its kind."""


def register(learner: type[L]) -> type[L]:
    """Add a learner to the registry; its privacy must be proved."""
    LEARNERS[learner.kind] = learner
    return learner


def automatic_learner(unit: Unit) -> str:
    """The kind of the learner that "auto" stands for.

    >>> automatic_learner("epsilon"), automatic_learner("mu")
    ('output', 'gradient')
    """
    return next(kind for kind, each in LEARNERS.items() if unit in each.automatic)


TrainedTask = TypeVar("TrainedTask", bound=Pull)

Factors = Callable[[int, int], Mapping[float, float] | None]
"""What a fit of n slots and d features weighs slots by; see `PersonLearner`."""


class Read(Protocol):
    """Reads a span of records for a fit."""

    def __call__(
        self,
        span: Span,
        slots: Slots | None = None,
        slot_weights: Sequence[SlotWeight] = (),
        factors: Factors | None = None,
        /,
    ) -> Parts[Records]:
        """The records, with their slot weights and, if persons are protected, person weights.

        Args:
            span: The span.
            slots: Some of its slots, counted from its start; None for all.
            slot_weights: The weights of its parts; empty if all are 1.
            factors: What the fit weighs slots by, if not by their slot weights.
        """


@dataclass(frozen=True, kw_only=True)
class Trainer(Generic[TrainedTask]):
    """Turns the lines of a plan into models; it stores no records and no models itself.

    Args:
        task: What to learn.
        learner: How to learn it.
        budget: The budget of which fits spend shares.
        bits: Source of all randomness.
        class_shares: The shares of the classes, as the surveys tell; empty without surveys.
        protects: Who is protected: each record, or persons.
        rules: The number of the public rules that fits follow.
    """

    task: TrainedTask
    learner: Learner[TrainedTask]
    budget: Budget
    bits: Bits
    class_shares: tuple[float, ...] = ()
    protects: Protects = EACH_RECORD
    rules: int = RULES

    def __post_init__(self) -> None:
        self.learner.check(self.task, self.budget.unit)
        if self.protects.persons and not isinstance(self.learner, PersonLearner):
            shown = type(self.learner).__name__
            raise refuse(
                "learner", "one with person_factors, if persons are protected", shown=shown
            )

    def terms(self, line: Line, prior: Weights | None, start: Weights | None = None) -> Terms:
        """The settings of one fit."""
        fit, share = line
        return Terms(
            allowance=self.allowance(fit, share),
            prior=prior,
            start=start,
            behind=fit.behind,
            slot_weights=fit.slot_weights,
            class_shares=self.class_shares,
            protects=self.protects,
            rules=self.rules,
        )

    def allowance(self, fit: RecordFit, share: Fraction) -> Allowance:
        """The budget of the mechanism, for each slot that the fit reads."""
        whole = allowance_of(self.budget, share)
        if fit.sample is None or whole.unit == "mu":
            return whole
        return whole._replace(amount=epsilon_for_sample(whole.amount, fit.sample, fit.span.size))

    def settings(self, line: Line, d: int, prior: Weights | None) -> Mapping[str, float]:
        """The public numbers of a fit, for its card."""
        slots = line.fit.sample or line.fit.span.size
        return self.learner.settings(self.task, self.terms(line, prior), n=slots, d=d)

    def train(
        self, line: Line, read: Read, prior: Weights | None, start: Weights | None = None
    ) -> Fitted:
        """The private weights of one fit, and the fold of its refit.

        Args:
            line: The fit and its share.
            read: The function that reads its records.
            prior: The model of its prior fit.
            start: The model of the fit that it starts at.
        """
        fit, terms = line.fit, self.terms(line, prior, start)
        slots = None if fit.sample is None else draw(fit.sample, fit.span.size, self.bits)
        records = read(fit.span, slots, fit.slot_weights, self._factors(terms))
        if isinstance(self.learner, Refits):
            return self.learner.fitted(self.task, terms, records, self.bits)
        return Fitted(self.learner.fit(self.task, terms, records, self.bits))

    def _factors(self, terms: Terms) -> Factors | None:
        learner = self.learner
        if not self.protects.persons or not isinstance(learner, PersonLearner):
            return None
        return lambda n, d: learner.person_factors(self.task, terms, n=n, d=d)
