"""What is refused of an encoder's files, in one line that names the file; and what is frozen."""

import json
import math
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tests.data.encoders import (
    TEXT_GRAPH,
    WIDTH,
    weights,
    write_image_model,
    write_model,
    write_table,
    write_text_model,
    write_tokenizer,
)
from tidegate.checks import InvalidValueError
from tidegate.data.encoder import OnnxImage, text_encoder, tokens
from tidegate.data.encoder.encoder import FrozenFile

IDS = "int64[n, m] input_ids"
BOTH = f"{IDS}, int64[n, m] attention_mask"


def text_model(inputs: str, output: str, lines: str = "") -> Callable[[Path], str]:
    """Writes a sentence model with a signature of its own."""
    kind, _, name = output.rpartition(" ")
    body = lines or TEXT_GRAPH.format(output=name)

    def write(folder: Path) -> str:
        text = f"text ({inputs}) => ({kind} {name}) {{{body}}}"
        return write_model(folder / "model.onnx", text, weights())

    return write


def content(data: bytes, name: str = "model.onnx") -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        (folder / name).write_bytes(data)
        return str(folder / name)

    return write


def external(folder: Path) -> str:
    """A model whose table is in another file: /etc/passwd would do."""
    path = Path(write_text_model(folder))
    model = onnx.load(path)
    table = next(each for each in model.graph.initializer if each.name == "table")
    table.ClearField("raw_data")
    table.data_location = onnx.TensorProto.EXTERNAL
    table.external_data.add(key="location", value="../../etc/passwd")
    path.write_bytes(model.SerializeToString())
    return str(path)


def external_in_a_branch(folder: Path) -> str:
    """The same in a constant within a subgraph."""
    path = Path(external(folder))
    hidden = onnx.load(path, load_external_data=False).graph.initializer[0]
    model = onnx.load(write_text_model(folder))
    constant = onnx.helper.make_node("Constant", [], ["c"])
    constant.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(hidden)
    value = onnx.helper.make_tensor_value_info("c", onnx.TensorProto.FLOAT, None)
    branch = onnx.helper.make_graph([constant], "branch", [], [value])
    model.graph.node.add(op_type="If", input=["true"], output=["unread"]).attribute.extend(
        onnx.helper.make_attribute(name, branch) for name in ("then_branch", "else_branch")
    )
    path.write_bytes(model.SerializeToString())
    return str(path)


def with_loop(folder: Path, *, in_function: bool = False) -> str:
    """A model that repeats something for as long as a token says, or for ever."""
    path = Path(write_text_model(folder))
    model = onnx.load(path)
    boolean = onnx.helper.make_tensor_value_info("go_on", onnx.TensorProto.BOOL, [])
    count = onnx.helper.make_tensor_value_info("count", onnx.TensorProto.INT64, [])
    again = onnx.helper.make_node("Identity", ["go_on"], ["still"])
    still = onnx.helper.make_tensor_value_info("still", onnx.TensorProto.BOOL, [])
    body = onnx.helper.make_graph([again], "body", [count, boolean], [still])
    loop = onnx.helper.make_node("Loop", ["", "true"], [], body=body)
    if in_function:
        opset = [onnx.helper.make_opsetid("", 17)]
        model.functions.append(onnx.helper.make_function("own", "Own", ["true"], [], [loop], opset))
    else:
        model.graph.node.append(loop)
    path.write_bytes(model.SerializeToString())
    return str(path)


def folder_of_a_model(folder: Path) -> str:
    (folder / "a.onnx").mkdir()
    return str(folder / "a.onnx")


def table(**tensors: Any) -> Callable[[Path], str]:
    return lambda folder: write_table(folder, **tensors)


WIDE = np.zeros((70, 2**16 + 1), np.float16)
FLOATS = f"float[n, m, {WIDTH}] vectors"

