"""Small encoders for tests: a tokenizer, a table of vectors and two networks, drawn by a seed."""

from collections.abc import Mapping
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import onnx
import safetensors.numpy as safetensors
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WIDTH = 24
WORDS = ["[UNK]", "[CLS]", "[SEP]", "tide", "gate", "the", "is", "low", "high", "out"]
VOCABULARY = [*WORDS, *ascii_lowercase, *(f"##{letter}" for letter in ascii_lowercase)]

TEXT_GRAPH = """
    words = Gather(table, input_ids)
    query = MatMul(words, square)
    keys = Transpose <perm = [0, 2, 1]> (words)
    products = MatMul(query, keys)
    attention = Softmax <axis = -1> (products)
    mixed = MatMul(attention, words)
    wide = MatMul(mixed, widening)
    bent = Erf(wide)
    narrow = MatMul(bent, narrowing)
    {output} = Add(narrow, words)
"""
IMAGE_GRAPH = """
    size = Constant <value_ints = [0, -1]> ()
    flat = Reshape(pixels, size)
    wide = MatMul(flat, pixel_matrix)
    features = Erf(wide)
"""


def weights(seed: int = 0) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(seed)
    shapes = {
        "table": (len(VOCABULARY), WIDTH),
        "square": (WIDTH, WIDTH),
        "widening": (WIDTH, 4 * WIDTH),
        "narrowing": (4 * WIDTH, WIDTH),
        "pixel_matrix": (5 * 6 * 3, WIDTH),
    }
    return {name: rng.normal(size=size).astype(np.float32) for name, size in shapes.items()}


def write_model(path: Path, text: str, constants: Mapping[str, NDArray[Any]]) -> str:
    """Write an ONNX model: its signature and lines, and those of the constants that it names."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    for name, value in constants.items():
        if name in text:
            model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    path.write_bytes(model.SerializeToString())
    return str(path)


def write_text_model(folder: Path, name: str = "model.onnx", seed: int = 0) -> str:
    """A sentence model: one layer of attention without a mask, a vector for each token."""
    lines = TEXT_GRAPH.format(output="vectors")
    signature = f"text (int64[n, m] input_ids, int64[n, m] attention_mask)\
        => (float[n, m, {WIDTH}] vectors)"
    return write_model(folder / name, f"{signature} {{{lines}}}", weights(seed))


def write_image_model(folder: Path, name: str = "image.onnx") -> str:
    """A model of images of 5 x 6 pixels and 3 channels, channels first."""
    signature = f"image (float[n, 3, 5, 6] pixels) => (float[n, {WIDTH}] features)"
    return write_model(folder / name, f"{signature} {{{IMAGE_GRAPH}}}", weights())


def write_table(folder: Path, name: str = "table.safetensors", **changed: Any) -> str:
    tensors = {"vectors": weights()["table"], **changed}
    kept = {key: value for key, value in tensors.items() if value is not None}
    (folder / name).write_bytes(safetensors.save(kept))
    return str(folder / name)


def write_tokenizer(folder: Path, name: str = "tokenizer.json") -> str:
    """A tokenizer of words and letters, which the file also asks to pad: that must not happen."""
    numbered = {word: number for number, word in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordPiece(numbered, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.enable_padding(length=32)
    tokenizer.save(str(folder / name))
    return str(folder / name)
