"""Weights by name and predictions in files, as a new user tries them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import tidegate as tg
from tests.cli.run import json_lines, tidegate
from tests.state.released import made
from tidegate.cli import predict_command
from tidegate.cli.weights_command import weight_rows
from tidegate.gate import Config, Gate
from tidegate.release import Model, export_formats, seal
from tidegate.state.publish_folder import publish

CONFIG: dict[str, Any] = {
    "schedule": {"kind": "independent", "step": 300},
    "budget": {"epsilon": 8.0, "delta": 1e-6},
    "records": {"classes": ["no", "yes"], "label": "ill"},
    "columns": [
        {"name": "age", "kind": "number", "low": 0, "high": 100},
        {"name": "ward", "kind": "category", "values": ["north", "a rather long name of a ward"]},
    ],
    "publish": {"folder": "published"},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a state, a published folder and new records."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    age = rng.uniform(0, 100, 600)
    table = {"age": age, "ward": rng.choice(["north", "a rather long name of a ward"], 600)}
    with Gate.open("my.state", Config.of(CONFIG)) as gate:
        gate.ingest(table, np.where(age > 50, "yes", "no"))
    rows = [f"{each:.1f},north" for each in age[:100]]
    Path("new.csv").write_text("\n".join(["age,ward", *rows, "old,north", ""]))
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_a_state_a_folder_and_a_file_have_the_same_weights() -> None:
    rows = json_lines("weights", "my.state")
    assert json_lines("weights", "published") == rows
    tidegate("export", "my.state", "model.npz")
    assert json_lines("weights", "model.npz") == rows
    *features, last = rows
    model = tg.load("published")
    assert [row["feature"] for row in features] == list(model.weights_by_name())
    assert [row["weight"] for row in features] == list(model.weights_by_name().values())
    assert last == {"release": 1, "intercept": model.intercept_[0]}  # type: ignore[index]
    (age,) = (row for row in features if row["feature"] == "age")
    assert age["unit"] == 50
    sizes = [abs(row["scaled"]) for row in features]
    assert sizes == sorted(sizes, reverse=True)
    earlier = json_lines("weights", "published", "--release", "0")
    assert earlier[-1]["release"] == 0
    assert earlier == json_lines("weights", "my.state", "--release", "0")


@pytest.mark.usefixtures("folder")
def test_the_table_lines_up_at_80_columns() -> None:
    done = tidegate("weights", "my.state", COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    ends = {len(line.rstrip()) for line in lines[3:-1]}
    assert len(ends) == 1  # numbers end below each other
    assert "a rather long name of a ward" in done.stdout
    assert "speaks for yes" in lines[-1]
    few = tidegate("weights", "my.state", "--top", "1").stdout
    assert "4 more features: --top 5 shows all" in few or "more features" in few


@pytest.mark.parametrize("classes", [["ebb", "flood", "slack"], list(range(9))])
def test_more_classes_fit_too(classes: list[Any], tmp_path: Path) -> None:
    _, chain, _ = made(classes, delta=1e-6, surveyed=True)
    export_formats.export(chain[-1], tmp_path / "m.safetensors")
    done = tidegate("weights", str(tmp_path / "m.safetensors"), COLUMNS="80")
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    rows = json_lines("weights", str(tmp_path / "m.safetensors"))
    assert all(list(row["weight"]) == [str(each) for each in classes] for row in rows[:-1])
    model = chain[-1].model()
    assert isinstance(model, Model)
    for row in weight_rows(model):
        place = model.coefficients.names.index(row["feature"])
        assert list(row["weight"].values()) == model.coef_[:, place].tolist()


def test_a_target_has_weights_in_its_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    records = {"target": [0, 200], "norm": 3.0, "columns": ["a", "b"], "label": "y"}
    config = {**CONFIG, "records": records}
    del config["columns"]
    X = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    with Gate.open("t.state", Config.of(config)) as gate:
        gate.ingest(X, 100 + 50 * X[:, 0])
    *rows, last = json_lines("weights", "t.state")
    model = tg.load("published")
    assert {row["feature"]: row["weight"] for row in rows} == model.weights_by_name()
    assert last["intercept"] == model.intercept_
    assert "in the unit of the target" in tidegate("weights", "t.state").stdout
    Path("new.csv").write_text("a,b\n0.5,0\n0,0\n")
    tidegate("predict", "t.state", "new.csv", "--output", "p.csv")
    table = csv.read_csv("p.csv")
    assert table.column_names == ["record", "prediction"]
    assert np.allclose(table["prediction"], model.predict([[0.5, 0.0], [0.0, 0.0]]))


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("together", [7, 2**16])
@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
def test_predictions_in_a_file(name: str, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict_command, "ROWS_PER_WRITE", together)
    Path(name).write_text("an earlier file")
    done = tidegate("predict", "published", "new.csv", "--output", name)
    assert done.returncode == 0
    assert done.stdout == f"Wrote 101 predictions to {name}\n"
    assert "1 record cannot be used; the first is 100" in done.stderr
    read: Any = csv.read_csv if name.endswith("csv") else parquet.read_table
    rows = read(name).to_pylist()
    expected = json_lines("predict", "published", "new.csv")
    assert [row["record"] for row in rows] == list(range(101))
    for row, wanted in zip(rows[:-1], expected, strict=False):
        assert row["label"] == wanted["label"]
        assert row["probability"] == pytest.approx(wanted["probability"], rel=1e-12)
        assert row["P(no)"] + row["P(yes)"] == pytest.approx(1)
    assert rows[-1]["label"] in (None, "")
    assert rows[-1]["P(yes)"] is None
    (told,) = json_lines("predict", "my.state", "new.csv", "--output", name)
    assert told == {"file": name, "records": 101, "unusable": 1}


def test_an_output_never_replaces_what_is_read(folder: Path) -> None:
    Path("linked.csv").symlink_to("new.csv")
    Path("hard.csv").hardlink_to("new.csv")
    before = {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}
    for model, output, why in (
        ("published", "new.csv", "another file than those that are read"),
        ("published", "linked.csv", "another file than those that are read"),
        ("published", "hard.csv", "another file than those that are read"),
        ("published", "./published/../new.csv", "another file than those that are read"),
        ("published", "published/p.csv", "outside of published"),
        ("my.state", "my.state/p.parquet", "outside of my.state"),
        ("published", "p.txt", "ends in .csv or .parquet"),
        ("published", "nowhere/p.csv", "in a folder that exists"),
    ):
        done = tidegate("predict", model, "new.csv", "--output", output)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert f"--output must be {why}" in done.stderr or why in done.stderr
    assert {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()} == before


def test_a_file_appears_whole_or_not_at_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands there stays if predictions end half way, and nothing else is left behind."""
    monkeypatch.setattr(predict_command, "ROWS_PER_WRITE", 10)
    Path("p.csv").write_text("an earlier file")
    names = sorted(each.name for each in folder.iterdir())
    real, parts = pa.Table.from_pylist, []

    def failing(part: Any, schema: Any) -> Any:
        parts.append(part)
        if len(parts) == 5:
            raise OSError(28, "No space left on device")
        return real(part, schema)

    table = type("Table", (), {"from_pylist": staticmethod(failing)})
    monkeypatch.setattr("tidegate.cli.predict_command.pa.Table", table)
    done = tidegate("predict", "published", "new.csv", "--output", "p.csv")
    assert done.returncode == 2
    assert "No space left" in done.stderr
    assert Path("p.csv").read_text() == "an earlier file"
    assert sorted(each.name for each in folder.iterdir()) == names


