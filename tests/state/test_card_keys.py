"""`verify` knows the keys that cards have, and no others.

A key that it did not know would be reported on an honest card. One that no card has could say
anything, because nothing recomputes it.
"""

import copy
from collections.abc import Iterator
from dataclasses import fields
from functools import reduce
from itertools import chain
from operator import getitem
from pathlib import Path
from typing import Any

import pytest

from tests.state.gatelife import TWO, config, opened, stream
from tidegate.release import Card
from tidegate.schedule.protocol import SCHEDULES
from tidegate.state.card_keys import DESCRIBED, INSIDE, TOP, parameters, unknown_keys
from tidegate.state.verify_published import problems_of_card

GAUSSIAN: dict[str, Any] = {"budget": {"epsilon": 4.0, "delta": 1e-6}, "learner": {}}
MEASURED: dict[str, Any] = {"survey": {"share": "1/20"}, "quality": {"share": "1/20"}}
FADING: dict[str, Any] = {"schedule": {"kind": "fading", "step": 100}}
TARGET: dict[str, Any] = {"records": {"target": [-1, 2], "norm": 1.5}}
SPANS = {"block": 200, "step": 100, "window": 300}


def of_kind(kind: str) -> dict[str, Any]:
    """A schedule, with the spans that it has."""
    schedule: Any = SCHEDULES[kind]
    known = {field.name for field in fields(schedule)}
    return {"kind": kind, **{name: span for name, span in SPANS.items() if name in known}}


GATES: dict[str, dict[str, Any]] = {
    **{kind: {"schedule": of_kind(kind)} for kind in SCHEDULES if SCHEDULES[kind].alone},
    "refit": {"schedule": {**of_kind("sliding"), "refit": True}, **GAUSSIAN},
    "sample": {"schedule": {**of_kind("sliding"), "sample": 50}},
    "tapered": {"schedule": of_kind("multiresolution"), "allocation": {"name": "tapered"}},
    "two streams": {"schedule": TWO, **MEASURED},
    "pure, surveyed": MEASURED,
    "descent": {**FADING, **GAUSSIAN, **MEASURED},
    "accuracy": {**FADING, **GAUSSIAN, "quality": {"share": "1/20", "scores": False}},
    "huber": {"learner": {"loss": "huber"}},
    "three classes": {
        **FADING,
        **GAUSSIAN,
        **MEASURED,
        "records": {"classes": [0, 1, 2], "norm": 1.5},
    },
    "cuts": {
        **FADING,
        "records": {
            "classes": ["low", "high"],
            "cuts": [0.5],
            "norm": 1.5,
            "label": "minutes",
            "columns": ["a", "b", "c"],
        },
    },
    "columns": {
        **FADING,
        "columns": [{"name": name, "kind": "number", "low": -1, "high": 1} for name in "abc"],
        "records": {"classes": [0, 1], "label": "y"},
    },
    "features": {**FADING, "features": [{"map": "intercept"}]},
    "holdout": {**FADING, **GAUSSIAN, **MEASURED},
    "target, holdout": {**FADING, **GAUSSIAN, **MEASURED, **TARGET},
    "target, pure": {**TARGET, **MEASURED},
    "persons": {**FADING, **GAUSSIAN, **MEASURED, "person": {"id": "p", "contributions": 4}},
    "persons, period, target": {
        **FADING,
        **GAUSSIAN,
        **MEASURED,
        **TARGET,
        "person": {"id": "p", "contributions": 2, "period": 4, "typical": 3},
    },
}


def holdout(folder: Path) -> str:
    """A file of public records."""
    X, y = stream(60)
    path = folder / "holdout.csv"
    lines = [",".join(map(str, [*row, label])) for row, label in zip(X, y, strict=True)]
    path.write_text("\n".join(["a,b,c,y", *lines]))
    return str(path)


def cards(name: str, folder: Path) -> list[Card]:
    """The cards of all releases that a gate makes of some records."""
    settings = copy.deepcopy(GATES[name])
    if "holdout" in name:
        settings["quality"]["holdout"] = holdout(folder)
        records = settings.setdefault("records", {"classes": [0, 1], "norm": 1.5})
        records |= {"columns": ["a", "b", "c"], "label": "y"}
    persons = [slot // 2 for slot in range(900)] if "person" in settings else None
    with opened(folder / "state", config(**settings)) as gate:
        for each in gate.streams:
            gate.ingest(*stream(900), stream=each, persons=persons)
        return [release.card for release in gate.releases()]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Card]]:
    return {name: cards(name, tmp_path_factory.mktemp("gate")) for name in GATES}


def tables(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """All tables within a card, with their places."""
    if isinstance(value, dict):
        yield place, value
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inside:
        if isinstance(each, dict | list):
            yield from tables(each, (*place, key))


def every_table(written: dict[str, list[Card]]) -> dict[tuple[Any, ...], set[str]]:
    """The keys that the tables of some card have, by their places."""
    found: dict[tuple[Any, ...], set[str]] = {}
    for card in chain(*written.values()):
        for place, table in tables(card):
            found.setdefault(place, set()).update(table)
    return found


@pytest.mark.thorough
def test_every_key_of_a_card_is_known(written: dict[str, list[Card]]) -> None:
    assert all(written.values())
    for name, made in written.items():
        for card in made:
            assert list(unknown_keys(card)) == [], name
            assert list(problems_of_card(card)) == [], name


@pytest.mark.thorough
def test_every_known_key_is_on_a_card(written: dict[str, list[Card]]) -> None:
    found = every_table(written)
    assert {place: found.get(place) for place in [(), *INSIDE]} == {(): TOP, **INSIDE}


@pytest.mark.thorough
def test_every_kind_and_its_parameters_are_on_a_card(written: dict[str, list[Card]]) -> None:
    found: dict[str, dict[str, set[str]]] = {}
    for card in chain(*written.values()):
        described = [(key, card[place[0]]) for place, key in DESCRIBED.items() if not place[1:]]
        if "source" in card["schedule"]:
            described.append(("schedule", card["schedule"]["source"]))
        for key, table in described:
            found.setdefault(key, {})[table["kind"]] = table.keys() - {"kind"}
    assert found == parameters()


OPEN = [("features",), ("evaluation", "holdout", "scores")]
"""What `card_keys` leaves open, besides settings: verify recomputes those."""


@pytest.mark.thorough
@pytest.mark.parametrize("key", ["really", "noise_scale.really", ""])
def test_a_key_more_is_reported_wherever_it_stands(
    key: str, written: dict[str, list[Card]]
) -> None:
    passed, tried = set(), set()
    for made in written.values():
        for place, _ in tables(made[-1]):
            card = copy.deepcopy(made[-1])
            reduce(getitem, place, card)[key] = 1.0
            tried.add(place)
            if not list(problems_of_card(card)):
                passed.add(place)
    assert tried >= {(), *INSIDE, *DESCRIBED, ("settings",), ("survey", "settings")}
    assert [place for place in passed if all(place[: len(each)] != each for each in OPEN)] == []
