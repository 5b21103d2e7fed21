"""Trains the fits of a plan, each on its span, from its prior, with its share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, Protocol, TypeVar

from tidegate.checks import refuse
from tidegate.data.records import Parts, Records, Slots
from tidegate.learn.learner import (
    Fitted,
    Learner,
    PersonLearner,
    Pull,
    Refits,
    Terms,
    Weights,
)
from tidegate.learn.rules import RULES
from tidegate.privacy import Budget, Line, epsilon_for_sample
from tidegate.privacy.budget import Allowance, allowance_of
from tidegate.privacy.noise import Bits
from tidegate.privacy.sampling import draw
from tidegate.schedule import RecordFit, SlotWeight, Span

AnyTask = TypeVar("AnyTask", bound=Pull)

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
class Trainer(Generic[AnyTask]):
    """Turns the lines of a plan into models; it stores no records and no models itself.

    Args:
        task: What to learn.
        learner: How to learn it.
        budget: The budget of which fits spend shares.
        bits: Source of all randomness.
        class_shares: The shares of the classes, as the surveys tell; empty without surveys.
        typical: How many slots a person is expected to have in a fit; None if records are
            protected, not persons.
        rules: The number of the public rules that fits follow.
    """

    task: AnyTask
    learner: Learner[AnyTask]
    budget: Budget
    bits: Bits
    class_shares: tuple[float, ...] = ()
    typical: Fraction | None = None
    rules: int = RULES

    def __post_init__(self) -> None:
        self.learner.check(self.task, self.budget.unit)
        if self.typical is not None and not isinstance(self.learner, PersonLearner):
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
            typical=self.typical,
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
        if self.typical is None or not isinstance(learner, PersonLearner):
            return None
        return lambda n, d: learner.person_factors(self.task, terms, n=n, d=d)
