"""The laws of encoders: each record by itself, bit for bit, and never longer than 1."""

import pickle
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers

from tests.data.encoders import (
    VOCABULARY,
    WIDTH,
    weights,
    write_image_model,
    write_table,
    write_text_model,
    write_tokenizer,
)
from tidegate.data.encoder import Encoder, OnnxImage, OnnxText, TokenTable, text_encoder
from tidegate.data.encoder.encoder import unit_rows
from tidegate.data.encoder.token_table import sums
from tidegate.data.encoder.tokens import _split
from tidegate.features import Columns, Text

Encode = Callable[[Sequence[object]], NDArray[np.float32]]

KINDS = ("table.safetensors", "model.onnx")
words = st.lists(st.sampled_from([*VOCABULARY[3:10], "qx", "a"]), max_size=40).map(" ".join)
odd = st.text(st.characters(exclude_categories=())) | st.none() | st.floats() | st.binary()
texts = st.lists(words | odd, min_size=1, max_size=9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("encoders")
    write_tokenizer(made)
    write_table(made)
    write_text_model(made)
    write_image_model(made)
    return made


@pytest.fixture(scope="module", params=KINDS)
def encoder(request: pytest.FixtureRequest, folder: Path) -> Encoder:
    return text_encoder(str(folder / request.param), str(folder / "tokenizer.json"), 32)


def bits(rows: NDArray[Any]) -> list[bytes]:
    """The bits of each row; any not-a-number is as good as another."""
    return [np.where(np.isnan(row), np.float32(np.nan), row).tobytes() for row in rows]


def check_each_alone(encode: Encode, batch: Sequence[object], chosen: Sequence[int]) -> None:
    """A record has the same bits in a batch, in one of other order and size, and alone."""
    whole = bits(encode(batch))
    assert bits(encode([batch[i] for i in chosen])) == [whole[i] for i in chosen]
    assert [bits(encode([batch[i]]))[0] for i in chosen] == [whole[i] for i in chosen]


def check_neighbours(encode: Encode, batch: Sequence[object], at: int, other: object) -> None:
    """Replacing one record moves no other: what the privacy of every fit rests on."""
    before, after = (bits(encode(each)) for each in (batch, [*batch[:at], other, *batch[at + 1 :]]))
    del before[at], after[at]
    assert before == after


@given(batch=texts, other=words | odd, data=st.data())
def test_a_text_is_encoded_alike_in_every_batch(
    encoder: Encoder, batch: list[object], other: object, data: Any
) -> None:
    places = st.integers(0, len(batch) - 1)
    check_each_alone(encoder.encode, batch, data.draw(st.lists(places, min_size=1, max_size=6)))
    check_neighbours(encoder.encode, batch, data.draw(places), other)


def test_a_text_is_encoded_alike_in_large_batches(encoder: Encoder) -> None:
    rng = np.random.default_rng()
    batch = [" ".join(rng.choice(VOCABULARY[3:10], rng.integers(0, 40))) for _ in range(2100)]
    whole = bits(encoder.encode(batch))
    for chosen in (slice(1), slice(3, 9), slice(None, None, -1), slice(1, 1030), slice(2099, None)):
        assert bits(encoder.encode(batch[chosen])) == whole[chosen]


@given(batch=texts)
def test_no_vector_is_longer_than_1_exactly(encoder: Encoder, batch: list[object]) -> None:
    rows = encoder.encode(batch)
    assert rows.shape == (len(batch), encoder.width)
    assert rows.dtype == np.float32
    for text, row in zip(batch, rows, strict=True):
        assert np.isfinite(row).all() == isinstance(text, str)
        if isinstance(text, str):
            assert sum(Fraction(float(entry)) ** 2 for entry in row) <= 1


@given(rows=arrays(np.float64, (3, 7), elements=st.floats()))
def test_unit_rows_have_norm_1_or_are_zero_or_lost(rows: NDArray[np.float64]) -> None:
    for row, made in zip(rows, unit_rows(rows), strict=True):
        if not np.isfinite(row).all():
            assert np.isnan(made).all()
            continue
        exact = sum(Fraction(float(entry)) ** 2 for entry in made)
        assert exact <= 1
        assert exact == 0 if not row.any() else exact > Fraction(999, 1000)


def test_texts_that_are_odd_have_vectors_of_their_own(encoder: Encoder) -> None:
    rows = encoder.encode(
        ["", "tide \ud800", "tide ?", "tide " * 10**5, "tide " * 10**4, "q" * 999]
    )
    assert np.isfinite(rows).all()
    assert bits(rows[1:2]) == bits(rows[2:3])
    assert bits(rows[3:4]) == bits(rows[4:5])  # cut at the same token
    assert encoder.encode([]).shape == (0, encoder.width)


def test_a_text_that_cannot_be_encoded_loses_itself_alone(tmp_path: Path) -> None:
    """A tokenizer that knows no word for unknown ones fails, and with it the batch."""
    words = Tokenizer(models.WordLevel({"tide": 0, "gate": 1}))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "few.json"))
    table = TokenTable.open(write_table(tmp_path), str(tmp_path / "few.json"))
    texts = ["tide gate", "tide zebra", "gate"]
    rows = table.encode(texts)
    assert np.isnan(rows).all(axis=1).tolist() == [False, True, False]
    assert bits(rows) == [bits(table.encode([each]))[0] for each in texts]
    column = Text("t", encoder=table.table.path, tokenizer=table.tokenizer.path)
    made = Columns([column]).transform([{"t": each} for each in texts])
    assert made[:, :-1].any(axis=1).tolist() == [True, False, True]
    assert bits(made[[0, 2], :-1]) == bits(rows[[0, 2]])


