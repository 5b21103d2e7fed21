"""Test releases on public records, and privately on the step that follows them."""

from collections.abc import Iterable
from fractions import Fraction

from tidegate.checks import InvalidValueError
from tidegate.gate.store import Evaluation
from tidegate.learn.learner import Weights
from tidegate.learn.private_accuracy import correct, deviation, private_accuracy
from tidegate.learn.records import Records, join
from tidegate.privacy import Budget
from tidegate.privacy.bits import Bits
from tidegate.privacy.budget import allowance_of
from tidegate.release import Card, StoredRelease
from tidegate.schedule import Span


def evaluate(
    release: StoredRelease, step: Records, *, budget: Budget, share: Fraction, bits: Bits
) -> Evaluation:
    """Test a release on the step after it. Every record of the step pays the share once."""
    spent = allowance_of(budget, share)
    return Evaluation(
        release=release.number,
        share=share,
        accuracy=private_accuracy(release.weights, step, allowance=spent, bits=bits),
        deviation=deviation(step.n, spent),
    )


def on_card(evaluation: Evaluation, span: Span) -> Card:
    """An evaluation in the form that cards have it."""
    return {
        "of_release": evaluation.release,
        "start": span.start,
        "stop": span.stop,
        "accuracy": evaluation.accuracy,
        "deviation": evaluation.deviation,
        "share": str(evaluation.share),
    }


def public_records(name: str | None, parts: Iterable[Records]) -> Records:
    """Join the public records on which releases are tested; refuse them if none is usable."""
    batches = list(parts)
    if not any(batch.usable.any() for batch in batches):
        advice = "check that [records] columns, label and classes match it"
        raise InvalidValueError(f"{name} holds no usable record: {advice}")
    return join(batches)


def on_public(weights: Weights, records: Records) -> Card:
    """The accuracy of a model on public records, for its card. It costs nothing."""
    usable = int(records.usable.sum())
    return {"records": usable, "accuracy": correct(weights, records) / usable}
