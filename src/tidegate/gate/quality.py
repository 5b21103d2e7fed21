"""Test releases on public records, and privately on the step that follows them."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from tidegate.checks import InvalidValueError
from tidegate.gate.store import Evaluation
from tidegate.learn.learner import Weights
from tidegate.learn.measures import Measure, exact, of_scores
from tidegate.learn.private_accuracy import correct, deviation, margins_of, private_accuracy
from tidegate.learn.records import Records, join
from tidegate.learn.scores import Scores, score
from tidegate.learn.slot_weights import without_owners
from tidegate.learn.survey import Survey, settings
from tidegate.learn.transform import Transform
from tidegate.privacy import Budget
from tidegate.privacy.bits import Bits
from tidegate.privacy.budget import allowance_of
from tidegate.release import Card, StoredRelease
from tidegate.schedule import Span


def evaluate(
    release: StoredRelease, step: Records, *, budget: Budget, share: Fraction, bits: Bits
) -> Evaluation:
    """The accuracy of a release on the step after it. Every record of the step pays the share."""
    spent, weights = allowance_of(budget, share), release.weights
    return Evaluation(
        release=release.number,
        share=share,
        accuracy=private_accuracy(weights, step, release.transform, allowance=spent, bits=bits),
        deviation=deviation(step.n, spent),
    )


def scored(
    release: StoredRelease, step: Records, *, budget: Budget, share: Fraction, bits: Bits
) -> Evaluation:
    """The scores of a release on the step after it. Every record of the step pays the share."""
    scores = score(
        margins_of(release.weights, step, release.transform),
        without_owners(step).y,
        step.usable,
        classes=len(release.card["classes"]),
        allowance=allowance_of(budget, share),
        bits=bits,
        person_weights=step.person_weights,
    )
    accuracy = accuracy_of(scores)
    return Evaluation(
        release=release.number,
        share=share,
        accuracy=accuracy.value,
        deviation=accuracy.deviation,
        scores=scores.as_json(),
    )


def accuracy_of(scores: Scores) -> Measure:
    """The accuracy that noisy scores tell; of all slots if the noise hides that any is usable."""
    of_all = Measure(float(scores.counts[0]) / scores.total, scores.count_deviation / scores.total)
    return of_scores(scores).accuracy or of_all


def on_card(evaluation: Evaluation, span: Span) -> Card:
    """An evaluation in the form that cards have it."""
    return {
        "of_release": evaluation.release,
        "start": span.start,
        "stop": span.stop,
        "accuracy": evaluation.accuracy,
        "deviation": evaluation.deviation,
        "share": str(evaluation.share),
        **({} if evaluation.scores is None else scores_on_card(evaluation.scores)),
    }


def scores_on_card(noisy: Mapping[str, Any]) -> Card:
    """The noisy counts of an evaluation and what they tell, in the form that cards have them."""
    measures = of_scores(Scores.of_json(noisy))
    return {"scores": measures.as_json(), "noisy_counts": dict(noisy)}


def survey_on_card(survey: Survey, share: Fraction, span: Span) -> Card:
    """The survey of a step in the form that cards have it: shares of classes and of unusable."""
    count = survey.deviations.counts / survey.total
    return {
        "start": span.start,
        "stop": span.stop,
        "share": str(share),
        "classes": [float(each) / survey.total for each in survey.counts],
        "unusable": survey.unusable_share,
        "deviation": count,
        **({"total": survey.total} if survey.persons else {}),
        "settings": dict(settings(survey.allowance, features=survey.features)),
    }


def public_records(name: str | None, parts: Iterable[Records]) -> Records:
    """Join the public records on which releases are tested; refuse them if none is usable."""
    batches = list(parts)
    if not any(batch.usable.any() for batch in batches):
        advice = "check that [records] columns, label and classes match it"
        raise InvalidValueError(f"{name} holds no usable record: {advice}")
    return join(batches)


def on_public(
    weights: Weights,
    records: Records,
    transform: Transform | None,
    classes: int,
) -> Card:
    """How good a model is on public records, for its card. It costs nothing."""
    margins = margins_of(weights, records, transform)
    measures = exact(margins, records.y, records.usable, classes)
    usable = int(records.usable.sum())
    return {
        "records": usable,
        "accuracy": correct(weights, records, transform) / usable,
        "scores": measures.as_json(),
    }