REFUSED: dict[str, tuple[Callable[[Path], str], str]] = {
    "not ONNX": (content(b"import os"), "is not an ONNX model"),
    "an empty file": (content(b""), "is not an ONNX model"),
    "a pickle": (content(pickle.dumps({"a": 1})), "is not an ONNX model"),
    "external data": (external, "keeps weights in other files"),
    "external data in a branch": (external_in_a_branch, "keeps weights in other files"),
    "an unknown input": (
        text_model(f"{BOTH}, int64[n, m] position_ids", FLOATS),
        "input_ids and, if it has them, attention_mask and token_type_ids; check position_ids",
    ),
    "no tokens": (
        text_model(
            "int64[n, m] attention_mask",
            "float[n, 3] vectors",
            "vectors = Cast <to = 1> (attention_mask)",
        ),
        "check input_ids",
    ),
    "tokens as floats": (
        text_model("float[n, m] input_ids", "float[n, 3] vectors", "vectors = Identity(input_ids)"),
        "input_ids must be whole numbers",
    ),
    "one length only": (
        text_model("int64[n, 16] input_ids", f"float[n, 16, {WIDTH}] vectors"),
        "export it with dynamic axes",
    ),
    "a dynamic width": (
        text_model(IDS, "float[n, k] vectors", "vectors = Cast <to = 1> (input_ids)"),
        "must have a fixed number of features from 1 to 65536, got",
    ),
    "four dimensions": (
        text_model(
            IDS,
            "float[n, m, 1, 1] vectors",
            "f = Cast <to = 1> (input_ids) axes = Constant <value_ints = [2, 3]> ()"
            "vectors = Unsqueeze(f, axes)",
        ),
        "got 4 dimensions",
    ),
    "whole numbers": (
        text_model(IDS, "int64[n, 3] vectors", "vectors = Identity(input_ids)"),
        "must be floats",
    ),
    "too wide": (
        text_model(
            IDS,
            f"float[n, {2**16 + 1}] vectors",
            f"f = Cast <to = 1> (input_ids) k = Constant <value_ints = [1, {2**16 + 1}]> ()"
            "vectors = Expand(f, k)",
        ),
        "from 1 to 65536",
    ),
    "another shape than it declares": (
        text_model(IDS, "float[n, 7] vectors", "vectors = Cast <to = 1> (input_ids)"),
        "into one row of 7 numbers",
    ),
    "random numbers": (
        text_model(
            BOTH,
            FLOATS,
            TEXT_GRAPH.format(output="sure")
            + "chance = RandomNormalLike(sure)\nvectors = Add(sure, chance)",
        ),
        "draws random numbers",
    ),
    "a loop": (with_loop, "has Loop, which may never end on some record"),
    "a loop in a function": (
        lambda folder: with_loop(folder, in_function=True),
        "has Loop, which may never end on some record",
    ),
    "an unknown operator": (
        text_model(IDS, FLOATS, "vectors = Tides(input_ids)"),
        "cannot be run by onnxruntime",
    ),
    "fewer tokens than the tokenizer": (
        lambda folder: write_model(
            folder / "model.onnx",
            f"text ({BOTH}) => ({FLOATS}) {{{TEXT_GRAPH.format(output='vectors')}}}",
            {**weights(), "table": weights()["table"][:20]},
        ),
        "does not turn token 61 of",
    ),
    "not a table": (content(b"import os", "table.safetensors"), "is not a safetensors file"),
    "a pickled table": (
        content(pickle.dumps(weights()), "table.safetensors"),
        "is not a safetensors file",
    ),
    "two tensors": (table(more=np.zeros(3, np.float32)), "must hold one tensor of floats"),
    "no tensor": (table(vectors=None), "must hold one tensor of floats"),
    "a vector": (table(vectors=np.zeros(3, np.float32)), "of shape (tokens, features)"),
    "a table of whole numbers": (
        table(vectors=np.zeros((70, 3), np.int32)),
        "one tensor of floats",
    ),
    "a table too wide": (table(vectors=WIDE), "the most is 65536"),
    "a table not finite": (
        table(vectors=np.full((70, 3), np.inf, np.float32)),
        "entries that are not finite",
    ),
    "a table too short": (
        table(vectors=np.zeros((20, 3), np.float32)),
        "has vectors of 20 tokens, but",
    ),
    "another ending": (content(b"", "model.pt"), "must be a file that ends in .onnx or .safetens"),
    "no file": (lambda folder: str(folder / "away.onnx"), "away.onnx cannot be read: No such file"),
    "a folder": (folder_of_a_model, "a.onnx is not a file: check the path"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_encoder_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    write, message = REFUSED[case]
    path = write(tmp_path)
    with pytest.raises(InvalidValueError) as refusal:
        text_encoder(path, write_tokenizer(tmp_path))
    text = str(refusal.value)
    assert message in text
    assert "\n" not in text
    assert Path(path).name in text


def replacing(times: int, **pattern: str) -> Callable[[dict[str, Any]], object]:
    """A tokenizer that makes two letters of one, again and again."""
    each = {"type": "Replace", "pattern": pattern, "content": "aa"}
    inner = {"type": "Sequence", "normalizers": [each] * times}
    return lambda known: known | {"normalizer": {"type": "Sequence", "normalizers": [inner]}}


TOKENIZERS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "not a tokenizer": (lambda _: {"a": 1}, "is not a tokenizer"),
    "no table": (lambda _: [1], "is not a tokenizer"),
    "dropout": (
        lambda known: (
            known | {"model": {"type": "BPE", "dropout": 0.5, "vocab": {"a": 0}, "merges": []}}
        ),
        "splits texts at random: set dropout to null",
    ),
    "replacements of a letter": (replacing(40, String="a"), r"1.1e\+12 times as long .* is 64"),
    "replacements of nothing": (replacing(4, String=""), "81 times as long"),
    "replacements by expressions": (replacing(4, Regex="x*"), "81 times as long"),
}


def test_a_tokenizer_may_replace_a_little(tmp_path: Path) -> None:
    path = Path(write_tokenizer(tmp_path))
    path.write_text(json.dumps(replacing(6, String="a")(json.loads(path.read_text()))))
    encoder = text_encoder(write_table(tmp_path), str(path))
    assert np.isfinite(encoder.encode(["a" * 10**6, "tide"])).all()


letters = st.text(st.sampled_from("ab "), max_size=3)
replacements = st.builds(
    lambda pattern, content: {"type": "Replace", "pattern": pattern, "content": content},
    st.one_of(
        letters.map(lambda text: {"String": text}),
        st.sampled_from(["x*", "a|b", " {2,}", "[ab]", "a?", "b*a"]).map(lambda it: {"Regex": it}),
    ),
    letters,
)


@given(st.lists(replacements, max_size=4), st.text(st.sampled_from("ab "), max_size=30))
def test_no_text_grows_by_more_than_is_assumed(chain: list[Any], text: str) -> None:
    known = Tokenizer.from_str(
        json.dumps(
            {
                "version": "1.0",
                "added_tokens": [],
                "normalizer": {"type": "Sequence", "normalizers": chain},
                "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"},
            }
        )
    )
    grown = known.normalizer.normalize_str(text)
    assert len(grown) + 1 <= math.prod(map(tokens._growth, chain)) * (len(text) + 1)


