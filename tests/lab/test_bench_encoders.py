"""MiniLM as the benchmark writes it: BERT, compared with a naive one on made-up weights."""

import json
from math import erf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tidegate_lab.bench.minilm import write_minilm

WIDTH, HEADS, LAYERS, WORDS, PLACES = 8, 2, 2, 11, 7
SETTINGS = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS}

Floats = NDArray[Any]


def made_up() -> dict[str, Floats]:
    rng = np.random.default_rng(5)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (WORDS, WIDTH),
        "embeddings.position_embeddings.weight": (PLACES, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "embeddings.LayerNorm.weight": (WIDTH,),
        "embeddings.LayerNorm.bias": (WIDTH,),
    }
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        dense = {
            **{f"{at}.attention.self.{part}": (WIDTH, WIDTH) for part in ("query", "key", "value")},
            f"{at}.attention.output.dense": (WIDTH, WIDTH),
            f"{at}.intermediate.dense": (3 * WIDTH, WIDTH),
            f"{at}.output.dense": (WIDTH, 3 * WIDTH),
        }
        for name, shape in dense.items():
            shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
        for name in (f"{at}.attention.output.LayerNorm", f"{at}.output.LayerNorm"):
            shapes |= {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def naive(weights: dict[str, Floats], ids: list[int]) -> Floats:
    """BERT on one text, as its authors describe it, in float64."""
    known = {name: value.astype(np.float64) for name, value in weights.items()}

    def dense(x: Floats, at: str) -> Floats:
        return np.asarray(x @ known[f"{at}.weight"].T + known[f"{at}.bias"])

    def normal(x: Floats, at: str) -> Floats:
        scaled = (x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True)
        return np.asarray(scaled * known[f"{at}.weight"] + known[f"{at}.bias"])

    x = known["embeddings.word_embeddings.weight"][ids]
    x = x + known["embeddings.position_embeddings.weight"][: len(ids)]
    x = normal(x + known["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        at, size = f"encoder.layer.{layer}", WIDTH // HEADS
        heads = []
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            q, k, v = (
                dense(x, f"{at}.attention.self.{name}")[:, part]
                for name in ("query", "key", "value")
            )
            weighed = np.exp(q @ k.T / sqrt(size))
            heads.append(weighed / weighed.sum(axis=1, keepdims=True) @ v)
        mixed = dense(np.hstack(heads), f"{at}.attention.output.dense")
        y = normal(x + mixed, f"{at}.attention.output.LayerNorm")
        wide = dense(y, f"{at}.intermediate.dense")
        gelu = wide * (1 + np.vectorize(erf)(wide / sqrt(2))) / 2
        x = normal(y + dense(gelu, f"{at}.output.dense"), f"{at}.output.LayerNorm")
    return np.asarray(x)


@pytest.fixture
def session(tmp_path: Path) -> Any:
    (tmp_path / "config.json").write_text(json.dumps(SETTINGS))
    save_file(made_up(), tmp_path / "model.safetensors")
    write_minilm(tmp_path, tmp_path / "m.onnx")
    return onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("ids", [[3], [1, 2, 10, 4], [0, 1, 2, 3, 4, 5, 6]])
def test_the_network_is_bert(session: Any, ids: list[int]) -> None:
    inputs = {"input_ids": np.array([ids]), "attention_mask": np.ones((1, len(ids)), np.int64)}
    (found,) = session.run(None, inputs)
    np.testing.assert_allclose(found[0], naive(made_up(), ids), atol=1e-4)


def test_tokens_that_are_masked_do_not_count(session: Any) -> None:
    ids, mask = np.array([[1, 2, 3, 9, 9]]), np.array([[1, 1, 1, 0, 0]])
    (found,) = session.run(None, {"input_ids": ids, "attention_mask": mask})
    np.testing.assert_allclose(found[0, :3], naive(made_up(), [1, 2, 3]), atol=1e-4)
