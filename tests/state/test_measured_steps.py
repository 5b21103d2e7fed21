"""What is shown of surveys, scores and drift: by commands, on cards and to readers of a state."""

import logging
import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.cli.run import json_lines, tidegate
from tidegate.gate import Config, Gate
from tidegate.learn.drift import Errors, drift_of, drift_of_scores
from tidegate.learn.measures.measure import numbers_for
from tidegate.learn.preparation import Moments
from tidegate.learn.scores import Scores
from tidegate.learn.survey import Survey
from tidegate.privacy.budget import allowance_of
from tidegate.release.markdown import to_markdown
from tidegate.state.folder_store import FolderStore
from tidegate.state.measured_steps import MAX_STEPS_KEPT, alarm_in_words
from tidegate.state.status import public_status

STEP, STEPS, CHANGE = 2000, 8, 5


def config(**sections: Any) -> Config:
    return Config.of(
        {
            "schedule": {"kind": "fading", "step": STEP, "memory": 2},
            "budget": {"epsilon": 4.0, "delta": 1e-6},
            "records": {"classes": [0, 1], "norm": 1.0, "columns": ["a", "b"], "label": "y"},
            "not_private_seed": 1,
            **sections,
        }
    )


def step(number: int) -> tuple[Any, Any]:
    """Records of a step; from one step on, feature a has another mean."""
    rng = np.random.default_rng(number)
    y = (rng.random(STEP) < 0.25).astype(int)
    a = 0.4 * y - 0.1 + rng.normal(0, 0.1, STEP) + (0.4 if number >= CHANGE else 0.0)
    return np.column_stack([a, rng.normal(0, 0.1, STEP)]).clip(-0.7, 0.7), y


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("measured") / "state"
    with Gate.open(folder, config()) as gate:
        for number in range(STEPS):
            gate.ingest(*step(number))
            list(gate.advance())
    return folder


def test_drift_is_that_of_stored_surveys_and_scores(state: Path) -> None:
    with Gate.look(state) as gate:
        view = gate.ledger_view()
        view.catch_up()
        found = view.measured.newest()
        errors = Errors()
        before: Any = None
        for each in found:
            stored = gate.store.survey("records", each.step.span.stop)
            assert stored is not None
            spent = allowance_of(gate.plan.budget, stored.share)
            seen = Survey(slots=STEP, classes=2, allowance=spent, cells=stored.cells)
            past = None if before is None else Moments(classes=2, cells=before)
            drift = None if past is None else drift_of(past, seen)
            if each.step.evaluation is not None:
                scores = Scores.of_json(each.step.evaluation.scores or {})
                other = drift_of_scores(errors, scores)
                assert drift is not None
                drift, errors = drift.beside(other), errors.after(scores)
            assert each.drift == drift
            before = stored.moments
        assert not any(each.alarm for each in found[:CHANGE])
        assert found[CHANGE].alarm


def test_steps_are_computed_once_and_each_alarm_is_fresh_once(state: Path) -> None:
    with Gate.look(state) as gate:
        view = gate.ledger_view()
        view.catch_up()
        assert len(view.measured.fresh()) == STEPS
        view.catch_up()
        assert view.measured.fresh() == []
        assert len(view.measured.newest()) == STEPS <= MAX_STEPS_KEPT
        other = gate.ledger_view()
        other.catch_up()
        other.measured.skip()
        assert other.measured.fresh() == []


def test_the_public_status_has_scores_surveys_and_drift(state: Path) -> None:
    with Gate.look(state) as gate:
        view = gate.ledger_view()
        view.catch_up()
        status = public_status(gate, view)
    assert len(status["surveys"]) == STEPS
    assert len(status["quality"]) == STEPS - 1
    assert set(status["quality"][-1]["scores"]) == set(numbers_for("classes"))
    assert status["scores"]["calibration"]
    assert status["drift"]["newest_alarm"]["at"] >= (CHANGE + 1) * STEP
    shares = status["surveys"][0]
    assert abs(shares["classes"][1] - 0.25) < 5 * shares["deviation"] + 0.05


def test_status_tells_of_the_newest_alarm_and_the_scores(state: Path) -> None:
    (status,) = json_lines("status", str(state))
    text = tidegate("status", str(state)).stdout
    assert f"drift: {alarm_in_words(status['drift']['newest_alarm'])}" in text
    assert "false alarms at most 1 in 1,000 steps" in text
    assert "majority class" in text
    assert "log-loss" in text


def test_survey_lists_steps_and_features(state: Path) -> None:
    rows = json_lines("survey", str(state), "--last", "3")
    assert [row["stop"] for row in rows] == [STEP * n for n in range(STEPS - 2, STEPS + 1)]
    assert [row["features"] is None for row in rows] == [True, True, False]
    assert set(rows[0]["classes"]) == {"0", "1"}
    named = {each["feature"]: each for each in rows[-1]["features"]}
    X = np.vstack([step(number)[0] for number in range(STEPS)])
    weights = np.repeat(Moments.KEEP ** np.arange(STEPS)[::-1], STEP)
    for index, name in enumerate(("a", "b")):
        mean = np.average(X[:, index], weights=weights)
        center, spread = named[name]["center"], named[name]["spread"]
        assert abs(center["value"] - mean) < 5 * center["deviation"]
        if spread is not None:
            truth = np.sqrt(np.average((X[:, index] - mean) ** 2, weights=weights))
            assert abs(spread["value"] - truth) < 5 * spread["deviation"]
    table = tidegate("survey", str(state), COLUMNS="80").stdout
    assert max(map(len, table.splitlines())) <= 110
    assert "drift: step at" in table
    assert "±" in table


