"""The command on runs that are there already: tests/study has how they are made."""

import json
from pathlib import Path

import pytest

from tests.cli.run import json_lines, tidegate
from tidegate.study.experiment import RUNS, Run
from tidegate.study.panels import panels


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder with all runs of panel (a), made up."""
    lines = []
    for experiment in panels(None, quick=True)[0].experiments:
        run = Run(experiment.key, 0, (8192, 9216), (0.9, 0.8))
        lines.append(json.dumps(run._asdict()) + "\n")
    (tmp_path / RUNS).write_text("".join(lines))
    return tmp_path


def test_a_panel_is_drawn_and_told(out: Path) -> None:
    done = tidegate("paper", "a", "--quick", "--out", str(out))
    assert done.returncode == 0
    for words in ("(a) MNIST", "as published", "not private", "ε = 0.1"):
        assert words in done.stdout
    for name in ("a.png", "overview.png"):
        assert (out / name).stat().st_size > 1000
    assert "| private | ε = 1 | gradient | 90.0 | 80.0 | 85.0 |" in (out / "paper.md").read_text()
    told = json.loads((out / "paper.json").read_text())["a"]
    assert told["theorems"].startswith("No bound is drawn")
    assert len(told["curves"]) == 11


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
