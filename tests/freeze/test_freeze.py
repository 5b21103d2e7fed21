"""What small configurations release is, byte for byte, what they released when they were frozen."""

from pathlib import Path
from typing import Any

import pytest

import tidegate.estimators
import tidegate.features
import tidegate.learn
import tidegate.schedule
from tests.freeze.catalogue import (
    CONFIGURATIONS,
    changed,
    complaint,
    computed,
    frozen_values,
    key,
)
from tests.freeze.parts import MARKS, write
from tests.state.postgres_server import needs_postgres

SAMPLED = 8
"""How many of them every sample has; the others are thorough."""

NOT_ON_CARDS = {
    "tidegate.schedule": {
        "Fit",
        "RecordFit",
        "Schedule",
        "SlotWeight",
        "Span",
        "Steps",
        "Stream",
        "fits",
    },
    "tidegate.learn": {"Loss", "Solution", "Squared", "Target", "minimize"},
    "tidegate.features": {"CenterScale", "RecordMap", "clip_rows"},
}
"""Public names that are no schedule, learner, loss, map or column of a card."""


def cases() -> list[Any]:
    def marks(name: str) -> list[Any]:
        each = CONFIGURATIONS[name]
        thorough = [] if each.sampled else [pytest.mark.thorough]
        return [*thorough, *([needs_postgres] if each.postgres else [])]

    return [pytest.param(name, marks=marks(name)) for name in CONFIGURATIONS]


@pytest.mark.parametrize("frozen", cases())
def test_it_is_as_it_was_frozen(frozen: str, tmp_path: Path) -> None:
    parts = computed(CONFIGURATIONS[frozen])
    if differ := changed(frozen, parts, frozen_values()):
        write(parts, tmp_path)
        pytest.fail(complaint(frozen, differ, tmp_path), pytrace=False)


def test_there_are_forty_or_more_and_eight_in_every_sample() -> None:
    assert len(CONFIGURATIONS) >= 40
    assert sum(each.sampled for each in CONFIGURATIONS.values()) == SAMPLED


def test_what_is_frozen_are_parts_of_these_configurations() -> None:
    assert {each.rpartition(": ")[0] for each in frozen_values()} == set(CONFIGURATIONS)


def test_every_default_is_spelled_out() -> None:
    left_out = {each.name: each.spelled() for each in CONFIGURATIONS.values()}
    assert {name: each for name, each in left_out.items() if each} == {}


def kinds() -> set[str]:
    """All kinds that some card has, each with the key that it stands under."""
    values = frozen_values()
    found = (values[key(name, "kinds")] for name in CONFIGURATIONS)
    return {each for text in found for each in text.split(", ")}


def test_every_kind_of_everything_is_frozen() -> None:
    there = {each.split()[-1] for each in kinds()}
    for module in (tidegate.schedule, tidegate.learn, tidegate.features):
        names = set(module.__all__) - NOT_ON_CARDS[module.__name__]
        columns = {each.lower() for each in names} & {
            each.split()[-1] for each in kinds() if each.startswith("columns ")
        }
        assert {each for each in names if each.lower() not in columns} <= there
    assert {"Paper", "Tapered", "float32", "float64", *MARKS} <= there
    made = {name.split()[0] for name in CONFIGURATIONS}
    assert {each for each in tidegate.estimators.__all__ if each != "Features"} <= made


def test_where_a_state_is_kept_and_how_often_it_is_opened_makes_no_difference() -> None:
    values = frozen_values()

    def of(name: str) -> dict[str, str]:
        begins = key(name, "")
        return {k.removeprefix(begins): v for k, v in values.items() if k.startswith(begins)}

    twins = [
        (name, name.removesuffix(place))
        for name in CONFIGURATIONS
        for place in (" on postgres", " on disk", ", restarted", ", published")
        if name.endswith(place)
    ]
    assert len(twins) >= 7
    for name, twin in twins:
        own, other = of(name), of(twin)
        both = own.keys() & other.keys()
        assert {"weights", "cards", "ledger", "plan", "onnx"} <= both
        assert {part for part in both if own[part] != other[part]} == set(), name
