"""How good releases are: on public records, and privately on the step that comes after them."""

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
    """Try a release on the step after it: every record of the step pays the share, once."""
    spent = allowance_of(budget, share)
    return Evaluation(
        release=release.number,
        share=share,
        accuracy=private_accuracy(release.weights, step, allowance=spent, bits=bits),
        deviation=deviation(step.n, spent),
    )


def on_card(evaluation: Evaluation, span: Span) -> Card:
    """An evaluation as a card of the step's releases tells it."""
    return {
        "of_release": evaluation.release,
        "start": span.start,
        "stop": span.stop,
        "accuracy": evaluation.accuracy,
        "deviation": evaluation.deviation,
        "share": str(evaluation.share),
    }


def public_records(name: str | None, parts: Iterable[Records]) -> Records:
    """The public records that releases are tried on, refused if there is no usable one."""
    found = list(parts)
    if not any(part.usable.any() for part in found):
        advice = "are [records] columns, label and classes as it has them?"
        raise InvalidValueError(f"{name} holds no usable record: {advice}")
    return join(found)


def on_public(weights: Weights, records: Records) -> Card:
    """How good a model is on public records, as its card tells it: it costs nothing."""
    usable = int(records.usable.sum())
    return {"records": usable, "accuracy": correct(weights, records) / usable}
