"""The keys that a card may have. One that is not known here is reported: nobody has checked it.

Three tables are open. Others look into `settings`, which are recomputed. The parameters of
`features` are those of any map, and the scores of a holdout are about public records.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from tidegate.learn.learner import LEARNERS
from tidegate.learn.loss import every_loss
from tidegate.learn.refit import Fold
from tidegate.privacy import Paper, Tapered
from tidegate.release import Card
from tidegate.release.card import PACKAGES
from tidegate.schedule import TwoStream
from tidegate.schedule.protocol import SCHEDULES
from tidegate.state.integrity import HISTORY, SETTINGS

TOP = {
    *("release", "fit", "at", "start", "stop", "sample", "stream", "prior", "started_from"),
    *("level", "emphasis", "share", "share_rounded_down", "mu", "epsilon", "budget", "neighbours"),
    *("settings", "transform", "refit", "shape", "private", "warning", "rules"),
    *("schedule", "allocation", "learner", "loss", "norm", "regularization", "classes", "target"),
    *("features", "dtype", "columns", "label", "cuts", "protects", "spelling"),
    *("evaluation", "survey", "versions", "time", HISTORY, SETTINGS),
}
"""The keys of a card; `settings` are compared with those that its learner reports."""

MEASURED = {"start", "stop", "share", "deviation"}

INSIDE: Mapping[tuple[str, ...], set[str]] = {
    ("budget",): {"epsilon", "delta"},
    ("protects",): {"unit", "contributions", "period", "typical"},
    ("refit",): set(Fold._fields),
    ("transform",): {"constant", "norm", "center", "scale", "mix"},
    ("evaluation",): {"step_before", "holdout"},
    ("evaluation", "step_before"): MEASURED
    | {"of_release", "accuracy", "mae", "scores", "noisy_counts"},
    ("evaluation", "step_before", "noisy_counts"): {
        *("layout", "slots", "classes", "target", "unit", "amount", "counts", "sums", "cells"),
        "persons",
    },
    ("evaluation", "holdout"): {"records", "accuracy", "mae", "scores"},
    ("survey",): MEASURED | {"classes", "parts", "unusable", "total", "settings"},
    ("versions",): {*PACKAGES, "python"},
}
"""The keys of each table of a card."""

DESCRIBED = {("schedule", "source"): "schedule"} | {
    (key,): key for key in ("schedule", "allocation", "learner", "loss")
}
"""The tables with the parameters of something, whose keys depend on its kind."""


def unknown_keys(card: Card) -> Iterator[str]:
    """The keys of a card that this version does not know, as paths.

    >>> list(unknown_keys({"share": "1/7", "really": 1, "budget": {"epsilon": 1.0, "gamma": 2}}))
    ['really', 'budget.gamma']
    """
    yield from _others((), card, TOP)
    for place, known in INSIDE.items():
        yield from _others(place, _at(card, place), known)
    known_kinds = parameters()
    for place, key in DESCRIBED.items():
        described, kinds = _at(card, place), known_kinds[key]
        kind = described.get("kind") if isinstance(described, dict) else None
        if isinstance(kind, str) and kind in kinds:
            yield from _others(place, described, {"kind", *kinds[kind]})


def parameters() -> dict[str, dict[str, set[str]]]:
    """The parameters of each kind of schedule, allocation, learner and loss, by class name."""
    classes: dict[str, list[Any]] = {
        "schedule": [*SCHEDULES.values(), TwoStream],
        "allocation": [Paper, Tapered],
        "learner": list(LEARNERS.values()),
        "loss": list(every_loss().values()),
    }
    return {
        key: {each.__name__: {field.name for field in fields(each)} for each in listed}
        for key, listed in classes.items()
    }


def _at(card: Card, place: tuple[str, ...]) -> Any:
    value: Any = card
    for name in place:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _others(place: tuple[str, ...], table: Any, known: set[str]) -> Iterator[str]:
    if table is None:
        return
    if not isinstance(table, dict):
        yield ".".join(place)
        return
    yield from (".".join([*place, name]) for name in table if name not in known)
