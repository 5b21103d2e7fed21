"""Test releases on public records, and privately on the step that follows them."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from tidegate.checks import InvalidValueError
from tidegate.data.predicted import Predicted
from tidegate.data.records import Records, join
from tidegate.learn.learner import Weights
from tidegate.learn.measures.measure import Measures
from tidegate.learn.private_accuracy import deviation, margins_of, private_accuracy
from tidegate.learn.rules import RULES
from tidegate.learn.score_kinds import KINDS, headline, headline_name, measures_of, read_scores
from tidegate.learn.slot_weights import without_owners
from tidegate.learn.survey import Survey, settings
from tidegate.learn.transform import Prepared
from tidegate.privacy import Budget
from tidegate.privacy.budget import allowance_of
from tidegate.privacy.noise import Bits
from tidegate.release import Card, StoredRelease
from tidegate.schedule import Span
from tidegate.state.store import Evaluation


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
    if not with_scores:
        accuracy = private_accuracy(
            release.weights, step, release.prepared, norm=norm, allowance=paid, bits=bits
        )
        return Evaluation(**found, value=accuracy, deviation=deviation(step.n, paid))
    step = without_owners(step)
    scores = KINDS[release.predicted.kind].score(
        release.predicted,
        margins_of(release.weights, step, release.prepared, norm=norm),
        step,
        allowance=paid,
        bits=bits,
        person_weights=step.person_weights,
        rules=rules,
    )
    _, value, noise = headline(scores)
    return Evaluation(**found, value=value, deviation=noise, scores=scores.as_json())


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
    transform: Prepared,
    predicted: Predicted,
    *,
    norm: float,
) -> Card:
    """How good a model is on public records, for its card. It costs nothing.

    Args:
        weights: The model.
        records: The public records.
        transform: What the release does to rows.
        predicted: What is predicted.
        norm: The public bound on the norm of every record.
    """
    kind = KINDS[predicted.kind]
    margins = margins_of(weights, records, transform, norm=norm)
    found = Measures(kind.answers(predicted, margins, records))
    first = found.values[kind.headline]
    return {
        "records": int(records.usable.sum()),
        kind.headline: None if first is None else first.value,
        "scores": found.as_json(),
    }