class PanicException(BaseException):
    """What a panic in Rust becomes."""


class Panicking:
    """A tokenizer whose library panics at some text."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def encode_batch_fast(self, texts: list[str], **_: object) -> list[Any]:
        if "boom" in texts:
            raise self._error
        return [SimpleNamespace(ids=[len(text)]) for text in texts]


def test_a_panic_is_about_one_text() -> None:
    found = _split(Panicking(PanicException()), ["a", "boom", "ccc"], special=False)
    assert [None if each is None else each.tolist() for each in found] == [[1], None, [3]]
    with pytest.raises(KeyboardInterrupt):
        _split(Panicking(KeyboardInterrupt()), ["a", "boom"], special=False)


def test_a_text_without_tokens_is_zero(folder: Path) -> None:
    table = TokenTable.open(str(folder / "table.safetensors"), str(folder / "tokenizer.json"))
    assert not table.encode(["", " "]).any()


def test_a_table_is_averaged_as_written_down(folder: Path) -> None:
    """Against plain float64, with the tokens that the tokenizer gives without marks."""
    encoder = TokenTable.open(str(folder / "table.safetensors"), str(folder / "tokenizer.json"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    for text in ("the tide is low", "gate", "abc tide xyz"):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        mean = weights()["table"][ids].astype(np.float64).mean(axis=0)
        expected = mean / np.linalg.norm(mean)
        np.testing.assert_allclose(encoder.encode([text])[0], expected, atol=1e-6)


@given(ids=st.lists(st.integers(0, 5), min_size=1, max_size=50), data=st.data())
def test_sums_are_exact_whatever_the_order(ids: list[int], data: Any) -> None:
    table = data.draw(arrays(np.int32, (6, 3), elements=st.integers(-(2**30), 2**30)))
    mixed = data.draw(st.permutations(ids))
    found = sums(table, [np.array(ids), np.array(mixed)])
    exact = [sum(int(table[i, column]) for i in ids) for column in range(3)]
    assert found.tolist() == [exact, exact]


def test_a_network_is_run_as_the_runtime_runs_it(folder: Path) -> None:
    opened = OnnxText.open(str(folder / "model.onnx"), str(folder / "tokenizer.json"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    session = onnxruntime.InferenceSession(
        folder / "model.onnx", providers=["CPUExecutionProvider"]
    )
    for text in ("the tide is low", "", "abc tide xyz"):
        ids = np.array([tokenizer.encode(text).ids])
        (tokens,) = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
        mean = tokens[0].mean(axis=0)
        expected = mean / np.linalg.norm(mean)
        np.testing.assert_allclose(opened.encode([text])[0], expected, atol=1e-5)


def test_an_encoder_is_pickled_without_its_files(encoder: Encoder) -> None:
    text = "the tide is low"
    packed = pickle.dumps(encoder)
    assert len(packed) < 1000
    copy = pickle.loads(packed)
    assert copy == encoder
    assert bits(copy.encode([text])) == bits(encoder.encode([text]))


def test_an_encoder_has_a_width_and_the_digests_of_its_files(encoder: Encoder) -> None:
    assert encoder.width == WIDTH
    assert len(encoder.digest) == 64 + 1 + 64


pixels = arrays(np.float64, (4, 90), elements=st.floats(0, 255) | st.floats())


@given(batch=pixels, data=st.data())
def test_an_image_is_encoded_alike_in_every_batch(
    folder: Path, batch: NDArray[np.float64], data: Any
) -> None:
    opened = OnnxImage.open(str(folder / "image.onnx"), (5, 6, 3), mean=(0.5, 0.4, 0.3))
    chosen = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=6))
    whole = opened.encode(batch)
    assert bits(opened.encode(batch[chosen])) == [bits(whole)[i] for i in chosen]
    assert bits(opened.encode(np.asfortranarray(batch))) == bits(whole)
    lost = ~np.isfinite(batch).all(axis=1)
    assert (np.isnan(whole).all(axis=1) >= lost).all()
    for row in whole[~np.isnan(whole).any(axis=1)]:
        assert sum(Fraction(float(entry)) ** 2 for entry in row) <= 1


def test_channels_may_come_first_or_last(folder: Path) -> None:
    """A pixel's channels lie side by side in a record; the network here wants them apart."""
    image = np.random.default_rng(0).uniform(0, 255, (5, 6, 3))
    opened = OnnxImage.open(
        str(folder / "image.onnx"), (5, 6, 3), mean=(0.5, 0.4, 0.3), deviation=(0.2, 0.3, 0.4)
    )
    entered = (image / 255 - [0.5, 0.4, 0.3]) / [0.2, 0.3, 0.4]
    session = onnxruntime.InferenceSession(
        folder / "image.onnx", providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {"pixels": entered.transpose(2, 0, 1)[None].astype(np.float32)})
    expected = found[0] / np.linalg.norm(found[0])
    np.testing.assert_allclose(opened.encode(image.reshape(1, -1))[0], expected, atol=1e-5)


