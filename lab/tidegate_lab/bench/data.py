"""MNIST, each image scaled to norm 1 at most, or records of the same shape to stand in for it."""

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.features import clip_rows
from tidegate_lab.paper.datasets import mnist, pixels

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
    train, test = (Part(pixels(part.pixels), part.labels) for part in mnist(Path(folder) / "mnist"))
    return Data("MNIST", train, test)


def _mixture() -> tuple[Part, Part]:
    """Ten noisy shapes, drawn with a fixed seed."""
    rng = np.random.default_rng(0)
    y = rng.integers(K, size=TRAIN + TEST)
    X = np.abs(rng.normal(size=(K, D)).astype(np.float32))[y]
    X += np.abs(3 * rng.standard_normal(size=X.shape, dtype=np.float32))
    X = np.asarray(clip_rows(X, 1.0))
    return Part(X[:TRAIN], y[:TRAIN]), Part(X[TRAIN:], y[TRAIN:])
