"""The keys that a card may have, and when what it states is what was recomputed.

A key that is not known here is reported: nobody has checked it. Three tables are open. Others look
into `settings`, which are recomputed. The parameters of `features` are those of any map, and the
scores of a holdout are about public records.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import chain
from typing import Any

from tidegate.learn.learner import LEARNERS
from tidegate.learn.loss import every_loss
from tidegate.learn.refit import Fold
from tidegate.privacy import Paper, Tapered
from tidegate.release.card import PACKAGES, Card
from tidegate.schedule import TwoStream
from tidegate.schedule.protocol import SCHEDULES
from tidegate.state.damage import HISTORY, SETTINGS

Agree = Callable[[str, Any, Any], bool]
"""Whether, for a key, what a card states is what is wanted."""

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
        yield from _others(place, value_of(card, ".".join(place)), known)
    known_kinds = parameters()
    for place, key in DESCRIBED.items():
        described, kinds = value_of(card, ".".join(place)), known_kinds[key]
        kind = value_of(card, ".".join([*place, "kind"]))
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


def _others(place: tuple[str, ...], table: Any, known: set[str]) -> Iterator[str]:
    if table is None:
        return
    if not isinstance(table, dict):
        yield ".".join(place)
        return
    yield from (".".join([*place, name]) for name in table if name not in known)


def value_of(card: Card, key: str) -> Any:
    """The value of a key in a card, None if missing; a dot separates nested keys."""
    value: Any = card
    for name in key.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def unknown(
    card: Card, wanted: Mapping[str, Any], tables: Sequence[str] = ("settings",)
) -> Iterator[str]:
    """What a card states that none has, in words. Of its settings, all must be wanted."""
    settings = (_unknown_settings(card, wanted, each) for each in tables)
    for name in chain(unknown_keys(card), *settings):
        yield f"its card has {name}, which no card has"


def differences(card: Card, wanted: Mapping[str, Any], agree: Agree) -> Iterator[str]:
    """Where a card does not state what is wanted, in words; a dot separates nested keys."""
    for key, value in wanted.items():
        stated = value_of(card, key)
        if not agree(key, stated, value):
            yield f"its card says {key} {stated}, not {value}"


def _unknown_settings(card: Card, wanted: Mapping[str, Any], place: str) -> list[str]:
    """Settings on a card that it should not have. They may have any name, also one with dots."""
    names = (f"{place}.{key}" for key in value_of(card, place) or {})
    known = {key for key in wanted if key.rpartition(".")[0] == place}
    return [name for name in names if name not in known]


# --- what it states

CLOSE = 1e-9
"""Largest relative difference between a number on a card and the recomputed one.

Another Python or NumPy may round a norm or a root differently. A card that states a billionth too
little noise overstates epsilon or mu by a billionth, so the tolerance hides nothing that matters.
"""

ROUNDED = 2e-5
"""Largest difference between a measure on a card, which is rounded, and the recomputed one."""


def rounding(card: Card) -> float:
    """The largest such difference for the measures of a card, which may be of a small target.

    >>> rounding({"classes": [0, 1]}), rounding({"target": [0.0, 0.5]})
    (2e-05, 1e-05)
    """
    low, high = card.get("target", (0.0, 1.0))
    return ROUNDED * min(float(high - low), 1.0)


def same(stated: Any, wanted: Any, rounded: float = 0.0) -> bool:
    """Whether what a card states is what was recomputed; `rounded` is how far measures may differ.

    Without it, a float may differ by the rounding of another NumPy, and what is in a list or a
    table must be equal.

    >>> same(0.1 + 0.2, 0.3), same(0.29, 0.3), same(None, 0.3), same(True, 1.0), same(64, 63)
    (True, False, False, False, False)
    >>> same({"auc": 0.71234, "bins": [1.0]}, {"auc": 0.71235, "bins": [1.0]}, ROUNDED)
    True
    >>> same([1.0], [1.0 + 1e-15]), same([1.0], [1.0 + 1e-15], ROUNDED)
    (False, True)
    """
    if type(stated) is not type(wanted):
        return False
    if rounded and isinstance(wanted, dict):
        return stated.keys() == wanted.keys() and all(
            same(stated[key], wanted[key], rounded) for key in wanted
        )
    if rounded and isinstance(wanted, list):
        agree = partial(same, rounded=rounded)
        return len(stated) == len(wanted) and all(map(agree, stated, wanted))
    if isinstance(wanted, float):
        return math.isclose(stated, wanted, rel_tol=CLOSE, abs_tol=rounded)
    return bool(stated == wanted)


def described_alike(stated: Any, wanted: Any) -> bool:
    """Whether a card describes a setting as it is; an older one may lack what is not set.

    >>> described_alike({"kind": "Number", "low": 0.0}, {"kind": "Number", "low": 0.0, "log": None})
    True
    >>> described_alike({"kind": "Number", "low": 0.0}, {"kind": "Number", "low": 0.0, "high": 1.0})
    False
    """
    if isinstance(stated, dict) and isinstance(wanted, dict):
        added = wanted.keys() - stated.keys()
        return (
            stated.keys() <= wanted.keys()
            and all(wanted[key] is None for key in added)
            and all(described_alike(stated[key], wanted[key]) for key in stated)
        )
    if isinstance(stated, list) and isinstance(wanted, list):
        return len(stated) == len(wanted) and all(map(described_alike, stated, wanted))
    if stated in (None, []) and wanted in (None, []):
        return True
    return isinstance(stated, bool) == isinstance(wanted, bool) and bool(stated == wanted)
