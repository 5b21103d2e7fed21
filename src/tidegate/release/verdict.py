"""Whether a model beats a constant, and the release before it, as far as noisy scores tell."""

import math
from collections.abc import Mapping
from typing import Any

from tidegate.learn.measures.measure import TOO_NOISY, Score, kind_of, listed, score_named

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
    if scores is None:
        return None
    if "majority" not in scores and "accuracy" in scores:  # only the accuracy was measured
        found = _than_before(scores, before or {}, score_named("accuracy"))
        return {"measure": "accuracy", "than_constant": NOT_COMPARED, "than_before": found}
    judges = [each for each in listed(kind_of(scores)) if each.judges]
    for score in sorted(judges, key=lambda each: each.judges):
        model, constant = scores.get(score.name), scores.get(score.baseline)
        if model is not None and constant is not None:
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
    if before.get(score.name) is None:
        return None
    gain = score.better * (scores[score.name]["value"] - before[score.name]["value"])
    noise = SURE_DEVIATIONS * math.hypot(*(_deviation(each, score) for each in (scores, before)))
    return TOO_NOISY if abs(gain) <= noise else BETTER if gain > 0 else WORSE


def _deviation(scores: Mapping[str, Any], score: Score) -> float:
    """The deviation of a measure over other records too: noise, and a rough one of sampling."""
    value, noise = scores[score.name]["value"], scores[score.name]["deviation"]
    each = score.form.spread(value)
    return math.hypot(noise, each / math.sqrt(max(scores.get("records") or 1, 1)))


def in_words(found: Mapping[str, Any] | None) -> str:
    """A verdict in a few words; "" without one.

    >>> in_words({"measure": "rmse", "than_constant": "no better", "than_before": "worse"})
    'no better than a constant, worse than the release before'
    >>> in_words({"measure": None, "than_constant": "too noisy to tell", "than_before": None})
    'too noisy to tell whether it beats a constant'
    """
    if found is None:
        return ""
    constant, before = found["than_constant"], found["than_before"]
    words = {
        TOO_NOISY: f"{TOO_NOISY} whether it beats a constant",
        NOT_COMPARED: f"{NOT_COMPARED} with a constant, for which scores are needed",
    }.get(constant, f"{constant} than a constant")
    if before is None:
        return words
    if before == TOO_NOISY:
        return f"{words}, {TOO_NOISY} whether it beats the release before"
    return f"{words}, {before} than the release before"
