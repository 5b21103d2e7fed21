"""`tidegate.load`: one object from a folder or a file, and nothing from a stranger's that harms."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tidegate
from tests.state.released import made
from tidegate import Config, Gate
from tidegate.checks import InvalidValueError
from tidegate.data.predicted import Target
from tidegate.features import AppendIntercept, NormClip, RandomFourier
from tidegate.release import Model, RegressionModel, StoredRelease, export_formats, seal
from tidegate.state import publish_folder

FILES = ["model.safetensors", "model.npz", "model.onnx", "model.joblib"]
MAPS = [None, AppendIntercept(0.5), make_pipeline(NormClip(2.0), AppendIntercept())]

COLUMNS = {
    "columns": [{"kind": "number", "name": "age", "low": 0.0, "high": 100.0, "log": False}],
    "kind": "Columns",
    "spelling": 2,
}
"""A map that makes fewer features than the releases here have weights."""


def written(release: StoredRelease, path: Path) -> Path:
    if path.suffix == ".onnx":
        pytest.importorskip("onnx")
    export_formats.export(release, path)
    return path


def published(chain: list[StoredRelease], folder: Path) -> Path:
    for release in chain:
        publish_folder.publish(folder, release)
    return folder


def refused(text: str, *words: Any, **more: Any) -> None:
    """It is refused in one line that holds a text."""
    with pytest.raises(InvalidValueError, match=text) as error:
        tidegate.load(*words, **more)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("surveyed", [False, True], ids=["plain", "surveyed"])
@pytest.mark.parametrize("classes", [[0, 1], ["ebb", "flood", "slack"]])
@pytest.mark.parametrize("features", MAPS)
@pytest.mark.parametrize("name", FILES)
def test_every_file_gives_the_same_model(
    name: str, features: Any, classes: Any, surveyed: bool, tmp_path: Path
) -> None:
    clf, chain, X = made(classes, features, delta=1e-6, surveyed=surveyed)
    model = tidegate.load(written(chain[-1], tmp_path / name), trust=True)
    assert isinstance(model, Model)
    assert np.array_equal(model.predict(X), clf.predict(X))
    assert np.array_equal(model.predict_proba(X), clf.predict_proba(X))
    assert model.classes.tolist() == classes
    assert model.card == chain[-1].card
    assert np.array_equal(model.coef_, clf.coef_)
    assert np.array_equal(model.intercept_, clf.intercept_)
    assert model.coef_.shape == (1 if len(classes) == 2 else 3, 4)
    assert len(model.weights_by_name()) == 4


def test_a_folder_gives_its_newest_release_or_the_one_asked_for(tmp_path: Path) -> None:
    clf, chain, X = made([0, 1], delta=1e-6, surveyed=True)
    folder = published(chain, tmp_path / "published")
    assert np.array_equal(tidegate.load(folder).predict(X), clf.predict(X))
    for release in chain:
        model = tidegate.load(str(folder), release.number)
        assert model.card == release.card
        assert np.array_equal(model.weights, release.weights)
    refused(f"has no release {len(chain)} that can be read", folder, len(chain))
    refused("release must be a whole number", folder, -1)
    refused("release must be a whole number", folder, "1")


def test_a_file_is_of_one_release(tmp_path: Path) -> None:
    _, chain, _ = made([0, 1])
    for name in ("model.safetensors", "model.joblib"):
        path = written(chain[1], tmp_path / name)
        assert tidegate.load(path, 1, trust=True).card["release"] == 1  # type: ignore[index]
        refused("holds release 1, not 0: leave release out", path, 0, trust=True)


def test_a_target_is_predicted_from_every_file(tmp_path: Path) -> None:
    _, chain, X = made([0, 1], delta=1e-6, surveyed=True)
    card = {key: value for key, value in chain[0].card.items() if key != "classes"}
    release = seal(card | {"target": Target(0, 7).on_card()}, chain[0].weights)
    expected = release.model().predict(X)
    for name in FILES:
        model = tidegate.load(written(release, tmp_path / name), trust=True)
        assert isinstance(model, RegressionModel)
        assert np.allclose(model.predict(X), expected, rtol=1e-12)
        assert np.allclose(model.coef_, release.model().coef_, rtol=1e-12)
        assert not hasattr(model, "predict_proba")


def test_a_gate_publishes_what_is_loaded_with_names(tmp_path: Path) -> None:
    config = Config.of(
        {
            "schedule": {"kind": "independent", "step": 200},
            "budget": {"epsilon": 8.0, "delta": 1e-6},
            "records": {"classes": ["no", "yes"], "norm": 3.0, "columns": ["a", "b"], "label": "y"},
            "publish": {"folder": str(tmp_path / "published")},
        }
    )
    X = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    with Gate.open(tmp_path / "state", config) as gate:
        gate.ingest(X, np.where(X[:, 0] > 0, "yes", "no"))
    model = tidegate.load(tmp_path / "published")
    assert set(model.weights_by_name()) == {"a", "b"}
    refused("state is a state, which holds raw records: .* tidegate export", tmp_path / "state")


class Planted:
    """What a stranger puts into a pickle: it runs when the file is loaded."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.marker),)


