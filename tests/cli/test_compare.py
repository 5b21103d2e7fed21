"""`tidegate compare`: its table, its JSON and its refusals."""

import json
from pathlib import Path

import pytest

from tests.cli.run import tidegate
from tests.gate.commands import gate_text
from tests.gate.gate_files import source_table, write_csv

QUICK = ["--method", "naive", "--method", "not-private", "--runs", "1"]


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "gate.toml").write_text(gate_text(tmp_path, source_table(tmp_path / "records.csv")))
    write_csv(tmp_path / "public.csv", 900)
    write_csv(tmp_path / "records.csv", 900)
    return str(tmp_path / "gate.toml")


def data(config: str) -> str:
    return str(Path(config).parent / "public.csv")


def test_the_table_lines_up_and_warns(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.cli.run.VARIABLES", {"COLUMNS": "80", "NO_COLOR": "1"})
    budgets = ["--epsilon", "1", "--epsilon", "10", "--delta", "1e-6"]
    done = tidegate("compare", config, data(config), *QUICK, *budgets)
    assert done.returncode == 0, done.stderr
    assert "Use public or synthetic records only" in done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    names = [line.split()[0] for line in lines if line.endswith(("% ", "%"))]
    assert names[0] == names[3] == "not-private"
    assert sorted(names[:3]) == ["naive", "not-private", "sliding"]
    assert [line.strip() for line in lines if "epsilon =" in line] == [
        "epsilon = 1, delta = 1e-06",
        "epsilon = 10, delta = 1e-06",
    ]
    assert "sliding *" in done.stdout


@pytest.mark.slow
def test_json_has_every_release(config: str) -> None:
    plot = Path(config).parent / "c.svg"
    words = ["--holdout", "1/5", "--plot", str(plot), "--format", "json"]
    done = tidegate("compare", config, data(config), *QUICK, *words)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["method"] for row in rows] == ["sliding", "naive", "not-private"]
    assert [row["configured"] for row in rows] == [True, False, False]
    assert rows[0]["at"] == [300, 400, 500, 600, 700]
    assert all(len(row["median"]) == len(row["at"]) for row in rows)
    assert rows[0]["delta"] is None
    assert plot.stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "dp-ftrl"], "needs a delta"),
        (["--delta", "0.01"], "delta must be at most 0.001, or confirmed by weak_delta"),
        (["--holdout", "2/3"], "at most 1/2, got 2/3"),
        (["--block", "150"], "block"),
        (["--window", "5000"], "needs 5,000 records for its first release"),
        (["--method", "magic"], "magic"),
    ],
)
def test_mistakes_are_named_in_one_line(config: str, words: list[str], said: str) -> None:
    done = tidegate("compare", config, data(config), *words, "--method", "continual")
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]
    assert done.stdout == ""


def test_a_large_delta_can_be_confirmed(config: str) -> None:
    words = ["--delta", "0.01", "--weak-delta", "--format", "json"]
    done = tidegate("compare", config, data(config), *QUICK, *words)
    assert done.returncode == 0, done.stderr
    assert {json.loads(line)["delta"] for line in done.stdout.splitlines()} >= {0.01}


def test_the_records_of_the_gate_itself_are_refused(config: str) -> None:
    done = tidegate("compare", config, str(Path(config).parent / "records.csv"), *QUICK)
    assert done.returncode == 2
    assert "is in [source]" in done.stderr
