"""A first step whose slots mostly have no owner: it stops before anything is paid."""

from pathlib import Path
from typing import Any

import pytest

from tests.state.gatelife import opened
from tests.state.test_forgery import problems
from tests.state.test_stopped import RIGHT, STEP, labelled, settings
from tidegate.checks import StoppedError
from tidegate.run.config import Config

TWO = {"kind": "twostream", "step": STEP, "source": {"kind": "cumulative", "block": STEP}}


def with_persons(**more: Any) -> Config:
    return settings(RIGHT, person={"id": "who", "contributions": 2}, **more)


def missing(n: int, total: int = STEP) -> list[Any]:
    return [None] * n + [f"p{number}" for number in range(total - n)]


@pytest.mark.parametrize("survey", [0, 0.05])
def test_a_first_step_of_nobody_stops_unpaid(survey: float, tmp_path: Path) -> None:
    chosen = with_persons(survey={"share": survey})
    with opened(tmp_path / "state", chosen) as gate:
        with pytest.raises(StoppedError, match=r"more than half of the first 512 records") as stop:
            gate.ingest(*labelled(STEP), persons=missing(STEP // 2 + 1))
        assert "check person.id" in str(stop.value)
        assert list(gate.store.steps()) == []
        assert gate.ledgers()["records"].worst().share == 0
        with pytest.raises(StoppedError, match=r"check person.id"):
            gate.ingest(*labelled(1), persons=["later"])
    with opened(tmp_path / "state", chosen) as gate:  # also after a restart
        with pytest.raises(StoppedError, match=r"check person.id"):
            gate.ingest(*labelled(1), persons=["later"])
        assert gate.store.count("records") == STEP
    assert problems(tmp_path / "state") == []


def test_half_of_the_ids_are_enough(tmp_path: Path) -> None:
    with opened(tmp_path / "state", with_persons()) as gate:
        gate.ingest(*labelled(STEP), persons=missing(STEP // 2))
        assert len(list(gate.store.steps())) == 1
        gate.ingest(*labelled(STEP), persons=missing(STEP))  # only a first step stops
        assert len(list(gate.store.steps())) == 2


def test_the_first_step_of_each_stream_counts(tmp_path: Path) -> None:
    with opened(tmp_path / "state", with_persons(schedule=TWO)) as gate:
        gate.ingest(*labelled(STEP), persons=missing(0), stream="source")
        with pytest.raises(StoppedError, match=r"first 512 target records have no usable"):
            gate.ingest(*labelled(STEP), persons=missing(STEP), stream="target")
