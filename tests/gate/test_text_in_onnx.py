"""Hashed text in an ONNX file predicts as the release does, for every text."""

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.cli.run import tidegate
from tests.features.encoders import write_table, write_tokenizer
from tests.gate.released import made
from tidegate.checks import InvalidValueError
from tidegate.features import Category, Columns, Number, Text, Vector
from tidegate.features.columns import Column
from tidegate.features.spelling import spelled
from tidegate.features.text_in_onnx.grams import in_a_word, no_blank
from tidegate.features.text_in_onnx.lower import letters
from tidegate.gate.export import export, load_release
from tidegate.gate.onnx_release import OPSET, to_onnx
from tidegate.release import FIRST, StoredRelease, seal

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

SIZE = 509  # no power of two, so that the sign of a hash matters to its feature
LENGTHS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((1, 1), ()),
    ((1, 2), (3, 5)),
    ((2, 4), (1, 2)),
    ((), (5, 7)),
    ((3, 3), (4, 4)),
]

# ONNX texts are UTF-8, which holds every character but lone surrogates: they cannot be given to a
# graph. Half of the characters are those that lower case, words and blanks treat in a special way.
ODD = (
    "aAzZ09_- .,'\0\t\n\x1c\x85\xa0\u3000\u200b\u00ad\u0301\u0345"
    "ΣσςİıẞßŉǅʰªΩ\u212a中١²\U00010400\U0001e943"
)
CHARACTER = st.sampled_from(ODD) | st.characters(codec="utf-8")
TEXTS = st.lists(st.text(CHARACTER, max_size=30), max_size=4)


def release(steps: Sequence[Any], width: int, norm: float) -> StoredRelease:
    """A release with random weights for a map of this width."""
    card = {**made([0, 1])[1][0].card, "features": steps, "shape": [width], "norm": norm}
    weights = np.random.default_rng(0).normal(size=width) / 8
    return seal(json.loads(json.dumps(card)), weights, FIRST)


def of_columns(*columns: Column) -> StoredRelease:
    table = Columns(list(columns))
    return release([table.described()], table.width, table.norm)


def of_texts(words: Any, characters: Any, size: int = SIZE) -> StoredRelease:
    text = {"n_features": size, "words": words, "characters": characters}
    return release([{"kind": "HashedText", **text}], size, 2.0**60)


@lru_cache
def running(words: Any, characters: Any) -> tuple[Any, Any]:
    whole = of_texts(words, characters)
    return whole.classifier(), onnxruntime.InferenceSession(to_onnx(whole))


def probabilities(session: Any, texts: Sequence[str], name: str = "records") -> NDArray[Any]:
    given = np.array(texts, object).reshape(-1, 1)
    found: NDArray[Any] = session.run(["probabilities"], {name: given})[0]
    return found


@pytest.mark.parametrize("lengths", LENGTHS)
@given(texts=TEXTS)
def test_every_text_predicts_the_same(lengths: Any, texts: list[str]) -> None:
    texts = [text for text in texts if spelled(text) == text]  # a file takes them as spelled
    model, session = running(*lengths)
    found = probabilities(session, texts)
    assert found.shape == (len(texts), 2)
    if texts:
        assert np.allclose(found, model.predict_proba(texts), rtol=0, atol=1e-12)


def test_every_special_letter_predicts_the_same() -> None:
    model, session = running((1, 2), (3, 5))
    texts = [f"A{each}Σ b{each}b {each}{each} Σ{each}B" for each in letters().keys]
    expected = model.predict_proba(texts)
    assert np.allclose(probabilities(session, texts), expected, rtol=0, atol=1e-12)


def test_the_smallest_hash_has_a_feature() -> None:
    model, session = running((1, 1), ())
    text = ["afeercs"]  # the hash of "word afeercs" is -2^31, which has no opposite
    assert np.allclose(probabilities(session, text), model.predict_proba(text), rtol=0, atol=1e-12)
    assert abs(probabilities(session, text)[0, 0] - 0.5) > 1e-3


def test_long_texts_and_long_words_predict_the_same() -> None:
    model, session = running((1, 2), (3, 5))
    texts = ["Tide " * 3000, "x" * 5000, "", " " * 999, "é" * 1025 + " ebb"]
    expected = model.predict_proba(texts)
    assert np.allclose(probabilities(session, texts), expected, rtol=0, atol=1e-12)


@given(TEXTS)
def test_a_text_predicts_the_same_in_any_batch(texts: list[str]) -> None:
    _, session = running((2, 4), (1, 2))
    together = probabilities(session, texts)
    for text, whole in zip(texts, together, strict=True):
        assert np.array_equal(probabilities(session, [text])[0], whole)


