"""MNIST, each image scaled to norm 1 at most, or records of the same shape to stand in for it."""

import gzip
import os
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.features import clip_rows

TRAIN, TEST, D, K = 60_000, 10_000, 784, 10


class Part(NamedTuple):
    """Records: float32 rows, and the class of each."""

    X: NDArray[np.float32]
    y: NDArray[np.intp]


class Data(NamedTuple):
    """Where the records come from, those to learn from and those to test on."""

    name: str
    train: Part
    test: Part


@cache
def images() -> Data:
    """MNIST from $TIDEGATE_DATA/mnist, as its authors publish it; synthetic if that is not set."""
    folder = os.environ.get("TIDEGATE_DATA")
    if not folder:
        return Data("synthetic", *_mixture())
    mnist = Path(folder) / "mnist"
    return Data("MNIST", _read(mnist, "train"), _read(mnist, "t10k"))


def _read(mnist: Path, part: str) -> Part:
    pixels = gzip.decompress((mnist / f"{part}-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((mnist / f"{part}-labels-idx1-ubyte.gz").read_bytes())
    rows = np.frombuffer(pixels, np.uint8, offset=16).reshape(-1, D)
    return Part(_scaled(rows), np.frombuffer(labels, np.uint8, offset=8).astype(np.intp))


def _mixture() -> tuple[Part, Part]:
    """Ten noisy shapes, drawn with a fixed seed."""
    rng = np.random.default_rng(0)
    y = rng.integers(K, size=TRAIN + TEST)
    X = np.abs(rng.normal(size=(K, D)).astype(np.float32))[y]
    X += np.abs(3 * rng.standard_normal(size=X.shape, dtype=np.float32))
    X = _scaled(X)
    return Part(X[:TRAIN], y[:TRAIN]), Part(X[TRAIN:], y[TRAIN:])


def _scaled(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Each row by its own norm, far outside the ball or not: no other record has a say."""
    return np.asarray(clip_rows(rows.astype(np.float32), 1.0))
