"""Scores of either kind: of classes or of a target. What is stored says which it is."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tidegate.checks import positive, whole
from tidegate.learn import measures, target_measures
from tidegate.learn.measures import Measures
from tidegate.learn.scores import Scores
from tidegate.learn.target_measures import TargetMeasures
from tidegate.learn.target_scores import LAYOUT, SUMS, TargetScores

AnyScores = Scores | TargetScores


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
    return "mae" if stored is not None and stored["layout"] == LAYOUT else "accuracy"


def read_scores(stored: Mapping[str, Any]) -> AnyScores:
    """Read what `as_json` of either kind wrote."""
    positive("amount", stored["amount"])  # not a text: one of ten letters can be any number
    whole("slots", stored["slots"])
    kind = TargetScores if stored["layout"] == LAYOUT else Scores
    return kind.of_json(stored)


def measures_of(scores: AnyScores) -> Measures | TargetMeasures:
    """All measures that noisy scores tell."""
    if isinstance(scores, TargetScores):
        return target_measures.of_scores(scores)
    return measures.of_scores(scores)


def headline(scores: AnyScores) -> Headline:
    """The accuracy, or the mean absolute error in the unit of the target.

    If the noise hides that any slot is usable, it is that of all slots.
    """
    if isinstance(scores, TargetScores):
        unit = (scores.high - scores.low) / scores.total
        found = target_measures.of_scores(scores).mae
        of_all = float(scores.sums[SUMS.index("absolute")]), float(scores.deviations.absolute)
        name = "mae"
    else:
        unit = 1 / scores.total
        found = measures.of_scores(scores).accuracy
        of_all, name = (float(scores.counts[0]), scores.count_deviation), "accuracy"
    if found is not None:
        return Headline(name, found.value, found.deviation)
    return Headline(name, unit * of_all[0], unit * of_all[1])
