"""Columns of text behind an encoder: bounded, alone in any batch, frozen by their files."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.data.encoders import WIDTH, write_table, write_text_model, write_tokenizer
from tidegate.checks import InvalidValueError
from tidegate.data.columns import column_of
from tidegate.data.encoder.onnx_model import loaded_model
from tidegate.data.encoder.token_table import loaded_table
from tidegate.data.encoder.tokens import loaded_tokenizer
from tidegate.features import Columns, Flag, Text
from tidegate.gate import Gate
from tidegate.run.config import Config, ConfigError

NOTES = ["the high gate", "tide", None, "", [3], "low tide is out", "zz " * 40]


@pytest.fixture(params=["table", "onnx"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    write = write_table if request.param == "table" else write_text_model
    return write(tmp_path), write_tokenizer(tmp_path)


def forget_models() -> None:
    """As in a process that has not read the files before."""
    for loaded in (loaded_model, loaded_table, loaded_tokenizer):
        loaded.cache_clear()


def test_an_encoded_column_is_bounded_and_alone(files: tuple[str, str]) -> None:
    columns = Columns([Flag("f"), Text("note", encoder=files[0], tokenizer=files[1])])
    rows = [{"note": note} for note in NOTES]
    made = columns.transform(rows)
    assert made.shape == (len(NOTES), 2 + WIDTH + 1)
    assert np.isnan(made).all(axis=1).tolist() == [note == [3] for note in NOTES]
    assert made[[2, 3], -1].tolist() == [1, 1]
    for row, whole in zip(rows, made, strict=True):
        (alone,) = columns.transform([row])
        assert np.array_equal(alone, whole, equal_nan=True)
        exact = sum((Fraction(float(each)) ** 2 for each in np.nan_to_num(whole[2:])), Fraction(0))
        assert exact <= 1


def test_its_card_has_digests_and_no_folders(files: tuple[str, str], tmp_path: Path) -> None:
    column = Text("note", encoder=files[0], tokenizer=files[1])
    described = json.loads(json.dumps(column.described()))
    assert str(tmp_path) not in json.dumps(described)
    assert len(described["digest"]) == 129
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert column_of(described).described() == described


def test_a_changed_or_missing_file_is_refused(files: tuple[str, str], tmp_path: Path) -> None:
    digest = Text("note", encoder=files[0], tokenizer=files[1]).digest
    forget_models()
    other = write_text_model(tmp_path, "other.onnx", seed=1)
    with pytest.raises(InvalidValueError, match="SHA-256"):
        Columns([Text("note", encoder=other, tokenizer=files[1], digest=digest)]).transform(
            [{"note": "tide"}]
        )
    with pytest.raises(InvalidValueError, match=r"column note: .*nothing\.onnx"):
        Text("note", encoder="nothing.onnx", tokenizer=files[1])
    with pytest.raises(InvalidValueError, match="column note: encoder and tokenizer must be given"):
        Text("note", encoder=files[0])


CONFIG = """
[schedule]
kind = "independent"
step = 20
[budget]
epsilon = 50.0
delta = 1e-6
[records]
classes = [0, 1]
label = "y"
[[columns]]
name = "note"
kind = "text"
encoder = "{}"
tokenizer = "{}"
[[columns]]
name = "f"
kind = "flag"
"""


def test_a_gate_encodes_a_column_once(files: tuple[str, str], tmp_path: Path) -> None:
    config = Config.parse(CONFIG.format(*files))
    rows = [{"note": ["tide", "high gate"][i % 2], "f": None} for i in range(40)]
    with Gate.open(tmp_path / "s", config) as gate:
        gate.ingest(rows, [0, 1] * 20)
        releases = list(gate.releases())
    Path(files[0]).write_bytes(b"another model")
    forget_models()
    with pytest.raises(InvalidValueError, match="SHA-256"), Gate.open(tmp_path / "s") as gate:
        gate.ingest(rows, [0, 1] * 20)
    assert len(releases) == 2
    assert releases[-1].card["features"][0]["columns"][0]["digest"]
    with pytest.raises(ConfigError, match=r"columns\[0\], column note"):
        Config.parse(CONFIG.format(*files))


def test_a_body_has_few_records_if_a_network_encodes_them(files: tuple[str, str]) -> None:
    """Otherwise one sender's texts would make all others wait for minutes."""
    pytest.importorskip("fastapi", reason="needs the extra serve")
    from tidegate.serve.bodies import JSON, Reader  # noqa: PLC0415
    from tidegate.serve.limits import Limits  # noqa: PLC0415

    reader = Reader(config=Config.parse(CONFIG.format(*files)), limits=Limits(encoded=3))
    for count in (3, 4):
        listed = [{"note": "tide", "f": True, "y": 1}] * count
        bodies = [{"records": listed}, {"x": [["tide", True]] * count, "y": [1] * count}]
        for each in bodies:
            content = json.dumps(each).encode()
            if count > 3 and files[0].endswith(".onnx"):
                with pytest.raises(InvalidValueError, match="at most 3 records"):
                    reader.batch(JSON, content)
            else:
                assert reader.batch(JSON, content).n == count
