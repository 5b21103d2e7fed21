"""The commands on records with a number to predict."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.cli.run import json_lines, tidegate
from tidegate.release.export_formats import load

ROOT = Path(__file__).parents[2]
CONFIG = """
not_private_seed = 1
[schedule]
kind = "fading"
step = 1000
[budget]
epsilon = 8.0
delta = 1e-6
[records]
target = [0, 120]
norm = 2.0
columns = ["a", "b"]
label = "minutes"
[quality]
share = 0.2
[source]
type = "csv"
path = "{path}"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a file whose targets are mostly in the range."""
    folder: Path = tmp_path_factory.mktemp("targets")
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3500, 2)).round(3)
    minutes = [f"{each:.1f}" for each in 60 + 50 * X[:, 0] + 8 * rng.normal(size=3500)]
    minutes[10], minutes[11], minutes[12] = "late", "", "1000"
    rows = [f"{a},{b},{t}" for (a, b), t in zip(X, minutes, strict=True)]
    (folder / "flights.csv").write_text("\n".join(["a,b,minutes", *rows]) + "\n")
    (folder / "gate.toml").write_text(CONFIG.format(path=folder / "flights.csv"))
    done = tidegate("run", str(folder / "gate.toml"))
    assert done.returncode == 0, done.stderr
    assert "release 0 is off by " in done.stdout
    assert "(MAE; RMSE " in done.stdout
    assert "2 of 3,500 records cannot be used" in done.stderr
    assert "a value or the target is missing" in done.stderr
    return folder


def test_check_tells_how_the_target_is_read(folder: Path) -> None:
    words = str(folder / "gate.toml"), str(folder / "flights.csv")
    plain = tidegate("check", *words)
    assert plain.returncode == 0
    assert "its target is missing or not a finite number" in plain.stdout
    assert "quantiles" not in plain.stdout
    public = tidegate("check", *words, "--public").stdout
    assert "Targets (quantiles): 0% " in public
    assert "of them are outside of records.target and are clipped into it." in public
    (found,) = json_lines("check", *words, "--public")
    assert found["found"]["usable"] == 3498
    assert found["found"]["unusable"] == {"label": 2}
    assert found["found"]["classes"] == []
    assert found["found"]["clipped"] >= 1
    assert found["found"]["targets"][-1] == [1.0, 1000.0]


def test_releases_and_status_show_errors(folder: Path) -> None:
    state = str(folder / "gate.state")
    rows = json_lines("releases", state)
    assert [set(row) >= {"mae_before", "scores_before"} for row in rows] == [True] * 3
    assert rows[1]["mae_before"] == rows[0]["tried"][0]["mae"]
    assert rows[1]["scores_before"]["rmse"]["deviation"] > 0
    table = tidegate("releases", state, COLUMNS="160").stdout
    for words in ("MAE", "RMSE", "constant", "R^2", "bias"):
        assert words in table
    assert "accuracy" not in table
    assert "Scores of release 1 on the step at 3,000: MAE " in tidegate("status", state).stdout


def test_survey_counts_parts_of_the_range(folder: Path) -> None:
    state = str(folder / "gate.state")
    assert "most" in tidegate("survey", state).stdout
    row = json_lines("survey", state)[-1]
    assert list(row["parts"])[:2] == ["0 to 15", "15 to 30"]
    assert sum(part["value"] for part in row["parts"].values()) == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_predict_shows_a_number_for_each_record(folder: Path, ending: str, tmp_path: Path) -> None:
    model, new = tmp_path / f"model.{ending}", tmp_path / "new.csv"
    assert tidegate("export", str(folder / "gate.state"), str(model)).returncode == 0
    new.write_text("b,a\n0.5,0.25\n0,x\n-1,1\n")
    rows = json_lines("predict", str(model), str(new))
    assert rows == json_lines("predict", str(folder / "gate.state"), str(new))
    expected = load(model).predict(np.array([[0.25, 0.5], [1.0, -1.0]], np.float32)).tolist()
    assert [row["prediction"] for row in rows] == [expected[0], None, expected[1]]
    assert "prediction" in tidegate("predict", str(model), str(new)).stdout


def test_cards_and_verify(folder: Path, tmp_path: Path) -> None:
    state = str(folder / "gate.state")
    assert tidegate("verify", state).returncode == 0
    for ending in ("json", "md", "joblib"):
        assert tidegate("export", state, str(tmp_path / f"card.{ending}")).returncode == 0
    card = json.loads((tmp_path / "card.json").read_text())["card"]
    assert card["target"] == [0.0, 120.0]
    assert "classes" not in card
    assert "a number from 0 to 120" in (tmp_path / "card.md").read_text()


def test_the_how_to_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "how-to" / "predict-a-number.md").read_text(encoding="utf-8")
    (python,) = re.findall(r"(?s)```python\n(.*?)```", page)
    (toml,) = re.findall(r"(?s)```toml\n(.*?)```", page)
    monkeypatch.chdir(tmp_path)
    exec(python, {})
    Path("flights.toml").write_text(toml)
    done = tidegate("run", "flights.toml")
    assert done.returncode == 0, done.stderr
    assert "release 6 is off by " in done.stdout
    rows = json_lines("releases", "flights.state")
    # The noise in the data leaves 8 minutes; the mean of five errors has a deviation of 0.8.
    errors = [row["mae_before"] for row in rows[-5:]]
    assert 4 < np.mean(errors) < 18
    assert tidegate("verify", "flights.state").returncode == 0
