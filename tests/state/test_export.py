"""A release in a file predicts as the estimator did, and a damaged file does not."""

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from tests.state.released import made
from tidegate.checks import InvalidValueError
from tidegate.features import AppendIntercept, HashedText, NormClip, RandomFourier
from tidegate.release import FIRST, Model, seal
from tidegate.release import export_formats as files
from tidegate.release.clipped_regression import to_sklearn
from tidegate.state import publish_folder, verify_published

CLASSES = [[0, 1], ["ebb", "flood", "slack"], [7, 3, 5]]
SURVEYED = pytest.mark.parametrize("surveyed", [False, True], ids=["plain", "surveyed"])
MAPS = [
    None,
    AppendIntercept(0.5),
    make_pipeline(NormClip(2.0), AppendIntercept()),
    RandomFourier(n_components=8, gamma=0.3, seed=5),
]


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("features", MAPS)
@pytest.mark.parametrize("ending", ["npz", "safetensors"])
@SURVEYED
def test_a_loaded_file_predicts_bit_for_bit(
    classes: Any, features: Any, ending: str, surveyed: bool, tmp_path: Path
) -> None:
    clf, chain, X = made(classes, features, delta=1e-6, surveyed=surveyed)
    assert ("transform" in chain[-1].card) == surveyed
    files.export(chain[-1], tmp_path / f"release.{ending}")
    model = files.load(tmp_path / f"release.{ending}")
    assert isinstance(model, Model)
    assert np.array_equal(model.predict(X), clf.predict(X))
    assert np.array_equal(model.predict_proba(X), clf.predict_proba(X))
    assert files.load_release(tmp_path / f"release.{ending}").card == chain[-1].card


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("features", MAPS)
@SURVEYED
def test_a_scikit_learn_pipeline_predicts_the_same(
    classes: Any, features: Any, surveyed: bool, tmp_path: Path
) -> None:
    clf, chain, X = made(classes, features, delta=1e-6, surveyed=surveyed)
    files.export(chain[-1], tmp_path / "release.joblib")
    pipeline = joblib.load(tmp_path / "release.joblib")
    assert np.array_equal(pipeline.predict(X), clf.predict(X))
    assert np.allclose(pipeline.predict_proba(X), clf.predict_proba(X), rtol=0, atol=1e-12)
    assert [type(step).__name__ for step in pipeline][-3 if surveyed else -2 :] == [
        "NormClip",
        *(["CenterScale"] if surveyed else []),
        "LogisticRegression",
    ]
    assert np.array_equal(clone(pipeline[:-1]).transform(X), pipeline[:-1].transform(X))


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("features", MAPS[:3])
@SURVEYED
def test_onnx_runtime_predicts_the_same(
    classes: Any, features: Any, surveyed: bool, tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    clf, chain, X = made(classes, features, delta=1e-6, surveyed=surveyed)
    X = np.vstack([X, np.zeros((1, 4)), np.full((1, 4), 1e300), np.eye(1, 4) * 1e-300])
    files.export(chain[-1], tmp_path / "release.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "release.onnx")
    labels, probabilities = session.run(["label", "probabilities"], {"records": X})
    assert np.array_equal(labels, clf.predict(X))
    assert np.allclose(probabilities, clf.predict_proba(X), rtol=0, atol=1e-12)
    inside = json.loads(session.get_modelmeta().custom_metadata_map["release"])
    assert inside["card"] == chain[-1].card


def test_a_surveyed_release_predicts_records_of_any_kind() -> None:
    _, chain, X = made([0, 1], surveyed=True)
    model = chain[-1].classifier()
    assert np.allclose(model.decision_function(csr_array(X)), model.decision_function(X))
    pipeline = to_sklearn(chain[-1])
    assert np.allclose(pipeline.decision_function(csr_array(X)), model.decision_function(X))


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_a_surveyed_release_refuses_what_it_cannot_predict(kind: Any) -> None:
    _, chain, X = made([0, 1], surveyed=True)
    model, broken = chain[-1].model(), X.copy()
    broken[3, 1] = np.nan
    with pytest.raises(InvalidValueError, match="X contains NaN, infinity or text"):
        model.predict(kind(broken))
    with pytest.raises(InvalidValueError, match="X has 3 features, but 4 were expected"):
        model.predict(kind(X[:, :3]))
    with pytest.raises(InvalidValueError, match="X has 5 features, but 4 were expected"):
        model.predict(kind(np.hstack([X, X[:, :1]])))


def test_a_card_for_people_shows_no_arrays(tmp_path: Path) -> None:
    _, (first, *_), _ = made([0, 1], surveyed=True)
    for ending in ("md", "json"):
        files.export(first, tmp_path / f"card.{ending}")
    text = (tmp_path / "card.md").read_text()
    assert "centred and scaled by the surveys so far" in text
    for stated in ("center", "scale"):
        assert first.card["transform"][stated] not in text
        assert first.card["transform"][stated] in (tmp_path / "card.json").read_text()


def test_onnx_refuses_a_map_it_cannot_have(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    _, chain, _ = made([0, 1], RandomFourier(n_components=8))
    with pytest.raises(InvalidValueError, match=r"NormClip only for ONNX .*, got RandomFourier"):
        files.export(chain[0], tmp_path / "release.onnx")
    assert not list(tmp_path.iterdir())


def test_text_predicts_from_a_file(tmp_path: Path) -> None:
    text = HashedText(n_features=16, words=(1, 1), characters=None)
    card = {**made([0, 1])[1][0].card, "features": [{"kind": "HashedText", **text.get_params()}]}
    card = json.loads(json.dumps({**card, "shape": [16]}))
    weights = np.linspace(-1, 1, 16)
    files.export(seal(card, weights, FIRST), tmp_path / "release.npz")
    margins = files.load(tmp_path / "release.npz").margins(["high tide", "low tide"])
    clipped = NormClip(norm=1.5).transform(text.transform(["high tide", "low tide"]))
    assert np.array_equal(margins, clipped @ weights)


def test_a_map_that_is_not_ours_has_to_be_given(tmp_path: Path) -> None:
    card = {**made([0, 1])[1][0].card, "features": [{"kind": "Wavelets"}]}
    files.export(seal(card, np.ones(4), FIRST), tmp_path / "release.npz")
    with pytest.raises(InvalidValueError, match="Wavelets cannot be built from the card"):
        files.load(tmp_path / "release.npz")
    model = files.load(tmp_path / "release.npz", features=NormClip(1.0))
    assert model.predict(np.ones((1, 4))).tolist() == [1]


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_every_flipped_byte_is_noticed(ending: str, tmp_path: Path) -> None:
    _, chain, _ = made([0, 1])
    path = tmp_path / f"release.{ending}"
    files.export(chain[0], path)
    data = path.read_bytes()
    for place in range(0, len(data), 7):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with contextlib.suppress(InvalidValueError):
            release = files.load_release(path)
            # A byte of the container that says nothing about the release.
            assert release.hash == chain[0].hash
            assert np.array_equal(release.weights, chain[0].weights)
    for size in range(0, len(data), 97):
        path.write_bytes(data[:size])
        with pytest.raises(InvalidValueError, match="damaged"):
            files.load_release(path)


def test_mistakes_are_named_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, chain, _ = made([0, 1])
    with pytest.raises(InvalidValueError, match=r"must be one that ends in \.npz, .*, got"):
        files.export(chain[0], tmp_path / "release.txt")
    with pytest.raises(InvalidValueError, match=r"export kind must be one of npz, .*, got 'pdf'"):
        files.export(chain[0], tmp_path / "release.npz", "pdf")
    with pytest.raises(InvalidValueError, match=r"must be a .npz, .safetensors, .onnx file"):
        files.load(tmp_path / "release.txt")
    for ending in ("npz", "safetensors"):
        with pytest.raises(FileNotFoundError):
            files.load(tmp_path / f"none.{ending}")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InvalidValueError, match=r"pip install '\.\[onnx\]'"):
        files.export(chain[0], tmp_path / "release.onnx")


def test_a_folder_is_published_step_by_step(tmp_path: Path) -> None:
    clf, chain, X = made([0, 1, 2])
    folder = tmp_path / "public" / "models"
    for release in chain:
        publish_folder.publish(folder, release)
        assert (folder / "latest").read_text() == f"{release.number:06}\n"
    names = {
        f"{i:06}.{kind}" for i in range(len(chain)) for kind in (*publish_folder.KINDS, "sha256")
    }
    assert {path.name for path in folder.iterdir()} == names | {"latest"}
    newest = (folder / "latest").read_text().strip()
    model = files.load(folder / f"{newest}.safetensors")
    assert np.array_equal(model.predict(X), clf.predict(X))
    assert json.loads((folder / "000001.json").read_text())["previous"] == chain[0].hash


def test_publishing_again_changes_nothing(tmp_path: Path) -> None:
    _, chain, _ = made([0, 1])
    for release in (*chain, *chain):
        publish_folder.publish(tmp_path, release)
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()}
    publish_folder.publish(tmp_path, chain[0])
    assert before == {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in tmp_path.iterdir()}


def test_what_does_not_belong_is_not_published(tmp_path: Path) -> None:
    _, chain, _ = made([0, 1])
    publish_folder.publish(tmp_path, chain[0])
    other = seal({**chain[0].card, "at": 1}, chain[0].weights, FIRST)
    with pytest.raises(InvalidValueError, match="has a different release 0"):
        publish_folder.publish(tmp_path, other)
    with pytest.raises(InvalidValueError, match="release 1 does not follow"):
        publish_folder.publish(tmp_path, seal(chain[1].card, chain[1].weights, FIRST))
    (tmp_path / "000000.json").write_text("{")
    with pytest.raises(InvalidValueError, match="damaged"):
        publish_folder.publish(tmp_path, chain[1])


@pytest.mark.parametrize("crash", range(1, 9))
def test_a_crash_leaves_nothing_half_written(
    crash: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, chain, _ = made([0, 1])
    publish_folder.publish(tmp_path, chain[0])
    calls = 0
    fsync = os.fsync

    def fail(file: int) -> None:
        nonlocal calls
        calls += 1
        if calls == crash:
            raise OSError(28, "No space left on device")
        fsync(file)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space"):
            publish_folder.publish(tmp_path, chain[1])
    newest = (tmp_path / "latest").read_text().strip()
    assert files.load_release(tmp_path / f"{newest}.safetensors").number == int(newest)
    publish_folder.publish(tmp_path, chain[1])
    assert (tmp_path / "latest").read_text() == "000001\n"
    assert not list(tmp_path.glob(".*"))


def test_anybody_can_verify_a_folder(tmp_path: Path) -> None:
    _, chain, _ = made([0, 1])
    for release in chain:
        publish_folder.publish(tmp_path, release)
    assert list(verify_published.verify(tmp_path)) == []
    (tmp_path / "000000.md").unlink()
    forged = seal(chain[1].card, np.zeros_like(chain[1].weights), FIRST)
    files.export(forged, tmp_path / "000001.safetensors")
    (tmp_path / "000003.safetensors").write_bytes(b"torn")
    problems = [each.what.replace(f"{tmp_path}/", "") for each in verify_published.verify(tmp_path)]
    assert [each.removesuffix(f": {publish_folder.REPAIR}") for each in problems] == [
        "000000.md is missing",
        "release 1 does not follow release 0",
        "000001.json is missing, or not the card of release 1",
        "000001.sha256 is missing or does not match the files of release 1",
        "release 2 does not follow release 1",
        "000003.safetensors is damaged or not a release: do not use it",
    ]
    assert all(each.endswith(publish_folder.REPAIR) for each in problems)