@given(st.lists(st.none() | st.integers(0, 40), max_size=60), st.floats(1, 64))
def test_runs_of_texts_are_bounded(lengths: list[int | None], times: float) -> None:
    texts = [None if length is None else "a" * length for length in lengths]
    with patch.object(tokens, "RUN", 7), patch.object(tokens, "RUN_CHARACTERS", 1000):
        found = list(tokens.runs(texts, times))
    assert [text for run in found for text in run] == texts
    for run in found:
        sizes = [len(text) for text in run if text]
        assert 0 < len(run) <= 7
        assert len(sizes) <= 1 or times * sum(sizes) <= 1000


@pytest.mark.parametrize("case", TOKENIZERS)
def test_a_bad_tokenizer_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    path = Path(write_tokenizer(tmp_path))
    change, message = TOKENIZERS[case]
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(InvalidValueError, match=message) as refusal:
        text_encoder(write_table(tmp_path), str(path))
    assert "tokenizer.json" in str(refusal.value)


@pytest.mark.parametrize("length", [0, 7, 2**16 + 1, 3.5])
def test_a_bad_length_is_refused(tmp_path: Path, length: Any) -> None:
    with pytest.raises(InvalidValueError, match="length must be a whole number from 8 to 65536"):
        text_encoder(write_table(tmp_path), write_tokenizer(tmp_path), length)


@pytest.mark.parametrize("write", [write_table, write_text_model])
def test_a_file_that_changed_is_refused_in_one_line(
    tmp_path: Path, write: Callable[[Path], str]
) -> None:
    path, tokenizer = write(tmp_path), write_tokenizer(tmp_path)
    opened = text_encoder(path, tokenizer)
    first = opened.encode(["tide"])
    digest = opened.digest.split("+")[0]
    good = Path(path).read_bytes()
    Path(path).write_bytes(good + b" ")
    changed = rf"{Path(path).name} changed since .*restore the file with SHA-256 {digest}, or start"
    with pytest.raises(InvalidValueError, match=changed):
        FrozenFile(path, digest).read()
    later = text_encoder(path, tokenizer, digest=opened.digest)  # read when it is used
    Path(path).unlink()
    with pytest.raises(InvalidValueError, match=f"missing: put the file with SHA-256 {digest}"):
        FrozenFile(path, digest).read()
    Path(path).write_bytes(good)
    assert np.array_equal(later.encode(["tide"]), first)


@pytest.mark.parametrize("digest", ["", "abc", "0" * 64, f"{'0' * 64}+{'x' * 64}"])
def test_what_is_not_a_digest_is_refused(tmp_path: Path, digest: str) -> None:
    with pytest.raises(InvalidValueError, match="digest must be"):
        text_encoder(write_table(tmp_path), write_tokenizer(tmp_path), digest=digest)


@pytest.mark.parametrize("shape", [(5, 6, 1), (6, 5, 3), (28, 28, 3)])
def test_a_model_of_images_of_another_shape_is_refused(
    tmp_path: Path, shape: tuple[int, int, int]
) -> None:
    path = write_image_model(tmp_path)
    with pytest.raises(InvalidValueError, match=r"image\.onnx must have one input of float32"):
        OnnxImage.open(path, shape)


def test_a_model_of_texts_is_not_one_of_images(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match=r"model\.onnx must have one input of float32"):
        OnnxImage.open(write_text_model(tmp_path), (5, 6, 3))


def test_what_is_not_a_file_is_refused_unopened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.onnx")  # opening it would wait for ever
    with pytest.raises(InvalidValueError, match="is not a file: check the path"):
        FrozenFile.of(str(tmp_path / "model.onnx"))
