"""Carrying out a plan: each fit on its span, from its prior, for its share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

from tidegate.checks import refuse
from tidegate.learn.learner import LEARNERS, Learner, Pull, Terms, Weights
from tidegate.learn.parts import Parts
from tidegate.learn.records import Records, Slots
from tidegate.privacy import Budget, Line, epsilon_for_sample
from tidegate.privacy.bits import Bits
from tidegate.privacy.budget import Allowance, allowance_of
from tidegate.privacy.sampling import draw
from tidegate.schedule import RecordFit, SlotWeight, Span

AnyTask = TypeVar("AnyTask", bound=Pull)

Read = Callable[[Span, Slots | None, Sequence[SlotWeight]], Parts[Records]]
"""Reads a span, or some slots counted from its start, and what slots count for if not 1."""


@dataclass(frozen=True, kw_only=True)
class Trainer(Generic[AnyTask]):
    """Makes a plan's lines into models; it holds no records and no models itself.

    Args:
        task: What is learnt.
        learner: How.
        budget: What the shares are shares of.
        bits: Where all randomness comes from.
    """

    task: AnyTask
    learner: Learner[AnyTask]
    budget: Budget
    bits: Bits

    def __post_init__(self) -> None:
        self.learner.check(self.task, self.budget.unit)

    def terms(self, line: Line, prior: Weights | None, start: Weights | None = None) -> Terms:
        """What belongs to one fit alone."""
        fit, share = line
        # Fail closed: there would be too little noise.
        if fit.slot_weights and not self.learner.takes_slot_weights:
            able = [each.__name__ for each in LEARNERS.values() if each.takes_slot_weights]
            wanted = f"{' or '.join(able)} where records count unequally"
            raise refuse("learner", wanted, self.learner)
        return Terms(
            allowance=self.allowance(fit, share),
            prior=prior,
            start=start,
            behind=fit.behind,
            slot_weights=fit.slot_weights,
        )

    def allowance(self, fit: RecordFit, share: Fraction) -> Allowance:
        """What the mechanism on the slots that are read may cost these."""
        whole = allowance_of(self.budget, share)
        if fit.sample is None or whole.unit == "mu":
            return whole
        return whole._replace(amount=epsilon_for_sample(whole.amount, fit.sample, fit.span.size))

    def settings(self, line: Line, d: int, prior: Weights | None) -> Mapping[str, float]:
        """The public numbers of a fit, for its card."""
        return self.learner.settings(self.task, self.terms(line, prior), n=line.fit.counted, d=d)

    def train(
        self, line: Line, read: Read, prior: Weights | None, start: Weights | None = None
    ) -> Weights:
        """The private weights of one fit.

        Args:
            line: The fit and its share.
            read: Where its records are read from.
            prior: The model of the fit that is its prior.
            start: The model of the fit that is its start.
        """
        fit, terms = line.fit, self.terms(line, prior, start)
        slots = None if fit.sample is None else draw(fit.sample, fit.span.size, self.bits)
        records = read(fit.span, slots, fit.slot_weights)
        return self.learner.fit(self.task, terms, records, self.bits)
