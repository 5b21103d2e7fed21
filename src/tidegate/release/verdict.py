"""Measures in words: what each is, and whether a model beats a constant and the release before."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.learn.measures.measure import (
    TOO_NOISY,
    Score,
    kind_of,
    listed,
    margin,
    numbers_for,
    score_named,
)

__all__ = ["PLUS_MINUS", "TOO_NOISY", "compact", "guarded_value", "in_words", "margin", "shown"]

PLUS_MINUS = "± is two standard deviations of the noise: 95 %"
"""What ± means wherever it is printed: by commands, on cards and on the page."""


def shown(name: str, measure: Mapping[str, float]) -> str:
    """A measure ± its margin.

    >>> shown("accuracy", {"value": 0.8123, "deviation": 0.0149})
    '81.2 % ± 3.0'
    """
    return score_named(name).shown(measure)


def compact(measures: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The measures that are one number, each with its deviation; None if it is too noisy.

    >>> compact({"accuracy": {"value": 1.587, "deviation": 0.6}})["accuracy"] is None
    True
    """
    if not measures:
        return None
    scores = numbers_for(kind_of(measures)).items()
    return {name: score.guarded(measures.get(name)) for name, score in scores}


def guarded_value(name: str, value: float | None, deviation: float | None) -> float | None:
    """The value of a headline for JSON, kept in its range; None if it is too noisy to tell.

    >>> guarded_value("accuracy", 1.02, 0.05), guarded_value("mae", -0.1, 0.5)
    (1.0, None)
    """
    return None if value is None else score_named(name).form.kept(value, deviation or 0.0)


def known_scores(measures: Mapping[str, Any]) -> Iterator[tuple[Score, str]]:
    """The measures that people are shown and that are known, with their text."""
    for score in listed(kind_of(measures)):
        if measures.get(score.name):
            yield score, score.shown(measures[score.name])


def in_words(measures: Mapping[str, Any]) -> str:
    """The measures of a model in one line; what is not measured is left out.

    >>> some = {"accuracy": {"value": 0.81, "deviation": 0.01}, "auc": None,
    ...         "majority": {"value": 0.76, "deviation": 0.02}}
    >>> in_words(some)
    'accuracy 81.0 % ± 2.0 (majority class 76.0 % ± 4.0)'
    """
    texts = {score.name: f"{score.label} {text}" for score, text in known_scores(measures)}
    parts = []
    for score, _ in known_scores(measures):
        beside = f" ({texts[score.baseline]})" if score.baseline in texts else ""
        parts += [texts[score.name] + beside] if score.alone else []
    return ", ".join(parts)


BETTER, NO_BETTER, WORSE = "better", "no better", "worse"

NOT_COMPARED = "not compared"
"""The answer about a constant if only the accuracy was measured: nothing tells what one reaches."""

SURE_DEVIATIONS = 2
"""A difference counts if it is above this many standard deviations of the noise."""

MIN_GAIN = 0.02
"""A model is no better than a constant if it surely gains less than this part of its measure."""


def verdict(
    scores: Mapping[str, Any] | None, before: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """How a release did on the step after it, beside a constant and the release before it.

    Args:
        scores: The scores of the release, as cards have them; None if it was not scored.
        before: Those of the release before it, on the step before.

    Returns:
        The measure that was compared, and an answer for each comparison; None without scores.

    >>> scores = {"records": 4096, "log_loss": {"value": 0.70, "deviation": 0.01},
    ...           "constant_log_loss": {"value": 0.69, "deviation": 0.0}}
    >>> verdict(scores)
    {'measure': 'log_loss', 'than_constant': 'no better', 'than_before': None}
    """
    if not scores:
        return None
    if "majority" not in scores and "accuracy" in scores:  # only the accuracy was measured
        found = _than_before(scores, before or {}, score_named("accuracy"))
        return {"measure": "accuracy", "than_constant": NOT_COMPARED, "than_before": found}
    judges = [each for each in listed(kind_of(scores)) if each.judges]
    for score in sorted(judges, key=lambda each: each.judges):
        model, constant = scores.get(score.name), scores.get(score.baseline)
        if model and constant:
            return {
                "measure": score.name,
                "than_constant": _than_constant(model, constant, score.better),
                "than_before": _than_before(scores, before or {}, score),
            }
    return {"measure": None, "than_constant": TOO_NOISY, "than_before": None}


def accuracy_alone(value: float, deviation: float, records: int) -> dict[str, Any]:
    """A private accuracy in the form of scores.

    >>> verdict(accuracy_alone(0.9, 0.01, 4096), accuracy_alone(0.7, 0.01, 4096))
    {'measure': 'accuracy', 'than_constant': 'not compared', 'than_before': 'better'}
    """
    return {"records": records, "accuracy": {"value": value, "deviation": deviation}}


def _than_constant(model: Mapping[str, float], constant: Mapping[str, float], sign: int) -> str:
    gain = sign * (model["value"] - constant["value"])
    noise = SURE_DEVIATIONS * math.hypot(model["deviation"], constant["deviation"])
    if gain > noise:
        return BETTER
    return NO_BETTER if gain + noise < MIN_GAIN * constant["value"] else TOO_NOISY


def _than_before(scores: Mapping[str, Any], before: Mapping[str, Any], score: Score) -> str | None:
    if not before.get(score.name):
        return None
    gain = score.better * (scores[score.name]["value"] - before[score.name]["value"])
    noise = SURE_DEVIATIONS * math.hypot(*(_deviation(each, score) for each in (scores, before)))
    return TOO_NOISY if abs(gain) <= noise else BETTER if gain > 0 else WORSE


def _deviation(scores: Mapping[str, Any], score: Score) -> float:
    """The deviation of a measure over other records too: noise, and a rough one of sampling."""
    value, noise = scores[score.name]["value"], scores[score.name]["deviation"]
    each = score.form.spread(value)
    return math.hypot(noise, each / math.sqrt(max(scores.get("records") or 1, 1)))


def verdict_words(found: Mapping[str, Any] | None) -> str:
    """A verdict in a few words; "" without one.

    >>> verdict_words({"measure": "rmse", "than_constant": "no better", "than_before": "worse"})
    'no better than a constant, worse than the release before'
    >>> verdict_words({"measure": None, "than_constant": "too noisy to tell", "than_before": None})
    'too noisy to tell whether it beats a constant'
    """
    if not found:
        return ""
    constant, before = found["than_constant"], found["than_before"]
    words = {
        TOO_NOISY: f"{TOO_NOISY} whether it beats a constant",
        NOT_COMPARED: f"{NOT_COMPARED} with a constant, for which scores are needed",
    }.get(constant, f"{constant} than a constant")
    if not before:
        return words
    if before == TOO_NOISY:
        return f"{words}, {TOO_NOISY} whether it beats the release before"
    return f"{words}, {before} than the release before"