# Planted mistakes: encoders as one would write them, which the laws above must catch.


def padded_to_the_longest(folder: Path) -> Encode:
    """One run for the whole batch, padded to its longest text."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding()
    session = onnxruntime.InferenceSession(
        folder / "model.onnx", providers=["CPUExecutionProvider"]
    )

    def encode(batch: Sequence[object]) -> NDArray[np.float32]:
        ids = np.array([each.ids for each in tokenizer.encode_batch(batch)])
        (tokens,) = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
        return unit_rows(tokens.mean(axis=1).astype(np.float64))

    return encode


def scaled_by_the_batch(folder: Path) -> Encode:
    """Vectors divided by the longest of the batch instead of their own norm."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()

    def encode(batch: Sequence[object]) -> NDArray[np.float32]:
        tokens = [np.array(each.ids) for each in tokenizer.encode_batch(batch)]
        rows = sums(np.ones((len(VOCABULARY), 2), np.int32), tokens)
        return np.asarray(rows / np.linalg.norm(rows, axis=1).max(), np.float32)

    return encode


def centred_by_the_batch(folder: Path) -> Encode:
    table = TokenTable.open(str(folder / "table.safetensors"), str(folder / "tokenizer.json"))
    return lambda batch: table.encode(batch) - table.encode(batch).mean(axis=0)


@pytest.mark.parametrize(
    "mistake", [padded_to_the_longest, scaled_by_the_batch, centred_by_the_batch]
)
def test_an_encoder_that_looks_at_its_batch_is_caught(
    folder: Path, mistake: Callable[[Path], Encode]
) -> None:
    encode = mistake(folder)
    batch = ["low tide", "the gate is out", "high"]
    with pytest.raises(AssertionError):
        check_each_alone(encode, batch, [0, 2])
    with pytest.raises(AssertionError):
        check_neighbours(encode, batch, 1, "the tide is out and the gate is low again today")
