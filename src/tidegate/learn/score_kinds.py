"""Scores of either kind, of classes or of a target: how they are counted, read and told."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tidegate.checks import positive, whole
from tidegate.data.predicted import RESOLUTION, Predicted, Target
from tidegate.data.records import Records
from tidegate.learn.exact import Floats
from tidegate.learn.measures.estimates import Answers, estimate
from tidegate.learn.measures.measure import Ends, Kind, Measures
from tidegate.learn.measures.sums import EstimatedSums, Predictions
from tidegate.learn.scores import Scores, score
from tidegate.learn.target_scores import LAYOUT, TargetScores, score_targets

AnyScores = Scores | TargetScores


@dataclass(frozen=True)
class ScoreKind:
    """How models are scored that predict one kind of thing.

    Attributes:
        headline: The measure that is shown first.
        read: Reads what `as_json` wrote.
        score: Counts how a released model does on the records of a step, plus noise, given what is
            predicted, its margins, the records, and by name what the mechanism needs.
        known: What noisy scores say about the exact counts.
        answers: What a model answers to public records, given the first three of these.
    """

    headline: str
    read: Callable[[Mapping[str, Any]], AnyScores]
    score: Callable[..., AnyScores]
    known: Callable[[Any], Any]
    answers: Callable[[Any, Floats, Records], Any]


def _score_classes(predicted: Predicted, margins: Floats, step: Records, **paid: Any) -> Scores:
    return score(margins, step.y, step.usable, classes=len(predicted.labels), **paid)


def _score_target(
    target: Target, margins: Floats, step: Records, *, rules: int, **paid: Any
) -> TargetScores:
    del rules  # all of them have the same
    return score_targets(
        margins, _truths(step), step.usable, low=target.low, high=target.high, **paid
    )


def _truths(records: Records) -> Floats:
    """The targets of records, in units in which the range is from -1 to 1."""
    return np.multiply(records.y, RESOLUTION, dtype=np.float64)


KINDS: dict[Kind, ScoreKind] = {
    "classes": ScoreKind(
        headline="accuracy",
        read=Scores.of_json,
        score=_score_classes,
        known=estimate,
        answers=lambda predicted, margins, records: Answers(
            margins, records.y, records.usable, len(predicted.labels)
        ),
    ),
    "target": ScoreKind(
        headline="mae",
        read=TargetScores.of_json,
        score=_score_target,
        known=EstimatedSums,
        answers=lambda target, margins, records: Predictions(
            margins, _truths(records), records.usable, Ends(target.low, target.high)
        ),
    ),
}
"""How models are scored, by what they predict."""


def scored(predicted: Predicted) -> dict[str, Any]:
    """What stored scores say about what is predicted: the target, or the number of classes."""
    stated = predicted.entries()
    return stated if predicted.kind == "target" else {"classes": len(predicted.labels)}


class Headline(NamedTuple):
    """The one measure of a model that is shown first.

    Attributes:
        name: "accuracy", or "mae" if a target is predicted.
        value: Its value.
        deviation: The deviation of its noise.
    """

    name: str
    value: float
    deviation: float


def headline_name(stored: Mapping[str, Any] | None) -> str:
    """The measure that is shown first, given stored scores; without scores it is the accuracy.

    >>> headline_name({"layout": "target-1"}), headline_name(None)
    ('mae', 'accuracy')
    """
    return _kind_of(stored or {"layout": None}).headline


def headline_in(row: Mapping[str, Any]) -> str:
    """The headline that a row of a listing has.

    >>> headline_in({"at": 10, "mae": 1.5, "deviation": 0.1})
    'mae'
    """
    return next(kind.headline for kind in KINDS.values() if kind.headline in row)


def _kind_of(stored: Mapping[str, Any]) -> ScoreKind:
    return KINDS["target" if stored["layout"] == LAYOUT else "classes"]


def read_scores(stored: Mapping[str, Any]) -> AnyScores:
    """Read what `as_json` of either kind wrote."""
    positive("amount", stored["amount"])  # not a text: one of ten letters can be any number
    whole("slots", stored["slots"])
    return _kind_of(stored).read(stored)


def measures_of(scores: AnyScores) -> Measures:
    """All measures that noisy scores tell."""
    return Measures(KINDS[scores.kind].known(scores))


def headline(scores: AnyScores) -> Headline:
    """The accuracy, or the mean absolute error in the unit of the target.

    If the noise hides that any slot is usable, it is that of all slots.
    """
    name = KINDS[scores.kind].headline
    found = measures_of(scores).values[name]
    return Headline(name, *((found.value, found.deviation) if found else scores.over_all))
