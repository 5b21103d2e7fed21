"""A state that stops before its first fit: what it refuses, and how its settings are corrected."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.state.gatelife import config, opened
from tidegate.checks import InvalidValueError, StoppedError, StoreError
from tidegate.gate import Gate
from tidegate.run.config import Config
from tidegate.schedule import Span
from tidegate.state.status import status
from tidegate.state.verification import verify

STEP = 512
SLIDING = {"kind": "sliding", "window": 2 * STEP, "step": STEP}
TWO = {"kind": "twostream", "step": STEP, "source": {"kind": "cumulative", "block": STEP}}
BUDGET = {"epsilon": 4.0, "delta": 1e-6}
WRONG = {"classes": [7, 8], "norm": 1.5, "dtype": "float64"}
RIGHT = {"classes": [0, 1], "norm": 1.5, "dtype": "float64"}


def settings(records: Any = None, schedule: Any = SLIDING, **more: Any) -> Config:
    return config(schedule, **{"budget": BUDGET, "records": records or WRONG, **more})


def labelled(n: int, start: int = 0) -> tuple[Any, Any]:
    slots = np.arange(start, start + n)
    y = slots % 2
    return np.column_stack([2.0 * y - 1, np.cos(slots), slots % 11 / 11]), y


def stop(folder: Path, n: int = 2 * STEP + 60, **more: Any) -> str:
    """Ingest records that the settings cannot use; return the message."""
    with opened(folder, settings(**more)) as gate, pytest.raises(StoppedError) as refused:
        gate.ingest(*labelled(n), key=f"first of {n}")
    return str(refused.value)


def sound(folder: Path) -> bool:
    with Gate.look(folder) as gate:
        return list(verify(gate)) == []


def test_a_state_stops_before_its_first_fit(tmp_path: Path) -> None:
    message = stop(tmp_path / "state")
    assert "stopped before the first fit" in message
    assert "512 records cannot be used" in message
    for word in ("columns", "label", "classes", "norm", "tidegate check CONFIG FILE", "1/20"):
        assert word in message
    with opened(tmp_path / "state", settings()) as gate:
        calls: list[Any] = [
            lambda: gate.ingest(*labelled(1)),
            lambda: list(gate.advance()),
            lambda: list(gate.run({})),
        ]
        for call in calls:
            with pytest.raises(StoppedError) as again:
                call()
            assert str(again.value) == message
        assert list(gate.store.lines()) == []
        (step,) = gate.store.steps()
        assert (step.span, step.survey_share, step.evaluation) == (
            Span(0, STEP),
            Fraction(1, 20),
            None,
        )
        ledger = gate.ledgers()["records"]
        paid = [ledger.paid(record) for record in (0, STEP - 1, STEP)]
        assert paid == [Fraction(1, 20), Fraction(1, 20), Fraction(0)]
        assert gate.store.count("records") == 2 * STEP + 60
        assert status(gate)["stopped"]["message"] == message
    assert sound(tmp_path / "state")


def test_corrected_settings_start_again(tmp_path: Path) -> None:
    stop(tmp_path / "state")
    right = settings(RIGHT)
    with opened(tmp_path / "state", right) as gate:
        assert "512 records of the stopped step keep their charge" in (gate.corrected or "")
        assert "572 records that came later were deleted uncharged" in (gate.corrected or "")
        assert (gate.store.count("records"), gate.store.held()) == (0, [])
        assert list(gate.store.quarantine("records")) == []
        (stopped,) = gate.store.stopped()
        assert (stopped.span, stopped.survey.share) == (Span(0, STEP), Fraction(1, 20))
        assert status(gate)["stopped"] is None
    assert sound(tmp_path / "state")
    with opened(tmp_path / "state", right) as gate:
        assert gate.corrected is None
        assert (
            gate.ingest(*labelled(10), key=f"first of {2 * STEP + 60}") == 0
        )  # its name was taken
        gate.ingest(*labelled(3 * STEP, 2000))
        assert len(list(gate.releases())) == 2
    assert sound(tmp_path / "state")
    with pytest.raises(InvalidValueError, match="are fixed when a state is created"):
        opened(tmp_path / "state", settings())


def test_a_state_may_stop_twice(tmp_path: Path) -> None:
    stop(tmp_path / "state")
    stop(tmp_path / "state", records={**WRONG, "classes": [7, 8, 9]}, n=STEP)
    with opened(tmp_path / "state", settings(RIGHT)) as gate:
        gate.ingest(*labelled(2 * STEP))
        assert len(gate.store.stopped()) == 2
        assert len(list(gate.releases())) == 1
    assert sound(tmp_path / "state")


@pytest.mark.parametrize(
    "more",
    [
        {"budget": {**BUDGET, "epsilon": 4.1}},
        {"budget": {**BUDGET, "delta": 1e-7}},
        {"survey": {"share": "1/10"}},
        {"not_private_seed": 8},
    ],
)
def test_a_correction_keeps_what_the_stopped_step_has_paid(more: Any, tmp_path: Path) -> None:
    stop(tmp_path / "state")
    with pytest.raises(InvalidValueError, match=r"must keep \[budget\], \[survey\]"):
        opened(tmp_path / "state", settings(RIGHT, **more))
    with pytest.raises(InvalidValueError, match="number of streams"):
        opened(tmp_path / "state", settings(RIGHT, TWO))
    with opened(tmp_path / "state", settings()) as gate:
        assert gate.store.stopped() == []


def test_a_state_that_goes_on_cannot_be_corrected(tmp_path: Path) -> None:
    with opened(tmp_path / "state", settings(RIGHT)) as gate:
        gate.ingest(*labelled(STEP))
    with pytest.raises(InvalidValueError, match="are fixed when a state is created"):
        opened(tmp_path / "state", settings())
    with opened(tmp_path / "new", settings(RIGHT)) as gate:
        gate.ingest(*labelled(STEP - 1))
    with pytest.raises(InvalidValueError, match="are fixed when a state is created"):
        opened(tmp_path / "new", settings())


@pytest.mark.parametrize("first", ["source", "target"])
def test_two_streams(first: str, tmp_path: Path) -> None:
    with opened(tmp_path / "state", settings(schedule=TWO)) as gate:
        with pytest.raises(StoppedError, match=f"512 {first} records cannot be used"):
            gate.ingest(*labelled(STEP), stream=first)
        with pytest.raises(StoppedError):
            gate.ingest(*labelled(STEP), stream="target")
    assert sound(tmp_path / "state")
    with opened(tmp_path / "state", settings(RIGHT, TWO)) as gate:
        gate.ingest(*labelled(STEP), stream="source")
        gate.ingest(*labelled(STEP), stream="target")
        assert len(list(gate.releases())) == 2
    assert sound(tmp_path / "state")


def test_the_other_streams_charges_are_never_set_aside(tmp_path: Path) -> None:
    with opened(tmp_path / "state", settings(RIGHT, TWO)) as gate:
        gate.ingest(*labelled(STEP), stream="source")
        X, y = labelled(STEP)
        with pytest.raises(StoppedError, match="target records"):
            gate.ingest(X, y + 7, stream="target")
        (step,) = (each for each in gate.store.steps() if each.stream == "target")
        assert step.evaluation is None  # no scores are bought
        with pytest.raises(StoreError, match="steps besides the stopped one"):
            gate.store.correct("{}", "{}")
    assert sound(tmp_path / "state")
    with pytest.raises(InvalidValueError, match="cannot be corrected: start a new state"):
        opened(tmp_path / "state", settings(schedule=TWO))


def test_a_short_step_does_not_stop_by_noise(tmp_path: Path) -> None:
    """Noise of several steps' size would stop one stream in four if one half were the threshold."""
    short = {"kind": "sliding", "window": 32, "step": 16}

    def more(seed: int) -> dict[str, Any]:
        return {"not_private_seed": seed, "quality": {"share": "0"}}

    for seed in range(10):
        with opened(tmp_path / f"{seed}", settings(RIGHT, short, **more(seed))) as gate:
            gate.ingest(*labelled(64))
            assert len(list(gate.releases())) == 3
