import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.data_sets import data_set
from tidegate.compare.labelled import Labelled, LabelledStream
from tidegate.compare.results import measure
from tidegate.learn import minimize
from tidegate.learn.loss import Softmax
from tidegate.schedule import (
    Basic,
    Continual,
    Independent,
    MultiResolution,
    Schedule,
    SlidingWindow,
)
from tidegate_lab.paper.datasets import mnist
from tidegate_lab.paper.paper_method import (
    AsPublished,
    lipschitz,
    minibatches,
    pixel_values,
    word_components,
)

L = 0.125


def clusters(seed: int) -> LabelledStream:
    rng = np.random.default_rng(seed)

    def drawn(n: int) -> Labelled:
        y = rng.integers(3, size=n)
        return Labelled(X=3 * np.eye(3)[y] + rng.uniform(-1, 1, size=(n, 3)), y=y)

    test = drawn(100)
    return LabelledStream(records=drawn(112), classes=3, norm=5.0, test=lambda _: test)


@pytest.mark.parametrize(
    ("schedule", "base", "update"),
    [
        (MultiResolution(block=16), 4 / 16, None),
        (Continual(block=32, step=16), 4 / 32, 4 / 16),
        (Basic(block=32, step=16), 4 / 32, 4 / 16),
        (Independent(step=16), 4 / 16, None),
        (SlidingWindow(window=7 * 16, step=16), 6 / (4 * 16), 12 / 16),
    ],
)
def test_the_noise_is_that_of_the_text(
    schedule: Schedule, base: float, update: float | None
) -> None:
    method = AsPublished(schedule=schedule, regularization=2.0, epsilon=0.5)
    due = [schedule.steps.fit(fit) for now in range(1, 8) for fit in schedule.due(now)]
    scales = {fit.role: method.noise_scale(fit, L) for fit in due}
    expected = {"base": base} if update is None else {"base": base, "update": update}
    assert scales == {role: factor * L / (2.0 * 0.5) for role, factor in expected.items()}


def test_a_fit_is_the_descent_of_the_text() -> None:
    """Against the same in double precision, record by record."""
    stream = clusters(0)
    X, y = stream.records.X, stream.records.y
    method = AsPublished(schedule=Independent(step=16), regularization=0.3, steps=20, batch=8)
    start = np.random.default_rng(1).normal(size=(3, 3))
    expected = start.copy()
    for i, batch in enumerate(minibatches(len(y), 20, 8, np.random.default_rng(2)), start=1):
        slope = 2 * 0.3 * (expected - start)
        for record in batch:
            odds = np.exp(X[record] @ expected)
            slope += np.outer(X[record], odds / odds.sum() - np.eye(3)[y[record]]) / 8
        expected -= slope / (10 * i)
    found = method.descend(
        X.astype(np.float32),
        np.eye(3, dtype=np.float32)[y],
        start.astype(np.float32),
        np.random.default_rng(2),
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_constant_of_the_text_is_far_below_the_true_one() -> None:
    m, classes = 1024, 10
    rows = np.ones((m, 1), np.float32)
    ratio = Softmax(classes).lipschitz(1.0) / lipschitz(rows, classes)
    assert ratio == pytest.approx(np.sqrt(2) / 0.45 * np.sqrt(m), rel=1e-6)


def test_what_the_text_calls_epsilon_is_hundreds_of_times_more() -> None:
    """An update of 1024 images, lambda = 1, epsilon = 0.1: its text says that it costs 0.05.

    Independent Laplace noise of scale b tells two minimisers apart by up to their L1 distance
    over b. One image is replaced by another, nothing is contrived.
    """
    images, labels = mnist(data_set("mnist"))[0]
    drawn = np.random.default_rng(0).permutation(len(labels))[:1034]
    rows, y = pixel_values(images[drawn]), labels[drawn]

    def minimiser(records: NDArray[np.intp]) -> NDArray[np.float64]:
        X = rows[records].astype(np.float64)
        return minimize("softmax", X, y[records], regularization=1.0, tolerance=1e-8).weights

    schedule = Continual(block=8192, step=1024)
    method = AsPublished(schedule=schedule, regularization=1.0, epsilon=0.1)
    scale = method.noise_scale(schedule.steps.fit(schedule.due(9)[0]), lipschitz(rows[:1024], 10))
    span = np.arange(1024)
    one = minimiser(span)
    others = (minimiser(np.append(span[1:], other)) for other in range(1024, 1034))
    losses = [np.abs(one - other).sum() / scale for other in others]
    assert np.median(losses) > 200 * 0.05


@pytest.mark.thorough
def test_without_noise_it_learns_and_with_it_says_that_it_is_not_private() -> None:
    schedule = SlidingWindow(window=48, step=16)
    clear = AsPublished(schedule=schedule, regularization=0.1)
    noisy = AsPublished(schedule=schedule, regularization=0.1, epsilon=1e-6)
    curve = measure(clear, clusters(0), range(2))
    assert curve.at == (48, 64, 80, 96, 112)
    assert curve.runs.min() > 0.9
    # Noise of this size leaves nothing: one model in three guesses right, and no run is like it.
    assert measure(noisy, clusters(0), range(2)).gain < 0.9
    assert not clear.private
    assert not noisy.private
    assert "NOT PRIVATE" in noisy.name


def test_the_features_of_the_text() -> None:
    rows = pixel_values(np.full((2, 28, 28), 255, np.uint8))
    assert rows.shape == (2, 785)
    assert (rows == 1).all()
    reduced = word_components(["ebb tide", "low tide", "high tide", "no tide"], dimensions=2)
    assert reduced.shape == (4, 3)
    np.testing.assert_allclose(reduced[:, :2].mean(axis=0), 0, atol=1e-6)


@pytest.mark.thorough
def test_the_product_does_not_load_it() -> None:
    code = "import sys, tidegate, tidegate.gate; sys.exit('tidegate_lab' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
