"""Real records, where TIDEGATE_DATA names a folder that has them."""

import gzip
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.data_sets import data_set
from tidegate import ApproxDP, ContinualClassifier, PrivateClassifier
from tidegate.features import HashedText

BUDGET = ApproxDP(1.0, 1e-5)


def mnist(kind: str, most: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """The first images, each scaled to norm 1 by itself."""
    with gzip.open(data_set("mnist", f"{kind}-images-idx3-ubyte.gz")) as images:
        X = np.frombuffer(images.read(16 + most * 784), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(data_set("mnist", f"{kind}-labels-idx1-ubyte.gz")) as labels:
        y = np.frombuffer(labels.read(8 + most), np.uint8, offset=8)
    norms = np.linalg.norm(X.astype(np.float32), axis=1, keepdims=True)
    return (X / norms).astype(np.float32), y.astype(int)


@pytest.mark.thorough
def test_defaults_learn_digits() -> None:
    """Repeatable noise, so nothing varies; fresh noise gave 0.857 with a spread of about 0.01."""
    train, test = mnist("train", 8192), mnist("t10k", 4000)
    one = PrivateClassifier(budget=BUDGET, classes=range(10), norm=1.0, not_private_seed=1)
    assert one.fit(*train).score(*test) > 0.8
    many = ContinualClassifier(
        budget=BUDGET, block=4096, step=1024, classes=range(10), norm=1.0, not_private_seed=1
    )
    assert many.partial_fit(*train).score(*test) > 0.7
    assert len(many.releases_) == 5


def test_defaults_learn_titles() -> None:
    """Better than always naming the archive that is most common among what follows."""
    with gzip.open(data_set("arxiv", "titles-1993-1996.tsv.gz"), "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines][:20_000]
    archives = sorted({"hep-th", "hep-ph", "cond-mat", "astro-ph", "gr-qc"})
    known = [row for row in rows if row[2] in archives]
    titles, y = [row[3] for row in known], [row[2] for row in known]
    half = len(known) // 2
    clf = PrivateClassifier(
        budget=BUDGET,
        classes=archives,
        norm=1.0,
        features=HashedText(n_features=512, words=(1, 1), characters=None),
        not_private_seed=1,
    ).fit(titles[:half], y[:half])
    most_common = max(y[half:].count(archive) for archive in archives) / (len(known) - half)
    assert clf.score(titles[half:], y[half:]) > most_common + 0.1
    assert clf.quarantined_ == 0
