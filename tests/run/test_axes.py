"""An implementation of each axis that does nothing passes through executor, cards and `verify`."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.state.gatelife import config, opened, stream
from tidegate.checks import InvalidValueError
from tidegate.data.records import NotPacked, Records
from tidegate.learn import preparation
from tidegate.learn.slot_weights import EveryRecord
from tidegate.privacy.person import EachRecord
from tidegate.release.card import Content
from tidegate.run import executor, held
from tidegate.run.config import Config
from tidegate.run.memory_run import MemoryRun
from tidegate.run.settings import BitsByPlace, Nowhere, Settings
from tidegate.schedule.plan import Plan
from tidegate.schedule.progress import ByCounts, WithRecords
from tidegate.state import protected
from tidegate.state.verification import verify

Patch = AbstractContextManager[Any]


def watched(kind: type, asked: set[str]) -> Any:
    """An object of a class of its own, which does what the plain one does, and notes questions."""

    class Mine(kind):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> Any:
            asked.add(name)
            return super().__getattribute__(name)

    return Mine


@contextmanager
def counted_by(mine: Any) -> Iterator[None]:
    """Every slot counts, by an object of its own."""
    with (
        patch.object(protected, "EVERY_RECORD", mine),
        patch.object(held, "EVERY_RECORD", mine),
    ):
        yield


FIELDS: dict[str, Callable[[], Any]] = {
    "hidden": lambda: Content,
    "ends": lambda: ByCounts,
    "labels": lambda: WithRecords,
    "start": lambda: Nowhere,
    "packing": lambda: NotPacked,
}
"""Axes that are fields of the settings."""

PATCHES: dict[str, tuple[type, Callable[[Any], Patch]]] = {
    "who is protected": (EachRecord, lambda mine: patch.object(Plan, "protects", mine)),
    "which slots count": (EveryRecord, counted_by),
    "how rows are prepared": (
        preparation.AsTheyAre,
        lambda mine: patch.object(executor, "preparation_of", lambda _: mine),
    ),
}
"""Axes that follow from the plan."""


def plain() -> Config:
    """A gate of one stream of records, without surveys."""
    return config(
        {"kind": "sliding", "window": 300, "step": 100},
        survey={"share": 0},
        quality={"share": "1/10"},
    )


def shown(folder: Path, known: Config) -> list[Any]:
    """What a gate releases, after it was verified."""
    with opened(folder, known) as gate:
        gate.ingest(*stream(600))
        assert list(verify(gate)) == []
        return [(release.hash, release.card) for release in gate.releases()]


def in_memory(settings: Settings) -> list[Any]:
    """What a run in memory releases."""
    run = MemoryRun(settings)
    run.steps.about = settings.about
    run.take(settings.intake.records(*stream(600)))
    return [(each.weights.tolist(), each.entries()) for each in run.releases]


@pytest.mark.parametrize("axis", FIELDS)
def test_a_field_of_the_settings_that_does_nothing(axis: str, tmp_path: Path) -> None:
    asked: set[str] = set()
    own = plain()
    mine = replace(own.settings, **{axis: watched(FIELDS[axis](), asked)()})
    vars(own)["settings"] = mine
    assert shown(tmp_path / "mine", own) == shown(tmp_path / "plain", plain())
    assert in_memory(mine) == in_memory(plain().settings)
    assert asked, f"nobody asks {axis}"


@pytest.mark.parametrize("axis", PATCHES)
def test_what_follows_from_the_plan_and_does_nothing(axis: str, tmp_path: Path) -> None:
    asked: set[str] = set()
    kind, patched = PATCHES[axis]
    with patched(watched(kind, asked)()):
        mine, memory = shown(tmp_path / "mine", plain()), in_memory(plain().settings)
    assert mine == shown(tmp_path / "plain", plain())
    assert memory == in_memory(plain().settings)
    assert asked, f"nobody asks {axis}"


def test_the_same_settings_drive_a_run_in_memory_and_a_gate(tmp_path: Path) -> None:
    known = plain()
    assert isinstance(known.settings.noise, BitsByPlace)
    with opened(tmp_path / "state", known) as gate:
        gate.ingest(*stream(600))
        durable = [release.weights for release in gate.releases()]
    memory = [np.array(weights) for weights, _ in in_memory(known.settings)]
    assert len(durable) == len(memory) > 2
    assert all(map(np.array_equal, durable, memory))


def test_there_is_room_for_several_outcomes() -> None:
    settings = plain().settings
    assert settings.outcomes == (settings.intake.predicted,)


def test_what_decides_how_rows_are_read_has_no_default() -> None:
    """A forgotten transform or packing would leave rows longer than the norm that noise is for."""
    deciding = {"transform", "counted", "packing"}
    for made in (executor.FitJob, executor.reader):
        given = inspect.signature(made).parameters
        assert all(given[name].default is inspect.Parameter.empty for name in deciding)


def test_records_with_owners_never_count_one_by_one() -> None:
    owned = Records(
        np.eye(2), np.zeros(2, np.intp), np.ones(2, np.bool_), owners=np.ones((2, 2), np.uint64)
    )
    with pytest.raises(InvalidValueError, match="owners"):
        EveryRecord().once(owned)
