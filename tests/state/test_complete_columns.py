"""Columns that are said to be without gaps and other values: from TOML to every export."""

import hashlib
import json
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from tests.cli.run import json_lines, process, tidegate
from tests.state.test_columns_in_gate import (
    COLUMNS,
    CONFIG,
    NAMES,
    config,
    onnx_inputs,
    rows,
    write,
)
from tidegate import ApproxDP, FadingClassifier, load
from tidegate.checks import InvalidValueError
from tidegate.features import Category, Columns, Flag, Number
from tidegate.gate import Config, Gate
from tidegate.release import StoredRelease
from tidegate.release.export_formats import export
from tidegate.run.config.keys import ConfigError
from tidegate.schedule import Span

COMPLETE = COLUMNS.replace('"é"]', '"é"]\nothers = false').replace(
    "[[columns]]", "[[columns]]\ngaps = false"
)


def full_rows(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Records without gaps."""
    given = {"age": "50", "ward": "A", "code": "x1", "smoker": "no", "seen": "2020-01-17T05:30:00Z"}
    return [{k: v or given[k] for k, v in row.items()} for row in rows(n, seed)]


@contextmanager
def run(folder: Path, records: list[dict[str, Any]], used: Config | None = None) -> Iterator[Gate]:
    used = config(columns=COMPLETE) if used is None else used
    path = write(folder / "r.csv", records)
    with Gate.open(folder / "state", used) as gate:
        list(gate.run({"records": used.source_of(path)}))
        yield gate


def test_without_the_keys_every_byte_is_as_before() -> None:
    """Of settings, packed records, features and cards: digests of the version before them."""
    used = config()
    columns = used.column_map()
    assert columns is not None
    table = [{name: row[name] for name in NAMES} for row in rows(300)]
    made = {
        "settings": used.privacy_json().encode(),
        "packed": columns.pack(table).tobytes(),
        "features": np.asarray(columns.transform(table)).tobytes(),
        "card": json.dumps(columns.described()).encode(),
    }
    assert {name: hashlib.sha256(data).hexdigest()[:16] for name, data in made.items()} == {
        "settings": "1caa6f60422b7e94",
        "packed": "ac7669acc370a7e5",
        "features": "d2fc63d602baa0da",
        "card": "73fdf9dbb28747e8",
    }


def test_the_keys_are_settings_of_the_state(tmp_path: Path) -> None:
    used = config(columns=COMPLETE)
    kept = json.loads(used.privacy_json())["columns"]
    assert [each["gaps"] for each in kept] == [False] * 5
    assert [each.get("others") for each in kept] == [None, False, None, None, None]
    assert Config.from_json(used.to_json()) == used.settled()
    same = config(columns=COLUMNS.replace('"é"]', '"é"]\nothers = true'))
    assert same.privacy_json() == config().privacy_json()
    Gate.open(tmp_path / "s", config()).close()
    with pytest.raises(InvalidValueError, match=r'columns\[0\]\.gaps \("age"\): .* now false'):
        Gate.open(tmp_path / "s", used)


def test_the_norm_stays_and_the_features_are_fewer() -> None:
    before, after = config().column_map(), config(columns=COMPLETE).column_map()
    assert before is not None
    assert after is not None
    assert after.norm == before.norm
    assert (before.width, after.width) == (26, 20)
    left = [each for each in before.get_feature_names_out() if " missing" not in each]
    assert [each for each in left if each != "ward other"] == list(after.get_feature_names_out())


def test_a_gap_costs_its_own_record_and_the_quarantine_says_why(tmp_path: Path) -> None:
    records = full_rows(500)
    records[403]["age"], records[405]["ward"], records[407]["ward"] = "", "elsewhere", ""
    with run(tmp_path, records) as gate:
        stored = gate.store.read("records", Span(400, 500))
        found = {bad.slot: bad.reason for bad in gate.store.quarantine("records")}
        release = list(gate.releases())[-1]
    assert found == {
        403: "not of its column's kind: age (gaps = false)",
        405: "not of its column's kind: ward (gaps = false, others = false)",
        407: "not of its column's kind: ward (gaps = false, others = false)",
    }
    assert np.flatnonzero(~stored.usable).tolist() == [3, 5, 7]
    assert stored.X.shape == (100, 8)
    assert len(release.card["features"][0]["columns"]) == 5
    assert release.card["shape"] == [21]
    assert json_lines("verify", str(tmp_path / "state"))[0]["sound"]
    assert "age missing" not in json.dumps(json_lines("weights", str(tmp_path / "state")))


def unusable(tests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records that contradict the columns, each in another way."""
    gaps = [{**tests[0], name: ""} for name in NAMES]
    return [*gaps, {**tests[0], "ward": "elsewhere"}]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> StoredRelease:
    with run(tmp_path_factory.mktemp("release"), full_rows(400)) as gate:
        return list(gate.releases())[-1]


@pytest.mark.parametrize("suffix", ["npz", "safetensors", "joblib"])
def test_exports_refuse_what_the_release_refuses(
    suffix: str, release: StoredRelease, tmp_path: Path
) -> None:
    tests = full_rows(50, seed=1)
    expected = release.model().predict_proba(tests)
    export(release, tmp_path / f"m.{suffix}")
    made = load(tmp_path / f"m.{suffix}", trust=suffix == "joblib")
    assert np.array_equal(made.predict_proba(tests), expected)
    for bad in unusable(tests):
        with pytest.raises(InvalidValueError, match=r"kind of \w+ \(gaps = false"):
            made.predict_proba([bad])


def test_onnx_computes_the_same(release: StoredRelease, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    tests = full_rows(100, seed=1)
    expected = release.model().predict_proba(tests)
    export(release, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    bad = unusable(tests)
    _, probabilities = session.run(None, onnx_inputs([*tests, *bad]))
    assert probabilities[: len(tests)] == pytest.approx(expected, abs=1e-6)
    assert np.isnan(probabilities[len(tests) :]).all()


@pytest.mark.parametrize(
    "ward",
    ['others = false\ngaps = ["-"]', "gaps = false", "others = false\ngaps = false"],
)
def test_onnx_tells_gaps_from_others(ward: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    used = config(columns=COLUMNS.replace('"é"]', f'"é"]\n{ward}'))
    with run(tmp_path, full_rows(300), used) as gate:
        release = list(gate.releases())[-1]
    columns = used.column_map()
    assert columns is not None
    tests = [{**full_rows(1)[0], "ward": each} for each in ("A", "é", "", "-", "elsewhere")]
    bad = np.isnan(np.asarray(columns.transform(tests))).any(axis=1)
    export(release, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    _, probabilities = session.run(None, onnx_inputs(tests))
    assert np.isnan(probabilities).all(axis=1).tolist() == bad.tolist()
    good = [each for each, wrong in zip(tests, bad, strict=True) if not wrong]
    expected = release.model().predict_proba(good)
    assert probabilities[~bad] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("engine", ["disk", "dask"])
def test_other_engines_compute_the_same(engine: str, tmp_path: Path) -> None:
    if engine == "dask":
        pytest.importorskip("distributed", reason="needs the extra dask")
    records, weights = full_rows(300), {}
    records[3]["age"] = ""
    for name in ("memory", engine):
        seeded = "not_private_seed = 7\n" + CONFIG.format(records="", columns=COMPLETE)
        used = Config.parse(seeded)
        used = replace(used, compute=replace(used.compute, engine=name))
        (tmp_path / name).mkdir()
        with run(tmp_path / name, records, used) as gate:
            weights[name] = next(iter(gate.releases())).weights
    assert np.array_equal(weights["memory"], weights[engine])


def test_an_estimator_keeps_the_keys() -> None:
    columns = Columns(
        [
            Number("age", low=0, high=100, gaps=False),
            Category("ward", values=["A", "B"], others=False, gaps=False),
            Flag("smoker"),
        ]
    )
    clf = FadingClassifier(
        budget=ApproxDP(1.0, 1e-6), step=100, classes=["well", "ill"], features=columns
    )
    frame = pd.DataFrame(full_rows(200))
    frame.loc[3, "ward"] = "é"
    for made in (clf, clone(clf), pickle.loads(pickle.dumps(clf))):
        made.fit(frame, frame["y"])
        assert set(made.weights_by_name()) == {
            *("age", "ward=A", "ward=B", "smoker", "smoker missing")
        }
        assert made.coef_.shape == (1, 5)
        assert made.predict(frame.drop(index=3)).shape == (199,)
        with pytest.raises(InvalidValueError, match=r"kind of ward \(gaps = false, others = "):
            made.predict(frame)


def test_an_erased_record_stays_erased(tmp_path: Path) -> None:
    records = full_rows(300)
    records[203]["age"] = ""
    with run(tmp_path, records):
        pass
    state = str(tmp_path / "state")
    for record in ("203", "205"):
        assert tidegate("erase", state, "--record", record).returncode == 0
    with Gate.open(tmp_path / "state") as gate:
        stored = gate.store.read("records", Span(200, 300))
        assert not stored.usable[[3, 5]].any()
        assert stored.usable.sum() == 98
    assert json_lines("verify", str(tmp_path / "state"))[0]["sound"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("gaps = false", "gaps = true"), r"columns\[0\]\.gaps must be a list of different texts"),
        (("gaps = false", 'gaps = "no"'), r"or false for a column without gaps, got 'no'"),
        (("gaps = false", "others = false"), r"\]\.others is not a key of a number column"),
        (("others = false", "others = 0"), r"columns\[1\]\.others must be true or false, got 0"),
        (("hash = 8", "hash = 8\nothers = false"), "column code: others = false needs values"),
    ],
)
def test_a_mistake_gets_one_clear_line(change: tuple[str, str], message: str) -> None:
    text = CONFIG.format(records="", columns=COMPLETE)
    assert change[0] in text
    with pytest.raises(ConfigError, match=message) as caught:
        Config.parse(text.replace(*change, 1))
    assert len(caught.value.mistakes) == 1


def test_predictions_say_why_there_is_none(tmp_path: Path) -> None:
    with run(tmp_path, full_rows(300)):
        pass
    row = full_rows(1)[0]
    for column, value, why in (
        ("age", "", "its age is missing or not a number"),
        ("ward", "elsewhere", "its ward is missing or not a listed value"),
    ):
        write(tmp_path / "new.csv", [row, {**row, column: value}])
        done = tidegate("predict", str(tmp_path / "state"), str(tmp_path / "new.csv"))
        assert done.stderr == f"tidegate: 1 record cannot be used; the first is 1: {why}\n"


def test_predict_does_not_wait_for_a_fifo(tmp_path: Path) -> None:
    with run(tmp_path, full_rows(300)):
        pass
    os.mkfifo(tmp_path / "new.csv")
    done = process("predict", str(tmp_path / "state"), str(tmp_path / "new.csv"))
    assert done.returncode == 2
    assert "is a FIFO, not a file" in done.stderr
