"""Test releases on public records, and privately on the step that follows them."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError
from tidegate.gate.store import Evaluation
from tidegate.learn import exact_measures, target_measures
from tidegate.learn.learner import Task, Weights
from tidegate.learn.private_accuracy import correct, deviation, margins_of, private_accuracy
from tidegate.learn.records import Records, join
from tidegate.learn.rules import RULES
from tidegate.learn.score_kinds import AnyScores, headline, headline_name, measures_of, read_scores
from tidegate.learn.scores import score
from tidegate.learn.slot_weights import without_owners
from tidegate.learn.survey import Survey, settings
from tidegate.learn.target import RESOLUTION, Target
from tidegate.learn.target_scores import score_targets
from tidegate.learn.transform import Transform
from tidegate.privacy import Budget
from tidegate.privacy.bits import Bits
from tidegate.privacy.budget import Allowance, allowance_of
from tidegate.release import Card, StoredRelease
from tidegate.schedule import Span


def evaluate(  # noqa: PLR0913 - the release, the step and public numbers
    release: StoredRelease,
    step: Records,
    *,
    with_scores: bool,
    norm: float,
    budget: Budget,
    share: Fraction,
    bits: Bits,
    rules: int = RULES,
) -> Evaluation:
    """How good a release is on the step after it. Every record of the step pays the share.

    Args:
        release: The release.
        step: The records of the step.
        with_scores: Whether to count scores; otherwise only the accuracy is measured.
        norm: The public bound on the norm of every record.
        budget: The budget of the state.
        share: What each record pays.
        bits: Source of randomness.
        rules: The number of the public rules that scores follow.
    """
    paid = allowance_of(budget, share)
    found: dict[str, Any] = {"release": release.number, "share": share}
    noise: dict[str, Any] = {"norm": norm, "allowance": paid, "bits": bits}
    if not with_scores:
        accuracy = private_accuracy(release.weights, step, release.transform, **noise)
        return Evaluation(**found, value=accuracy, deviation=deviation(step.n, paid))
    scores = _scores(release, without_owners(step), rules=rules, **noise)
    first = headline(scores)
    return Evaluation(
        **found, value=first.value, deviation=first.deviation, scores=scores.as_json()
    )


def _scores(  # noqa: PLR0913 - see `evaluate`
    release: StoredRelease,
    step: Records,
    *,
    norm: float,
    allowance: Allowance,
    bits: Bits,
    rules: int,
) -> AnyScores:
    """The scores of a release on a step: of classes, or of a target."""
    margins = margins_of(release.weights, step, release.transform, norm=norm)
    target = release.target
    shared: dict[str, Any] = {
        "allowance": allowance,
        "bits": bits,
        "person_weights": step.person_weights,
    }
    if target is None:
        classes = len(release.card["classes"])
        return score(margins, step.y, step.usable, classes=classes, rules=rules, **shared)
    shared |= {"low": target.low, "high": target.high}
    return score_targets(margins, _truths(step), step.usable, **shared)


def _truths(records: Records) -> NDArray[np.float64]:
    """The targets of records, in units in which the range is from -1 to 1."""
    return np.multiply(records.y, RESOLUTION, dtype=np.float64)


def on_card(evaluation: Evaluation, span: Span) -> Card:
    """An evaluation in the form that cards have it."""
    return {
        "of_release": evaluation.release,
        "start": span.start,
        "stop": span.stop,
        headline_name(evaluation.scores): evaluation.value,
        "deviation": evaluation.deviation,
        "share": str(evaluation.share),
        **({} if evaluation.scores is None else scores_on_card(evaluation.scores)),
    }


def scores_on_card(noisy: Mapping[str, Any]) -> Card:
    """The noisy counts of an evaluation and what they tell, in the form that cards have them."""
    measures = measures_of(read_scores(noisy))
    return {"scores": measures.as_json(), "noisy_counts": dict(noisy)}


def counted_by(task: Task) -> Literal["classes", "parts"]:
    """What the surveys of a task count: classes, or parts of a target's range."""
    return "parts" if task.predicts_target else "classes"


def shares_of(survey: Mapping[str, Any]) -> list[float]:
    """The noisy shares of classes, or of parts of a target's range, in a survey on a card."""
    shares: list[float] = survey["parts" if "parts" in survey else "classes"]
    return shares


def survey_on_card(survey: Survey, share: Fraction, span: Span, *, counted: str) -> Card:
    """The survey of a step in the form that cards have it: shares of classes and of unusable.

    Args:
        survey: The survey.
        share: What each record paid for it.
        span: The step.
        counted: Whether it counts "classes", or the "parts" of a target's range.
    """
    count = survey.deviations.counts / survey.total
    return {
        "start": span.start,
        "stop": span.stop,
        "share": str(share),
        counted: [float(each) / survey.total for each in survey.counts],
        "unusable": survey.unusable_share,
        "deviation": count,
        **({"total": survey.total} if survey.persons else {}),
        "settings": dict(
            settings(
                survey.allowance,
                features=survey.features,
                rules=survey.rules,
                pairs=survey.pairs.size > 0,
            )
        ),
    }


def public_records(name: str | None, parts: Iterable[Records]) -> Records:
    """Join the public records on which releases are tested; refuse them if none is usable."""
    batches = list(parts)
    if not any(batch.usable.any() for batch in batches):
        advice = "check that [records] columns, label and classes or target match it"
        raise InvalidValueError(f"{name} holds no usable record: {advice}")
    return join(batches)


def on_public(
    weights: Weights,
    records: Records,
    transform: Transform | None,
    predicted: int | Target,
    *,
    norm: float,
) -> Card:
    """How good a model is on public records, for its card. It costs nothing.

    Args:
        weights: The model.
        records: The public records.
        transform: The transform of the release, if it has one.
        predicted: The number of classes, or the target.
        norm: The public bound on the norm of every record.
    """
    margins = margins_of(weights, records, transform, norm=norm)
    usable = int(records.usable.sum())
    if isinstance(predicted, Target):
        ends = {"low": predicted.low, "high": predicted.high}
        found = target_measures.exact(margins, _truths(records), records.usable, **ends)
        mae = None if found.mae is None else found.mae.value
        return {"records": usable, "mae": mae, "scores": found.as_json()}
    measures = exact_measures.exact(margins, records.y, records.usable, predicted)
    return {
        "records": usable,
        "accuracy": correct(weights, records, transform, norm=norm) / usable,
        "scores": measures.as_json(),
    }