def test_a_published_folder_is_never_opened_as_a_state(tmp_path: Path) -> None:
    """Even if it holds what makes a state connect to a server."""
    _, chain, _ = made([0, 1])
    for release in chain:
        publish(tmp_path / "published", release)
    elsewhere = {"database": "postgresql://stranger@203.0.113.1/ledgers"}
    (tmp_path / "published" / "elsewhere.json").write_text(json.dumps(elsewhere))
    assert json_lines("weights", str(tmp_path / "published"))[-1]["release"] == chain[-1].number


def test_what_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    for words in (("weights", "none"), ("weights", str(tmp_path)), ("weights", "none.onnx")):
        done = tidegate(*words)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_a_card_that_states_nonsense_is_no_bug(tmp_path: Path) -> None:
    _, chain, _ = made([0, 1])
    card = {key: value for key, value in chain[0].card.items() if key not in {"features", "norm"}}
    export_formats.export(seal(chain[0].card, chain[0].weights), tmp_path / "good.safetensors")
    data = export_formats.to_safetensors(seal(card, chain[0].weights))
    (tmp_path / "bad.safetensors").write_bytes(data)
    (tmp_path / "new.csv").write_text("a,b,c,d\n1,2,3,4\n")
    for words in (("weights",), ("predict", str(tmp_path / "new.csv"))):
        command, *more = words
        done = tidegate(command, str(tmp_path / "bad.safetensors"), *more)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "holds no model that can predict" in done.stderr
        assert tidegate(command, str(tmp_path / "good.safetensors"), *more).returncode == 0
