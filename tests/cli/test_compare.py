"""`tidegate compare`: its table, its JSON and its refusals."""

import io
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tests.cli.run import tidegate
from tests.state.commands import gate_text
from tests.state.gate_files import source_table, write_csv
from tidegate.cli.compare_command import progress_bar, run_all
from tidegate.compare.comparison import Comparison, load, read
from tidegate.compare.contenders import FORGETS

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
        "epsilon = 1, delta = 1e-06: accuracy",
        "epsilon = 10, delta = 1e-06: accuracy",
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


@pytest.mark.thorough
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


@pytest.mark.thorough
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
    stream = comparison.stream(records, every=0)
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


# --- tables as they come, classes and numbers

COLUMNS = """
columns = [
    {name = "carrier", kind = "category", values = ["UA", "B6"]},
    {name = "miles", kind = "number", low = 0, high = 3000},
    {name = "left", kind = "time", parts = ["hour"]},
    {name = "cargo", kind = "flag"},
    {name = "note", kind = "text", size = 64},
]
[schedule]
kind = "fading"
step = 200
[budget]
epsilon = 20.0
delta = 1e-6
[records]
label = "minutes"
"""
LATE = 'classes = ["on time", "late"]\ncuts = [15]\n'
MINUTES = "target = [-60, 180]\n"


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    """Flights with categories, times, texts and gaps: each column but miles tells of minutes."""
    rng, rows = np.random.default_rng(5), ["carrier,miles,left,cargo,note,minutes"]
    for _ in range(2400):
        late, hour = rng.random() < 0.5, int(rng.integers(24))
        carrier = ["UA", "B6", "", "ZZ"][rng.choice(4, p=[0.4, 0.4, 0.1, 0.1])]
        minutes = str(round(40 * late + 20 * (carrier == "UA") + rng.normal(0, 5)))
        note = ["storm ahead", "snow"][rng.integers(2)] if late else "calm"
        miles = "" if rng.random() < 0.1 else f"{rng.uniform(0, 3500):.0f}"
        left = "" if rng.random() < 0.1 else f"2013-01-05T{hour:02}:30:00Z"
        gone = "NA" if rng.random() < 0.03 else minutes  # cancelled
        rows.append(f"{carrier},{miles},{left},{['true', 'false'][rng.integers(2)]},{note},{gone}")
    (tmp_path / "public.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "late.toml").write_text(COLUMNS + LATE)
    (tmp_path / "minutes.toml").write_text(COLUMNS + MINUTES)
    return tmp_path


FEW = ["--method", "independent", "--method", "not-private", "--method", "constant", "--runs", "2"]


def by_method(*words: str) -> dict[str, dict[str, Any]]:
    done = tidegate("compare", *words, *FEW, "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["method"]: row for row in rows}


def test_tables_as_they_come_are_compared_by_class(flights: Path) -> None:
    words = str(flights / "late.toml"), str(flights / "public.csv")
    named = by_method(*words)
    assert {row["measure"] for row in named.values()} == {"accuracy"}
    assert named["not-private"]["accuracy"] > 0.85
    assert named["constant"]["accuracy"] < 0.7
    assert named["constant"]["auc"] == 0.5
    assert named["fading"]["accuracy"] > 0.75


@pytest.mark.thorough
def test_tables_as_they_come_are_compared_by_error(flights: Path) -> None:
    words = str(flights / "minutes.toml"), str(flights / "public.csv")
    plot = flights / "plot.png"
    named = by_method(*words, "--plot", str(plot))
    assert plot.stat().st_size > 10_000
    assert {row["measure"] for row in named.values()} == {"rmse"}
    assert not {"accuracy", "auc", "log_loss"} & set(named["fading"])
    constant, learnt = named["constant"], named["not-private"]
    assert constant["rmse"] == pytest.approx(22.5, rel=0.1)  # of 40 and 20 minutes, and noise
    assert constant["r2"] == pytest.approx(0, abs=0.05)
    assert constant["rmse"] >= constant["constant_rmse"]
    assert learnt["rmse"] < 9
    assert learnt["mae"] < learnt["rmse"]
    assert learnt["r2"] > 0.8
    assert named["fading"]["rmse"] < 0.8 * constant["rmse"]
    (best,) = [row for row in named.values() if row["recommended"]]
    schedules = [row for row in named.values() if row["schedule"]]
    assert best["rmse"] == min(row["rmse"] for row in schedules)
    other = next(row for row in schedules if row is not best)
    assert best["recommended"]["next"]["margin"] == other["behind"] >= 0
    assert other["behind"] == pytest.approx(other["rmse"] - best["rmse"], abs=2e-4)


def test_the_table_of_errors_reads_well(flights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.cli.run.VARIABLES", {"COLUMNS": "80", "NO_COLOR": "1"})
    words = str(flights / "minutes.toml"), str(flights / "public.csv")
    done = tidegate("compare", *words, *FEW)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].strip() == "epsilon = 20, delta = 1e-06: RMSE"
    heading = next(line.split() for line in lines if line.startswith("method") and "R^2" in line)
    assert heading == ["method", "RMSE", "MAE", "R^2", "bias"]
    (mean,) = [line.split() for line in lines if line.startswith("mean target")]
    assert mean[4:] == ["0.000", "+0.00"]
    shown = [float(line.split()[-4]) for line in lines if line.startswith("not-private")]
    assert 4 < shown[-1] < 9  # the noise of the targets is 5
    assert "%" not in done.stdout.replace("95 %", "")
    text = " ".join(done.stdout.split())
    assert "with an RMSE of " in text
    assert "Its RMSE is " in text
    assert "in the unit of minutes" in text
    assert "accurac" not in text


def test_columns_that_tell_nothing_are_noticed(flights: Path) -> None:
    text = (flights / "minutes.toml").read_text()
    kept = [line for line in text.splitlines() if '"carrier"' not in line and '"note"' not in line]
    (flights / "blind.toml").write_text("\n".join(kept))
    words = str(flights / "blind.toml"), str(flights / "public.csv")
    done = tidegate("compare", *words, *FEW)
    shown = " ".join(done.stdout.split())  # which of both depends on the noise
    assert re.search("A constant is (as good, within the noise|better): the columns say", shown)


@pytest.fixture
def persons(tmp_path: Path) -> str:
    """A configuration that protects persons, and public records with ids."""
    columns = "".join(
        f'[[columns]]\nname = "{name}"\nkind = "number"\nlow = {low}\nhigh = {high}\n'
        for name, low, high in (("age", 0, 110), ("pressure", 60, 220))
    )
    (tmp_path / "gate.toml").write_text(
        '[schedule]\nkind = "fading"\nstep = 100\n[budget]\nepsilon = 3.0\ndelta = 1e-6\n'
        '[records]\nclasses = ["home", "ward"]\nlabel = "outcome"\n'
        f'{columns}[person]\nid = "patient"\ncontributions = 2\n'
    )
    rng = np.random.default_rng(2)
    lines = ["age,pressure,outcome,patient"]
    for slot in range(900):
        ill, who = rng.integers(2), "" if slot % 70 == 1 else f"P-{rng.integers(80):03d}"
        numbers = rng.normal(40 + 25 * ill, 10), rng.normal(120 + 25 * ill, 10)
        lines.append(f"{numbers[0]:.0f},{numbers[1]:.0f},{('home', 'ward')[ill]},{who}")
    (tmp_path / "public.csv").write_text("\n".join(lines) + "\n")
    return str(tmp_path / "gate.toml")


WITH_PERSONS = [
    "--runs",
    "2",
    "--method",
    "independent",
    "--method",
    "naive",
    "--method",
    "constant",
]


def test_persons_are_compared_with_their_ids(persons: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.cli.run.VARIABLES", {"COLUMNS": "80", "NO_COLOR": "1"})
    done = tidegate("compare", persons, data(persons), *WITH_PERSONS)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    below = lines[next(at for at, line in enumerate(lines) if "counted" in line) :]
    counted = {line.split()[0]: line.split()[-1] for line in below if line.count("%") > 1}
    assert re.fullmatch(r"[1-8]\d\.\d%", counted["fading"])
    assert re.fullmatch(r"[1-8]\d\.\d%", counted["independent"])
    assert counted["naive"] == counted["constant"] == "-"
    assert "naive counts each person like one record" in " ".join(done.stdout.split())
    assert "P-0" not in done.stdout + done.stderr


@pytest.mark.thorough
def test_json_says_how_many_records_of_persons_count(persons: str) -> None:
    done = tidegate("compare", persons, data(persons), "--runs", "1", "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = {row["method"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert {row["contributions"] for row in rows.values()} == {2}
    own = rows.pop("fading")
    assert own["configured"]
    assert 0 < own["admitted"] < 1
    assert rows["independent"]["admitted"] < rows["fading 1/15"]["admitted"]
    assert rows["naive"]["admitted"] is rows["not-private"]["admitted"] is None
    best = next(row for row in (own, *rows.values()) if row["recommended"])
    assert set(best["recommended"]["left_out"]) == {"window-refit", "dp-ftrl"}


def test_nothing_is_said_of_persons_where_records_are_protected(config: str) -> None:
    done = tidegate("compare", config, data(config), *QUICK, "--format", "json")
    assert "admitted" not in done.stdout
    assert "contributions" not in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("patient", "person", "patient"),
        (r"P-\d+", "", "public.csv have a person: check [person] id = 'patient'"),
    ],
    ids=["no column", "no ids"],
)
def test_ids_that_are_missing_are_named(persons: str, old: str, new: str, said: str) -> None:
    path = Path(data(persons))
    path.write_text(re.sub(old, new, path.read_text()))
    done = tidegate("compare", persons, str(path), *WITH_PERSONS)
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", ["window-refit", "dp-ftrl"])
def test_what_cannot_protect_persons_is_refused_in_a_line(persons: str, name: str) -> None:
    done = tidegate("compare", persons, data(persons), "--method", name)
    assert done.returncode == 2
    line = done.stderr.splitlines()[-1]
    assert f"{name} is not compared if persons are protected: it" in line
