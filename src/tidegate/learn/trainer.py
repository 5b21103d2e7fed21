"""Trains the fits of a plan, each on its span, from its prior, with its share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

from tidegate.learn.learner import Fitted, Learner, Pull, Refits, Terms, Weights
from tidegate.learn.parts import Parts
from tidegate.learn.records import Records, Slots
from tidegate.privacy import Budget, Line, epsilon_for_sample
from tidegate.privacy.bits import Bits
from tidegate.privacy.budget import Allowance, allowance_of
from tidegate.privacy.sampling import draw
from tidegate.schedule import RecordFit, SlotWeight, Span

AnyTask = TypeVar("AnyTask", bound=Pull)

Read = Callable[[Span, Slots | None, Sequence[SlotWeight]], Parts[Records]]
"""Reads a span (or some of its slots, counted from its start) with its slot weights."""


@dataclass(frozen=True, kw_only=True)
class Trainer(Generic[AnyTask]):
    """Turns the lines of a plan into models; it stores no records and no models itself.

    Args:
        task: What to learn.
        learner: How to learn it.
        budget: The budget of which fits spend shares.
        bits: Source of all randomness.
        class_shares: The shares of the classes, as the surveys tell; empty without surveys.
    """

    task: AnyTask
    learner: Learner[AnyTask]
    budget: Budget
    bits: Bits
    class_shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        self.learner.check(self.task, self.budget.unit)

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
        records = read(fit.span, slots, fit.slot_weights)
        if isinstance(self.learner, Refits):
            return self.learner.fitted(self.task, terms, records, self.bits)
        return Fitted(self.learner.fit(self.task, terms, records, self.bits))
