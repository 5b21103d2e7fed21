"""Neighbouring streams of tables break no law, whatever one record's columns hold."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.laws.gate_replay import QUALITY, SCHEDULES, SURVEY, GateScene, gate_laws_broken
from tests.laws.replay import Data, Slot, honest
from tidegate.data.columns.column import Cells, Floats
from tidegate.data.records import Packing
from tidegate.features import Category, Number
from tidegate.run.config import Config

COLUMNS: list[dict[str, Any]] = [
    {"name": "age", "kind": "number", "low": 0, "high": 100},
    {"name": "cost", "kind": "number", "low": 0, "high": 1e4, "log": True},
    {"name": "ward", "kind": "category", "values": ["A", "B", "C"]},
    {"name": "code", "kind": "category", "hash": 4},
    {"name": "smoker", "kind": "flag"},
    {"name": "seen", "kind": "time", "parts": ["hour", "year"], "low": 2000, "high": 2030},
    {"name": "note", "kind": "text", "size": 4},
    {"name": "scan", "kind": "vector", "size": 2, "norm": 1.0},
]


COMPLETE = [
    {**each, "gaps": False, **({"others": False} if "values" in each else {})} for each in COLUMNS
]
"""The same columns, said to be without gaps and other values."""


def config_of(
    schedule: str,
    *,
    pure: bool,
    norm: float | None = None,
    folded: bool = True,
    measured: bool = True,
    columns: Sequence[Mapping[str, Any]] = COLUMNS,
) -> Config:
    learner = (
        {"kind": "output", "regularization": 0.5} if pure else {"kind": "gradient", "steps": 2}
    )
    budget = {"epsilon": 1.0} if pure else {"epsilon": 1.0, "delta": 1e-3, "weak_delta": True}
    given: dict[str, Any] = {
        "schedule": SCHEDULES[schedule],
        "budget": budget,
        "records": {"classes": [0, 1], **({} if norm is None else {"norm": norm})},
        "columns": columns,
        "learner": learner,
        "survey": {"share": str(SURVEY) if measured else 0},
        "quality": {"share": str(QUALITY) if measured else 0},
        "not_private_seed": 7,
    }
    if not folded:  # features are stored, because a map follows
        given |= {"features": [{"map": "intercept"}], "records": {"classes": [0, 1], "norm": 3.0}}
    return Config.of(given)


def row(*values: Any) -> Any:
    made = np.empty(len(COLUMNS), object)
    made[:] = values
    return made


USUAL = row(30, 20.0, "A", "x", True, "2010-06-01T12:00:00", "high tide", [0.6, 0.8])
NEIGHBOURS = {
    "the other ends": (row(100, 1e9, "C", "y", False, "2030-01-01", "low", [-9, -9]), 0),
    "nothing": (row(*[None] * len(COLUMNS)), 1),
    "another value": (row(99, 1, "never seen", 12, "no", "1999-01-01", "", [0, 0]), 1),
    "a wrong number": (row("thirty", *USUAL[1:]), 1),
    "a wrong time": (row(*USUAL[:5], "2013-02-30", *USUAL[6:]), 0),
    "a list of another length": (row(*USUAL[:7], [1.0]), 1),
    "an unknown label": (USUAL, 77),
    "infinite": (row(float("inf"), float("nan"), *USUAL[2:]), 1),
}


def some_records(schedule: str, length: int) -> Data:
    names: Any = ("source", "target") if schedule == "two streams" else (None,)
    data: Data = {}
    for seed, name in enumerate(names):
        rng = np.random.default_rng(seed)
        X = np.empty((length, len(COLUMNS)), object)
        for i in range(length):
            X[i] = row(
                int(rng.integers(100)),
                float(rng.integers(1000)),
                "ABCD"[rng.integers(4)],
                str(rng.integers(9)),
                bool(rng.integers(2)),
                f"20{rng.integers(10, 30)}-01-01T0{rng.integers(10)}:00:00",
                ["tide", "gate", "tide gate"][rng.integers(3)],
                rng.normal(size=2).tolist(),
            )
        X[3, 0], X[5, 2], X[7, 6] = None, "", 3
        data[name] = X, rng.integers(2, size=length).astype(object)
    return data


def scene_of(schedule: str, **settings: Any) -> GateScene:
    data = some_records(schedule, 20)
    return GateScene(
        config=config_of(schedule, **settings),
        data=data,
        slot=Slot(next(iter(data)), 10),
        script=honest(1),
    )


@pytest.mark.thorough
@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_neighbour_of_a_table_breaks_a_law(schedule: str, pure: bool) -> None:
    scene = scene_of(schedule, pure=pure)
    assert not gate_laws_broken(scene, (USUAL, 1), *NEIGHBOURS.values())


@pytest.mark.thorough
@pytest.mark.parametrize("settings", [{"pure": False}, {"pure": True}, {"folded": False}])
def test_nor_does_a_gap_where_the_columns_are_said_to_have_none(settings: dict[str, Any]) -> None:
    """Such a record is unusable; that moves no other slot, and no fit or survey stops."""
    scene = scene_of("fading", **{"pure": False, **settings}, columns=COMPLETE)
    other = (row(*USUAL[:2], "D", *USUAL[3:]), 1)
    gaps = [(row(*USUAL[:i], None, *USUAL[i + 1 :]), 1) for i in range(len(COLUMNS))]
    assert not gate_laws_broken(scene, (USUAL, 1), other, *gaps, *NEIGHBOURS.values())


@pytest.mark.thorough
@pytest.mark.parametrize("settings", [{"norm": 0.5}, {"folded": False}])
def test_nor_with_a_smaller_norm_or_stored_features(settings: dict[str, Any]) -> None:
    scene = scene_of("fading", pure=False, **settings)
    assert not gate_laws_broken(scene, (USUAL, 1), *NEIGHBOURS.values())


def by_the_batch(column: Category, values: Any) -> Cells:
    """Categories are numbered as they come."""
    given = [str(value) for value in values]
    order = {value: min(code, column.width - 1) for code, value in enumerate(dict.fromkeys(given))}
    codes = np.array([order[value] for value in given], np.intp)
    return Cells(codes, np.zeros(len(given), np.bool_), np.zeros(len(given), np.bool_))


def by_the_largest(column: Number, cells: Cells, out: Floats) -> None:
    """Numbers are scaled by the largest of the batch."""
    del column
    largest = max(float(np.abs(cells.values).max()), 1.0)
    out[:, 0] = np.clip(cells.values / largest, -1, 1)


def not_clipped(packing: Packing, packed: Any) -> Any:
    """Features are not clipped to the norm that noise is made for."""
    return packing.columns.unpack(packed)


def gaps_end_a_batch(cells: Cells) -> Cells:
    """A gap where there should be none makes all records of its batch unusable."""
    wrong = cells.wrong | cells.gap.any()
    return Cells(cells.values, np.zeros(wrong.size, np.bool_), wrong)


MISTAKES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "a category code taken from the batch": lambda: patch.object(Category, "cells", by_the_batch),
    "a range taken from the batch": lambda: patch.object(Number, "pack", by_the_largest),
}
COMPLETE_MISTAKES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "a gap that ends its batch": lambda: patch.object(Cells, "without_gaps", gaps_end_a_batch),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_with_columns_breaks_a_law(mistake: str) -> None:
    plant, config = MISTAKES[mistake], config_of("fading", pure=False, measured=False)
    data = some_records("fading", 20)
    scene = GateScene(config=config, data=data, slot=Slot(None, 0), script=honest(1), batch=20)
    before, after = (USUAL, 1), NEIGHBOURS["the other ends"]
    assert not gate_laws_broken(scene, before, after)
    with plant(), patch("tests.laws.gate_replay.verify", return_value=[]):
        assert gate_laws_broken(scene, before, after)


@pytest.mark.parametrize("mistake", COMPLETE_MISTAKES)
def test_a_mistake_with_complete_columns_breaks_a_law(mistake: str) -> None:
    config = config_of("fading", pure=False, measured=False, columns=COMPLETE)
    data = some_records("fading", 20)
    data[None][0][3, 0], data[None][0][5, 2] = 30, "A"  # no gap in any other record
    scene = GateScene(config=config, data=data, slot=Slot(None, 0), script=honest(1), batch=20)
    before, after = (USUAL, 1), (row(None, *USUAL[1:]), 1)
    assert not gate_laws_broken(scene, before, after)
    with COMPLETE_MISTAKES[mistake](), patch("tests.laws.gate_replay.verify", return_value=[]):
        assert gate_laws_broken(scene, before, after)


def test_features_beyond_the_norm_are_noticed() -> None:
    """By the solver, which must reach its tolerance for any rows within the norm."""
    config = config_of("fading", pure=True, norm=0.1, measured=False)
    data = some_records("fading", 20)
    scene = GateScene(config=config, data=data, slot=Slot(None, 0), script=honest(1), batch=20)
    planted = patch.object(Packing, "rows", not_clipped)
    with planted, pytest.raises(RuntimeError, match="exceeds the norm"):
        gate_laws_broken(scene, (USUAL, 1))