def test_classes_are_spelled_as_python_has_them() -> None:
    word = re.compile(re.sub(r"\\x\{(\w+)\}", lambda m: re.escape(chr(int(m[1], 16))), in_a_word()))
    gap = re.compile(re.sub(r"\\x\{(\w+)\}", lambda m: re.escape(chr(int(m[1], 16))), no_blank()))
    for code in (*range(0xD800), *range(0xE000, 0x20000)):
        each = chr(code)
        assert bool(word.match(each)) == bool(re.match(r"\w", each))
        assert bool(gap.match(each)) == bool(each.split())


COLUMNS = (
    Vector("scan", size=2, norm=3.0),
    Text("note", size=64, words=(1, 2), gaps=("?", "n/a")),
    Number("age", low=0, high=100),
    Category("ward", hash=8),
    Text("more", size=32, words=(), characters=(2, 3)),
)


@lru_cache
def running_columns() -> tuple[Any, Any]:
    whole = of_columns(*COLUMNS)
    return whole.classifier(), onnxruntime.InferenceSession(to_onnx(whole))


@given(st.lists(st.sampled_from(["", "?", "n/a", "N/A", "!"]) | st.text(CHARACTER), min_size=1))
def test_columns_of_text_predict_the_same(notes: list[str]) -> None:
    model, session = running_columns()
    rows = [
        {"note": note, "more": notes[-1 - place], "age": place, "ward": note, "scan": [place, 1]}
        for place, note in enumerate(notes)
    ]
    given = {
        "note": np.array(notes, object)[:, None],
        "more": np.array(notes[::-1], object)[:, None],
        "ward": np.array(notes, object)[:, None],
        "age": np.arange(len(notes), dtype=np.float64)[:, None],
        "scan": np.array([[place, 1.0] for place in range(len(notes))]),
    }
    found = session.run(["probabilities"], given)[0]
    assert np.allclose(found, model.predict_proba(rows), rtol=0, atol=1e-6)  # of float32 features


def test_a_missing_text_is_an_indicator() -> None:
    table = Columns([Text("note", size=16, gaps=["?"])])
    session = onnxruntime.InferenceSession(to_onnx(of_columns(*table.columns)))
    gap, text, named = probabilities(session, ["", "tide", "?"], "note")
    assert np.array_equal(gap, named)
    assert not np.allclose(gap, text, atol=1e-3)
    assert np.allclose(probabilities(session, ["!"], "note"), 0.5)  # no word, but not missing


def opset(data: bytes) -> int:
    imports = onnx.load_model_from_string(data).opset_import
    return int(next(each.version for each in imports if not each.domain))


def test_only_text_needs_a_later_operator_set() -> None:
    assert opset(to_onnx(of_columns(COLUMNS[0], COLUMNS[2], COLUMNS[3]))) == OPSET
    assert opset(to_onnx(of_columns(*COLUMNS))) == 20


def test_tidegate_predicts_from_the_file(tmp_path: Path) -> None:
    whole = of_columns(Text("note", size=64, gaps=["?"]), Number("age", low=0, high=100))
    export(whole, tmp_path / "model.onnx")
    assert load_release(tmp_path / "model.onnx").hash == whole.hash
    rows: list[dict[str, Any]] = [
        {"note": "High tide", "age": 20},
        {"note": "?", "age": None},
        {"note": None, "age": 20},
        {"note": [7], "age": 20},
        {"age": 20},
    ]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (tmp_path / "new.jsonl").write_text(lines)
    words = "predict", str(tmp_path / "model.onnx"), str(tmp_path / "new.jsonl")
    done = [json.loads(line) for line in tidegate(*words, "--format", "json").stdout.splitlines()]
    assert [each["label"] is None for each in done] == [False, False, False, True, False]
    usable = [row for row, each in zip(rows, done, strict=True) if each["label"] is not None]
    expected = whole.classifier().predict_proba([{"note": None, **row} for row in usable])
    found = [list(each["probabilities"].values()) for each in done if each["label"] is not None]
    assert np.allclose(found, expected, rtol=0, atol=1e-12)


def test_what_cannot_be_exported_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    encoder, tokenizer = write_table(tmp_path), write_tokenizer(tmp_path)
    column = Text("note", encoder=Path(encoder).name, tokenizer=Path(tokenizer).name)
    instead = (
        r"^column note: an encoder .* export another kind, such as \.safetensors, or .*predict$"
    )
    with pytest.raises(InvalidValueError, match=instead):
        to_onnx(of_columns(column))
    large = r"^the features of a text must be at most 262,144 for ONNX .*, got 262,145$"
    with pytest.raises(InvalidValueError, match=large):
        to_onnx(of_columns(Text("note", size=2**18 + 1)))
    with pytest.raises(InvalidValueError, match="given for ONNX, got neither"):
        to_onnx(of_texts((), ()))
    for name in ("label", "weights", "value_3", "_made"):
        with pytest.raises(InvalidValueError, match=f"^column {name} has a name that ONNX files"):
            to_onnx(of_columns(Text(name, size=8)))
