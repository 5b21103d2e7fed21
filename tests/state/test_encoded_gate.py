"""A Gate whose records are texts behind an encoder: frozen files, cards, predictions, exports."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.cli.run import json_lines, tidegate
from tests.data.encoders import (
    write_image_model,
    write_table,
    write_text_model,
    write_tokenizer,
)
from tidegate.checks import InvalidValueError
from tidegate.data.encoder import encoder as frozen_file
from tidegate.data.encoder.onnx_model import loaded_model
from tidegate.gate import Gate
from tidegate.release.export_formats import export, load
from tidegate.run.config import Config, ConfigError

TEXTS = ["low tide is out", "the high gate", "tide", None] * 10
LABELS = [0, 1, 0, 1] * 10


def config_of(encoder: str, tokenizer: str) -> str:
    return f"""
[schedule]
kind = "independent"
step = 20
[budget]
epsilon = 50.0
delta = 1e-6
[records]
classes = [0, 1]
norm = 1.0
text = "note"
label = "y"
[[features]]
map = "encoder"
encoder = "{encoder}"
tokenizer = "{tokenizer}"
length = 64
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "models").mkdir()
    return write_text_model(tmp_path / "models"), write_tokenizer(tmp_path / "models")


@pytest.fixture
def state(tmp_path: Path, files: tuple[str, str]) -> Path:
    with Gate.open(tmp_path / "state", Config.parse(config_of(*files))) as gate:
        gate.ingest(TEXTS, LABELS)
    return tmp_path / "state"


def test_the_card_has_names_and_digests_and_no_folder(state: Path, files: tuple[str, str]) -> None:
    with Gate.open(state) as gate:
        releases = list(gate.releases())
    assert len(releases) == 2
    (step,) = releases[-1].card["features"]
    assert step["kind"] == "EncodedText"
    assert (step["encoder"], step["tokenizer"]) == ("model.onnx", "tokenizer.json")
    digests = [frozen_file.FrozenFile.of(path).digest for path in files]
    assert step["digest"] == "+".join(digests)
    assert str(state.parent) not in json.dumps(releases[-1].card)
    assert releases[-1].model().predict(["low tide", "the gate is high"]).tolist() == [0, 1]


def test_a_changed_file_is_refused_in_one_line(
    state: Path, files: tuple[str, str], tmp_path: Path
) -> None:
    write_text_model(tmp_path / "models", seed=1)
    with pytest.raises(ConfigError) as refusal:
        Gate.open(state, Config.parse(config_of(*files)))
    assert "restore the one with the SHA-256 before" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_without_its_files_a_state_can_be_read_but_takes_no_records(
    state: Path, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "models")
    for command in ("status", "ledger", "releases", "verify"):
        assert tidegate(command, str(state)).returncode == 0
    new = tmp_path / "new.jsonl"
    new.write_text('{"note": "low tide"}\n')
    loaded_model.cache_clear()  # as in a process that has not read them before
    done = tidegate("predict", str(state), str(new))
    assert done.returncode == 2
    assert "model.onnx is missing: put the file with SHA-256" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_files_may_move(state: Path, tmp_path: Path) -> None:
    (tmp_path / "models").rename(tmp_path / "elsewhere")
    files = [str(tmp_path / "elsewhere" / name) for name in ("model.onnx", "tokenizer.json")]
    with Gate.open(state, Config.parse(config_of(*files))) as gate:
        gate.ingest(TEXTS[:20], LABELS[:20])
        assert sum(1 for _ in gate.releases()) == 3


def test_commands_predict_and_export(state: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.jsonl"
    new.write_text('{"note": "low tide"}\n{"note": null}\n{"note": "the gate is high"}\n')
    assert [row["label"] for row in json_lines("predict", str(state), str(new))] == [0, None, 1]
    with Gate.open(state) as gate:
        *_, release = gate.releases()
    export(release, tmp_path / "m.npz")
    export(release, tmp_path / "m.joblib")
    texts = ["low tide", "the gate is high"]
    chances = release.model().predict_proba(texts)
    assert np.array_equal(load(tmp_path / "m.npz").predict_proba(texts), chances)
    with pytest.raises(InvalidValueError, match=r"only for ONNX .*, got EncodedText"):
        export(release, tmp_path / "m.onnx")


def test_images_go_through_an_encoder(tmp_path: Path) -> None:
    image = {"map": "image_encoder", "height": 5, "width": 6, "channels": 3, "scale": 0.01}
    config = Config.of(
        {
            "schedule": {"kind": "independent", "step": 20},
            "budget": {"epsilon": 50.0, "delta": 1e-6},
            "records": {"classes": [0, 1], "norm": 1.0},
            "features": [{**image, "encoder": write_image_model(tmp_path)}],
        }
    )
    assert Config.from_json(config.to_json()).to_json() == config.to_json()
    images = np.random.default_rng(0).uniform(0, 255, (40, 90))
    images[::2] *= -1
    with Gate.open(tmp_path / "state", config) as gate:
        gate.ingest(images, [0, 1] * 20)
        *_, release = gate.releases()
    assert release.card["features"][0]["encoder"] == "image.onnx"
    assert (release.model().predict(images) == [0, 1] * 20).mean() > 0.9


def test_bad_encoders_are_named_by_their_key(tmp_path: Path, files: tuple[str, str]) -> None:
    model, tokenizer = files
    cases = {
        (str(tmp_path / "away.onnx"), tokenizer): "away.onnx cannot be read: No such file",
        (tokenizer, tokenizer): "encoder must be a file that ends in .onnx or .safetensors",
        (model, model): "is not a tokenizer",
        (write_table(tmp_path, vectors=np.zeros((3, 2), np.float32)), tokenizer): "of 3 tokens",
    }
    for given, message in cases.items():
        with pytest.raises(ConfigError) as refusal:
            Config.parse(config_of(*given))
        assert str(refusal.value).startswith(("features[0]: ", "features[0].encoder "))
        assert message in str(refusal.value)
        assert "\n" not in str(refusal.value)
