"""Columns in an ONNX file predict as the release does; what cannot be exported is refused."""

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.run import tidegate
from tests.data.encoders import write_table, write_tokenizer
from tests.state.released import made
from tidegate.checks import InvalidValueError
from tidegate.data.columns import Column
from tidegate.data.values import spelled
from tidegate.features import Category, Columns, Number, Text, Vector
from tidegate.release import FIRST, StoredRelease, seal
from tidegate.release.export_formats import export, load_release
from tidegate.release.onnx_release import to_onnx

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def release(steps: Sequence[Any], width: int, norm: float) -> StoredRelease:
    """A release with random weights for a map of this width."""
    card = {**made([0, 1])[1][0].card, "features": steps, "shape": [width], "norm": norm}
    weights = np.random.default_rng(0).normal(size=width) / 8
    return seal(json.loads(json.dumps(card)), weights, FIRST)


def of_columns(*columns: Column) -> StoredRelease:
    table = Columns(list(columns))
    return release([table.described()], table.width, table.norm)


COLUMNS = (
    Vector("scan", size=2, norm=3.0),
    Number("age", low=0, high=100),
    Category("ward", hash=8, gaps=("?", "n/a")),
    Category("room", values=["1", "yes", "UA"], gaps=("?",)),
)


@lru_cache
def running_columns() -> tuple[Any, Any]:
    whole = of_columns(*COLUMNS)
    return whole.classifier(), onnxruntime.InferenceSession(to_onnx(whole))


# ONNX texts are UTF-8, which holds every character but lone surrogates. A file hashes texts as
# they come, so they are given as they are spelled.
TEXTS = st.sampled_from(["", "?", "n/a", "N/A", "1", "yes", "UA"]) | st.text(
    st.characters(codec="utf-8")
)


@given(st.lists(TEXTS.filter(lambda text: spelled(text) == text or not text), min_size=1))
def test_columns_predict_the_same(notes: list[str]) -> None:
    model, session = running_columns()
    rows = [
        {"room": notes[-1 - place], "age": place, "ward": note, "scan": [place, 1]}
        for place, note in enumerate(notes)
    ]
    given = {
        "room": np.array(notes[::-1], object)[:, None],
        "ward": np.array(notes, object)[:, None],
        "age": np.arange(len(notes), dtype=np.float64)[:, None],
        "scan": np.array([[place, 1.0] for place in range(len(notes))]),
    }
    found = session.run(["probabilities"], given)[0]
    assert np.allclose(found, model.predict_proba(rows), rtol=0, atol=1e-6)  # of float32 features


def test_tidegate_predicts_from_the_file(tmp_path: Path) -> None:
    whole = of_columns(Category("ward", hash=64, gaps=["?"]), Number("age", low=0, high=100))
    export(whole, tmp_path / "model.onnx")
    assert load_release(tmp_path / "model.onnx").hash == whole.hash
    rows: list[dict[str, Any]] = [
        {"ward": "High tide", "age": 20},
        {"ward": "?", "age": None},
        {"ward": None, "age": 20},
        {"ward": [7], "age": 20},
        {"age": 20},
    ]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (tmp_path / "new.jsonl").write_text(lines)
    words = "predict", str(tmp_path / "model.onnx"), str(tmp_path / "new.jsonl")
    done = [json.loads(line) for line in tidegate(*words, "--format", "json").stdout.splitlines()]
    assert [each["label"] is None for each in done] == [False, False, False, True, False]
    usable = [row for row, each in zip(rows, done, strict=True) if each["label"] is not None]
    expected = whole.classifier().predict_proba([{"ward": None, **row} for row in usable])
    found = [list(each["probabilities"].values()) for each in done if each["label"] is not None]
    assert np.allclose(found, expected, rtol=0, atol=1e-12)


def test_what_cannot_be_exported_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    encoder, tokenizer = write_table(tmp_path), write_tokenizer(tmp_path)
    encoded = Text("note", encoder=Path(encoder).name, tokenizer=Path(tokenizer).name)
    instead = r"^column note: a text .* export another kind, such as \.safetensors .*predict$"
    for column in (encoded, Text("note", size=8)):
        with pytest.raises(InvalidValueError, match=instead):
            to_onnx(of_columns(column))
    words = {"kind": "HashedText", "n_features": 8, "words": [1, 1], "characters": []}
    only = (
        r"^features must be [^\n]* only for ONNX \(other export kinds take all\), got HashedText$"
    )
    with pytest.raises(InvalidValueError, match=only):
        to_onnx(release([words], 8, 1.0))
    for name in ("label", "weights", "value_3", "constant_0"):
        with pytest.raises(InvalidValueError, match=f"^column {name} has a name that ONNX files"):
            to_onnx(of_columns(Number(name, low=0, high=1)))
