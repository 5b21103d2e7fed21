"""`tidegate compare`: its table, its JSON and its refusals."""

import io
import json
import tomllib
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.run import tidegate
from tests.gate.commands import gate_text
from tests.gate.gate_files import source_table, write_csv
from tidegate.cli.compare import progress_bar, run_all
from tidegate.study.comparison import Comparison, load, read
from tidegate.study.grid import FORGETS

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
    names = [line.split()[0] for line in lines if line.count("%") == 3]
    assert names[0] == names[3] == "not-private"
    assert sorted(names[:3]) == ["naive", "not-private", "sliding"]
    assert "Recommended" not in done.stdout  # of one schedule
    assert [line.strip() for line in lines if "epsilon =" in line] == [
        "epsilon = 1, delta = 1e-06",
        "epsilon = 10, delta = 1e-06",
    ]
    assert "sliding *" in done.stdout
    assert next(line.split()[:2] for line in lines if "majority" in line) == ["majority", "class"]
    assert "balanced" in done.stdout


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
        (["--forget", "1/100", "--method", "fading"], "forget must be at least 1/32"),
        (["--forget", "2", "--method", "fading"], "forget must be"),
        (["--forget", "1/4"], "--forget is for fading"),
        (["--forget", "often"], "forget must be a ratio such as 7/10 or 0.7"),
    ],
)
def test_mistakes_are_named_in_one_line(config: str, words: list[str], said: str) -> None:
    done = tidegate("compare", config, data(config), *words, "--method", "continual")
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]
    assert done.stdout == ""


@pytest.mark.parametrize("budget", [[], ["--delta", "1e-6"]], ids=["pure", "approximate"])
def test_by_default_a_grid_is_tried_and_the_best_recommended(
    config: str, budget: list[str]
) -> None:
    words = ["compare", config, data(config), *budget, "--epsilon", "20", "--runs", "2"]
    done = tidegate(*words, "--block", "200", "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    named = {row["method"]: row for row in rows}
    assert len(named) == len(rows)
    settings = {f"fading {forget}" for forget in FORGETS} | {"fading 1/5, memory 1"}
    others = {"sliding", "sliding-refit", "continual", "growing", "independent"}
    assert settings | others < set(named)
    assert ("dp-ftrl" in named) == bool(budget)
    (best,) = [row for row in rows if row["recommended"]]
    schedules = [row for row in rows if row["schedule"]]
    assert best["accuracy"] == max(row["accuracy"] for row in schedules)
    found = best["recommended"]
    assert tomllib.loads(found["toml"])["schedule"] == best["schedule"]
    assert list(found["left_out"]) == ([] if budget else ["dp-ftrl"])
    second = named[found["next"]["method"]]
    assert found["next"]["margin"] == second["behind"] >= 0
    assert found["next"]["within_noise"] == second["within_noise"]
    ties = {row["method"] for row in schedules if row["within_noise"]} - {best["method"]}
    assert set(found["within_noise"]) == ties
    assert named["fading 1/5, memory 1"]["retained"] == {"records": 0, "steps": 1}
    assert named["sliding"]["retained"] == {"records": 200, "steps": 3}
    assert named["growing"]["retained"] == {"records": None, "steps": None}
    assert all(0 < row["log_loss"] < 2 and row["seconds"] > 0 for row in rows)
    for row in rows:
        assert 0 <= row["auc"] <= 1
        assert 0 <= row["balanced_accuracy"] <= 1
        assert 0.5 <= row["majority"] <= 1
        assert -1 <= row["bias"] <= 1
        assert 0 < row["constant_log_loss"] <= 0.6932


def test_the_recommended_schedule_can_be_pasted(config: str) -> None:
    words = ["--method", "fading", "--forget", "1/4", "--epsilon", "20", "--step", "50"]
    with Path(config).open("a") as file:
        file.write('[allocation]\nname = "paper"\n')
    done = tidegate("compare", config, data(config), *words, "--window", "150")
    assert done.returncode == 0, done.stderr
    assert "Recommended: " in done.stdout
    assert "points above" in done.stdout
    start = done.stdout.index("[schedule]")
    table = tomllib.loads(done.stdout[start : done.stdout.index("\n\n", start)])["schedule"]
    assert table["step"] == 50
    assert table["kind"] in {"fading", "sliding"}
    assert "measured with other sizes than gate.toml" in done.stdout
    assert "remove [allocation] from gate.toml" in done.stdout or table["kind"] == "sliding"
    once = tidegate("compare", config, data(config), *words, "--window", "150", "--runs", "1")
    assert "use --runs 2 or more" in once.stdout


def test_progress_counts_every_run_and_names_the_method(config: str) -> None:
    comparison = Comparison(tables=load(Path(config)), sizes={"block": 200})
    records = read(comparison.config, comparison.config.source_of(data(config)))
    stream = comparison.stream(records, every=None)
    contenders, _ = comparison.contenders(["naive", "not-private"], stream.n)
    shown = io.StringIO()
    with progress_bar(Console(file=shown, force_terminal=True)) as progress:
        run_all(contenders, stream, 2, progress)
        (task,) = progress.tasks
        assert (task.completed, task.total, task.description) == (5, 5, "not-private")
    assert "5/5" in shown.getvalue()


def test_a_large_delta_can_be_confirmed(config: str) -> None:
    words = ["--delta", "0.01", "--weak-delta", "--format", "json"]
    done = tidegate("compare", config, data(config), *QUICK, *words)
    assert done.returncode == 0, done.stderr
    assert {json.loads(line)["delta"] for line in done.stdout.splitlines()} >= {0.01}


def test_the_records_of_the_gate_itself_are_refused(config: str) -> None:
    done = tidegate("compare", config, str(Path(config).parent / "records.csv"), *QUICK)
    assert done.returncode == 2
    assert "is in [source]" in done.stderr
