"""The command on runs that are there already: test_panels.py has how they are made."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import json_lines, tidegate
from tidegate_lab.paper.experiment import RUNS, Run
from tidegate_lab.paper.panels import panels

MEASURES: dict[str, list[Any]] = {
    "log_loss": [0.4, 0.6],
    "balanced_accuracy": [0.9, 0.8],
    "auc": [None, None],
    "bias": [None, None],
    "majority": [0.11, 0.13],
    "constant_log_loss": [2.3, 2.2],
}


def made_up(folder: Path, measures: dict[str, list[Any]] | None) -> Path:
    """A folder with all runs of panel (a), made up."""
    lines = []
    for experiment in panels(None, quick=True)[0].experiments:
        run = Run(experiment.key, 0, (8192, 9216), (0.9, 0.8), measures)._asdict()
        if measures is None:
            del run["measures"]  # as it was saved before there were any
        lines.append(json.dumps(run) + "\n")
    (folder / RUNS).write_text("".join(lines))
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Runs without measures."""
    return made_up(tmp_path, None)


def test_a_panel_is_drawn_and_told(out: Path) -> None:
    done = tidegate("paper", "a", "--quick", "--out", str(out))
    assert done.returncode == 0
    for words in ("(a) MNIST", "as published", "not private", "ε = 0.1"):
        assert words in done.stdout
    for name in ("a.png", "overview.png"):
        assert (out / name).stat().st_size > 1000
    assert "| private | ε = 1 | gradient | 90.0 | 80.0 | 85.0 |" in (out / "paper.md").read_text()
    assert "loss" not in done.stdout + (out / "paper.md").read_text()  # it was not measured
    told = json.loads((out / "paper.json").read_text())["a"]
    assert told["theorems"].startswith("No bound is drawn")
    assert len(told["curves"]) == 11
    assert told["majority"] == []
    assert told["curves"][0]["log_loss"] is None


def test_measures_are_shown_where_they_were_measured(tmp_path: Path) -> None:
    out = made_up(tmp_path, MEASURES)
    done = tidegate("paper", "a", "--quick", "--out", str(out))
    assert done.returncode == 0
    assert done.stdout.count("log-loss") == done.stdout.count("majority class") == 2
    assert "AUC" not in done.stdout
    text = (out / "paper.md").read_text()
    assert "| | curve | kind | first | last | mean | log-loss |" in text
    assert "| private | ε = 1 | gradient | 90.0 | 80.0 | 85.0 | 0.500 |" in text
    assert "| private | majority class | constant | 11.0 | 13.0 | 12.0 | 2.250 |" in text
    told = json.loads((out / "paper.json").read_text())["a"]
    assert len(told["curves"]) == 11
    for row in told["curves"]:
        assert (row["log_loss"], row["auc"], row["majority"]) == (0.5, None, 0.12)
        assert row["measures"]["log_loss"] == [0.4, 0.6]
    assert [row["median"] for row in told["majority"]] == [[0.11, 0.13]] * 2


def test_a_line_of_json_for_every_curve(out: Path) -> None:
    rows = json_lines("paper", "a", "--quick", "--out", str(out))
    assert {row["private"] for row in rows if "NOT PRIVATE" in row["column"]} == {False}
    assert rows[0]["median"] == [0.9, 0.8]


def test_an_unknown_panel_is_refused(tmp_path: Path) -> None:
    done = tidegate("paper", "z", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "panel must be one of a, b" in done.stderr


def test_titles_that_are_not_there_are_missed_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDEGATE_DATA", raising=False)
    done = tidegate("paper", "a", "e", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "--kaggle" in done.stderr


def test_a_scheduler_without_its_engine_is_refused(tmp_path: Path) -> None:
    done = tidegate("paper", "a", "--out", str(tmp_path), "--scheduler", "tcp://127.0.0.1:8786")
    assert done.returncode == 2
    assert "--scheduler needs --engine dask, got memory" in done.stderr