def test_no_code_of_a_file_runs_unless_it_is_trusted(tmp_path: Path) -> None:
    marker, path = tmp_path / "ran", tmp_path / "model.joblib"
    joblib.dump(Planted(marker), path)
    refused(r"executes code that it holds: if you made it yourself, add trust=True", path)
    assert not marker.exists()
    for name in ("model.npz", "model.safetensors", "model.onnx"):
        (tmp_path / name).write_bytes(path.read_bytes())
        refused("damaged or not a release", tmp_path / name, trust=True)
    assert not marker.exists()
    refused("is not a pipeline that tidegate export wrote", path, trust=True)
    assert marker.exists()  # as warned


def test_pipelines_of_others_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.joblib"
    for thing in ({"a": 1}, make_pipeline(StandardScaler()), make_pipeline(NormClip())):
        joblib.dump(thing, path)
        refused("is not a pipeline that tidegate export wrote", path, trust=True)
    path.write_bytes(b"nonsense")
    refused(r"cannot be loaded \(", path, trust=True)


def test_a_folder_cannot_pass_an_older_release_off_as_the_newest(tmp_path: Path) -> None:
    _, chain, _ = made([0, 1])
    folder, last = published(chain, tmp_path / "published"), chain[-1].number
    older = (folder / "000000.safetensors").read_bytes()
    (folder / f"{last:06}.safetensors").write_bytes(older)
    refused(r"holds release 0: do not use this folder", folder)
    (folder / f"{last:06}.safetensors").unlink()
    (folder / f"{last:06}.safetensors").symlink_to("000000.safetensors")
    refused("has no release .* that can be read", folder)
    (folder / "latest").write_bytes(b"../../etc\n")
    refused("latest is damaged", folder)
    (folder / "latest").unlink()
    refused("latest is missing", folder)


def test_what_is_no_release_is_refused(tmp_path: Path) -> None:
    _, chain, _ = made([0, 1])
    refused("does not exist: give a folder of published releases", tmp_path / "none.safetensors")
    refused("holds no releases: give a folder that a gate publishes to", tmp_path)
    for name in ("card.json", "card.md"):
        refused("is a card, which holds no model", written(chain[0], tmp_path / name))
    (tmp_path / "model.txt").touch()
    refused("the release file must be a .npz, .safetensors, .onnx file", tmp_path / "model.txt")
    os.mkfifo(tmp_path / "fifo.safetensors")
    refused("cannot be read: ", tmp_path / "fifo.safetensors")
    os.mkfifo(tmp_path / "fifo.joblib")
    refused("cannot be read: ", tmp_path / "fifo.joblib", trust=True)
    refused("path must be a folder or a file", None)
    data = bytearray(written(chain[0], tmp_path / "m.safetensors").read_bytes())
    data[-1] ^= 1
    (tmp_path / "m.safetensors").write_bytes(data)
    refused("damaged or not a release", tmp_path / "m.safetensors")


@pytest.mark.parametrize(
    "changes",
    [
        {"classes": None},
        {"classes": ["a"]},
        {"classes": ["a", "b", "c"]},
        {"classes": [["a"], ["b"]]},
        {"classes": ["a", "a"]},
        {"classes": ["a", 1]},
        {"classes": [True, 1]},
        {"release": None},
        {"release": "x"},
        {"release": -1},
        {"norm": "wide"},
        {"norm": -1},
        {"features": 7},
        {"features": [{"kind": 3}]},
        {"features": [{"kind": "AppendIntercept", "nonsense": 1}]},
        {"transform": {"scale": 1}},
        {"target": {"low": 3}},
        {"features": [COLUMNS], "transform": None},
    ],
    ids=json.dumps,
)
def test_a_card_that_states_nonsense_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    """Its hash is right: whoever makes a file can compute it."""
    _, chain, _ = made([0, 1], surveyed=True)
    release = seal({**chain[0].card, **changes}, chain[0].weights)
    refused(".", written(release, tmp_path / "m.safetensors"))


@pytest.mark.parametrize(
    ("weights", "why"),
    [
        (np.full(5, np.nan), "is damaged or not a release"),
        (np.zeros(5, "f4"), "is damaged or not a release"),
        (np.zeros((5, 1, 1)), "holds no model that can predict"),
    ],
)
def test_weights_that_cannot_predict_are_refused(weights: Any, why: str, tmp_path: Path) -> None:
    _, chain, _ = made([0, 1], surveyed=True)
    release = seal({**chain[0].card, "shape": list(weights.shape)}, weights)
    refused(why, written(release, tmp_path / "m.safetensors"))


def test_a_map_that_a_card_only_names_is_asked_for(tmp_path: Path) -> None:
    features = RandomFourier(n_components=8, seed=5)
    clf, chain, X = made([0, 1], features)
    card = {**chain[0].card, "features": [{"kind": "MyMap"}]}
    path = written(seal(card, clf.releases_[0].weights), tmp_path / "m.safetensors")
    refused("features must be passed: MyMap cannot be built from the card", path)
    model = tidegate.load(path, features=features)
    assert model.predict(X).shape == (300,)


def test_onnx_files_need_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, chain, _ = made([0, 1])
    path = written(chain[0], tmp_path / "model.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    refused(r"onnx is not installed: .*\[onnx\]", path)