def test_survey_says_in_one_line_what_is_missing(tmp_path: Path, state: Path) -> None:
    none = tidegate("survey", str(tmp_path / "none"))
    assert (none.returncode, none.stderr.count("\n")) == (2, 1)
    with Gate.open(tmp_path / "new", config()):
        pass
    assert "no survey yet" in tidegate("survey", str(tmp_path / "new")).stderr
    with Gate.open(tmp_path / "off", config(survey={"share": "0"})):
        pass
    assert "[survey] share is 0" in tidegate("survey", str(tmp_path / "off")).stderr
    assert "must be records" in tidegate("survey", str(state), "--stream", "other").stderr


def test_releases_show_their_scores(state: Path) -> None:
    rows = json_lines("releases", str(state))
    assert rows[0]["scores_before"] is None
    assert all(set(row["scores_before"]) == set(numbers_for("classes")) for row in rows[1:])
    assert "Scores, ±" in tidegate("releases", str(state)).stdout


def test_a_card_in_markdown_tells_scores_and_survey_without_their_cells(state: Path) -> None:
    with Gate.look(state) as gate:
        newest = gate.store.newest()
        assert newest is not None
        text = to_markdown(newest.card)
    assert "noisy_counts" not in text
    assert newest.card["transform"]["center"] not in text
    assert "(majority class" in text
    assert "class 1 " in text


def test_a_command_that_carries_out_a_step_tells_of_a_new_alarm_once(tmp_path: Path) -> None:
    folder, file = tmp_path / "state", tmp_path / "new.csv"
    with Gate.open(folder, config()) as gate:
        for number in range(CHANGE):
            gate.ingest(*step(number))
            list(gate.advance())
    X, y = step(CHANGE)
    rows = [f"{a!r},{b!r},{label}" for (a, b), label in zip(X.tolist(), y.tolist(), strict=True)]
    file.write_text("\n".join(["a,b,y", *rows]) + "\n")
    told = tidegate("ingest", str(folder), str(file)).stderr
    assert told.startswith(f"tidegate: drift: step at {(CHANGE + 1) * STEP:,} differs in ")
    assert "drift" not in tidegate("ingest", str(folder), str(file)).stderr


@pytest.mark.thorough
def test_a_service_tells_of_a_new_alarm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("fastapi", reason="needs the extra serve")
    from tests.serve.served import become, served  # noqa: PLC0415 (needs the extra)
    from tests.serve.test_events import ask, read  # noqa: PLC0415

    unnamed = {"classes": [0, 1], "norm": 1.0}  # so that only the model knows the width
    snapshots, snapshot = [], FolderStore.snapshot

    def noted(self: FolderStore) -> Any:
        snapshots.append(threading.current_thread().name)
        return snapshot(self)

    with (
        patch.object(FolderStore, "snapshot", noted),
        served(tmp_path / "state", config(records=unnamed)) as running,
    ):

        def send(number: int) -> bool:
            X, y = step(number)
            running.ask("POST", "/v1/records", {"x": X.tolist(), "y": y.tolist()})
            wanted = (number + 1) * STEP
            return become(lambda: known()["streams"][0]["done"] == wanted)

        def known() -> Any:
            return running.ask("GET", "/v1/status").json

        for number in range(CHANGE):
            assert send(number)
        with ask(running) as connection, caplog.at_level(logging.WARNING, "tidegate.serve"):
            assert b"event: drift" not in read(connection, b"event: progress")
            assert send(CHANGE)
            assert b"event: drift" in read(connection, b"event: drift")
            assert become(lambda: any("differs in" in line for line in caplog.messages))
        answer = running.ask("POST", "/v1/predict", {"x": [[0.2, 0.1]]})
        assert (answer.status, answer.json["classes"]) == (200, [0, 1])
        wrong = running.ask("POST", "/v1/predict", {"x": [[0.2, 0.1, 0.3]]})
        assert (wrong.status, "2 columns" in wrong.json["error"]) == (422, True)
        metrics = running.ask("GET", "/metrics").body.decode()
        assert 'tidegate_drift_alarm{stream="records"} 1.0' in metrics
        assert f'tidegate_drift_alarm_at{{stream="records"}} {(CHANGE + 1) * STEP}.0' in metrics
        for name in ("log_loss", "auc", "balanced_accuracy", "majority", "unusable_share"):
            assert f"tidegate_{name}{{" in metrics
            assert f"tidegate_{name}_deviation{{" in metrics
    assert "training" not in snapshots, "the other thread writes to the same connection"
