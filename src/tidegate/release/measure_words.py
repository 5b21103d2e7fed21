"""Measures in words, for people: each as a value ± a margin."""

import math
from collections.abc import Mapping
from typing import Any

SHARES = {"accuracy", "majority", "balanced_accuracy", "bias", "unusable"}
"""Measures shown in percent; the others are plain numbers."""

IN_UNITS = {"mae", "rmse", "constant_rmse", "mean_error", "mean_target"}
"""Measures in the unit of the target."""

MAX_SHOWN_DEVIATION = 0.25
"""With a larger deviation a share tells nothing, and is not shown as a number."""

TOO_NOISY = "too noisy to tell"

PLUS_MINUS = "± is two standard deviations of the noise: 95 %"
"""What ± means wherever it is printed: by commands, on cards and on the page."""


def margin(deviation: float) -> float:
    """What is printed after ±, for the standard deviation of the noise."""
    return 2 * deviation


def shown(name: str, measure: Mapping[str, float]) -> str:
    """A measure ± its margin.

    >>> shown("accuracy", {"value": 0.8123, "deviation": 0.0149})
    '81.2 % ± 3.0'
    >>> shown("log_loss", {"value": 0.50341, "deviation": 0.0})
    '0.503'
    >>> shown("bias", {"value": -0.012, "deviation": 0.004})
    '-1.2 % ± 0.8'
    >>> shown("accuracy", {"value": 1.3, "deviation": 0.4})
    'too noisy to tell'
    >>> shown("mae", {"value": 26.5744, "deviation": 3.2658})
    '26.6 ± 6.5'
    """
    value, noise = measure["value"], measure["deviation"]
    sign = "+" if name in {"bias", "mean_error"} else ""
    if name in SHARES:
        if noise > MAX_SHOWN_DEVIATION:
            return TOO_NOISY
        around = f" ± {100 * margin(noise):.1f}" if noise else ""
        return f"{100 * value:{sign}.1f} %{around}"
    if name in {"rmse", "constant_rmse"} and value < noise:  # the square may be below 0
        return TOO_NOISY
    if name in IN_UNITS:
        return _in_units(value, noise, sign)
    if name == "r2" and noise > MAX_SHOWN_DEVIATION:
        return TOO_NOISY
    return f"{value:.3f}" + (f" ± {margin(noise):.3f}" if noise else "")


def guarded(name: str, measure: Mapping[str, float] | None) -> Mapping[str, float] | None:
    """A measure for JSON; None if the words beside it say that it is too noisy to tell.

    >>> guarded("accuracy", {"value": 1.587, "deviation": 0.6}) is None
    True
    """
    return None if measure is None or shown(name, measure) == TOO_NOISY else measure


def guarded_value(name: str, value: float | None, deviation: float | None) -> float | None:
    """The same for a value and its deviation; a share is kept between 0 and 1, an error above 0.

    >>> guarded_value("accuracy", 1.02, 0.05), guarded_value("accuracy", 1.587, 0.6)
    (1.0, None)
    >>> guarded_value("mae", 3.0, 0.5), guarded_value("mae", -0.1, 0.5)
    (3.0, None)
    """
    if value is None:
        return None
    if name == "mae":
        return None if value < (deviation or 0.0) else value
    found = guarded(name, {"value": value, "deviation": deviation or 0.0})
    return None if found is None else min(max(value, 0.0), 1.0)


def _in_units(value: float, noise: float, sign: str) -> str:
    """A number in any unit: two digits of its margin, or four of an exact one."""
    if not noise:
        return f"{value:{sign}.4g}"
    around = margin(noise)
    digits = max(1 - math.floor(math.log10(around)), 0)
    return f"{value:{sign}.{digits}f} ± {around:.{digits}f}"


def in_words(scores: Mapping[str, Any]) -> str:
    """The measures of a model in one line; what is not measured is left out.

    >>> some = {"accuracy": {"value": 0.81, "deviation": 0.01}, "auc": None,
    ...         "majority": {"value": 0.76, "deviation": 0.02}}
    >>> in_words(some)
    'accuracy 81.0 % ± 2.0 (majority class 76.0 % ± 4.0)'
    """
    parts = []
    for name, words, beside in TARGET_LINE if "target" in scores else LINE:
        if scores.get(name) is None:
            continue
        text = f"{words} {shown(name, scores[name])}"
        if beside is not None and scores.get(beside[0]) is not None:
            text += f" ({beside[1]} {shown(beside[0], scores[beside[0]])})"
        parts.append(text)
    return ", ".join(parts)


LINE: tuple[tuple[str, str, tuple[str, str] | None], ...] = (
    ("accuracy", "accuracy", ("majority", "majority class")),
    ("balanced_accuracy", "balanced accuracy", None),
    ("log_loss", "log-loss", ("constant_log_loss", "of a constant")),
    ("auc", "AUC", None),
    ("bias", "bias", None),
    ("unusable", "unusable", None),
)
"""The measures in reading order, with their names and what stands beside them."""

TARGET_LINE: tuple[tuple[str, str, tuple[str, str] | None], ...] = (
    ("mae", "MAE", None),
    ("rmse", "RMSE", ("constant_rmse", "of a constant")),
    ("r2", "R^2", None),
    ("mean_error", "bias", None),
    ("unusable", "unusable", None),
)
"""The same for a target."""
