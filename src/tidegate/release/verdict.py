"""Whether a model beats a constant, and the release before it, as far as noisy scores tell."""

import math
from collections.abc import Mapping
from typing import Any

from tidegate.release.measure_words import TOO_NOISY

BETTER, NO_BETTER, WORSE = "better", "no better", "worse"

NOT_COMPARED = "not compared"
"""The answer about a constant if only the accuracy was measured: nothing tells what one reaches."""

SURE_DEVIATIONS = 2
"""A difference counts if it is above this many standard deviations of the noise."""

MIN_GAIN = 0.02
"""A model is no better than a constant if it surely gains less than this part of its measure."""

COMPARED = (
    ("rmse", "constant_rmse", -1),
    ("log_loss", "constant_log_loss", -1),
    ("accuracy", "majority", 1),
)
"""What is compared, with that of a constant; the sign says which direction is better."""


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
    for name, constant, sign in COMPARED:
        model, other = scores.get(name), scores.get(constant)
        if model is not None and other is not None:
            return {
                "measure": name,
                "than_constant": _than_constant(model, other, sign),
                "than_before": _than_before(scores, before, name, sign),
            }
    return {"measure": None, "than_constant": TOO_NOISY, "than_before": None}


def accuracy_alone(value: float, deviation: float, records: int) -> dict[str, Any]:
    """A private accuracy in the form of scores, for `verdict_without_scores`."""
    return {"records": records, "accuracy": {"value": value, "deviation": deviation}}


def verdict_without_scores(
    now: Mapping[str, Any], before: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The verdict if only the accuracy was measured: beside the release before it alone.

    >>> verdict_without_scores(accuracy_alone(0.9, 0.01, 4096), accuracy_alone(0.7, 0.01, 4096))
    {'measure': 'accuracy', 'than_constant': 'not compared', 'than_before': 'better'}
    """
    found = _than_before(now, before, "accuracy", 1)
    return {"measure": "accuracy", "than_constant": NOT_COMPARED, "than_before": found}


def _than_constant(model: Mapping[str, float], constant: Mapping[str, float], sign: int) -> str:
    gain = sign * (model["value"] - constant["value"])
    noise = SURE_DEVIATIONS * math.hypot(model["deviation"], constant["deviation"])
    if gain > noise:
        return BETTER
    return NO_BETTER if gain + noise < MIN_GAIN * constant["value"] else TOO_NOISY


def _than_before(
    scores: Mapping[str, Any], before: Mapping[str, Any] | None, name: str, sign: int
) -> str | None:
    if before is None or before.get(name) is None:
        return None
    gain = sign * (scores[name]["value"] - before[name]["value"])
    noise = SURE_DEVIATIONS * math.hypot(*(_deviation(each, name) for each in (scores, before)))
    return TOO_NOISY if abs(gain) <= noise else BETTER if gain > 0 else WORSE


def _deviation(scores: Mapping[str, Any], name: str) -> float:
    """The deviation of a measure over other records too: noise, and a rough one of sampling."""
    value, noise = scores[name]["value"], scores[name]["deviation"]
    each = math.sqrt(max(value * (1 - value), 0.0)) if name == "accuracy" else value
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
