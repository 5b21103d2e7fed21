"""Measures in words, for people: each as a value ± a margin."""

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
    if measures is None:
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
        if measures.get(score.name) is not None:
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
