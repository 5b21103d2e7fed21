"""A small stream for studies: blobs that are easily told apart."""

import numpy as np

from tidegate.compare.labelled import Labelled, LabelledStream


def blobs(seed: int = 0, *, n: int = 400, classes: int = 2) -> LabelledStream:
    rng = np.random.default_rng(seed)
    turns = 2 * np.pi * np.arange(classes) / classes
    centers = 0.6 * np.stack([np.cos(turns), np.sin(turns)], axis=1)

    def drawn(size: int) -> Labelled:
        y = rng.integers(classes, size=size)
        return Labelled(X=centers[y] + rng.uniform(-0.2, 0.2, size=(size, 2)), y=y)

    test = drawn(100)
    return LabelledStream(records=drawn(n), classes=classes, norm=1.0, test=lambda _: test)
