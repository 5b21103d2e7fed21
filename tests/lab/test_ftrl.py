"""DP-FTRL: the factorisation, its noise and what one record can move."""

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import toeplitz

from tests.lab.blobs import blobs
from tidegate import ApproxDP
from tidegate.checks import InvalidValueError
from tidegate.compare.results import measure
from tidegate_lab.methods.ftrl import DPFTRL, correlated, independent_noise, inverse_root, root
from tidegate_lab.methods.times import Times

BUDGET = ApproxDP(1.0, 1e-6)
TIMES = Times(first=64, step=64)


def lower(column: np.ndarray) -> np.ndarray:
    return np.asarray(toeplitz(column, np.zeros_like(column)))


@pytest.mark.parametrize("n", [1, 2, 3, 17, 256])
def test_the_factor_is_the_root_of_the_prefix_sums(n: int) -> None:
    C, inverse = lower(root(n, 1.0)), lower(inverse_root(n, 1.0))
    assert np.allclose(C @ C, np.tri(n), atol=1e-12)
    assert np.allclose(C @ inverse, np.eye(n), atol=1e-12)


def decaying(n: int, keep: float) -> np.ndarray:
    """The matrix of decaying sums, written out."""
    return np.array([[keep ** (t - s) if s <= t else 0.0 for s in range(n)] for t in range(n)])


KEEPS = st.lists(st.floats(0, 1), min_size=1, max_size=3)


def sums(n: int, keeps: Sequence[float]) -> np.ndarray:
    """The matrix of decaying sums, written out; of several factors, sums of sums."""
    one = [
        np.array([[q ** (t - s) if s <= t else 0.0 for s in range(n)] for t in range(n)])
        for q in keeps
    ]
    return np.asarray(reduce(np.matmul, one))


@given(n=st.integers(1, 40), keeps=KEEPS)
def test_the_factor_is_the_root_of_decaying_sums(n: int, keeps: list[float]) -> None:
    C, inverse = lower(root(n, *keeps)), lower(inverse_root(n, *keeps))
    assert np.allclose(C @ C, sums(n, keeps), rtol=1e-10)
    assert np.allclose(C @ inverse, np.eye(n), atol=1e-10)


@given(n=st.integers(1, 40), keeps=KEEPS, seed=st.integers(0, 2**32))
def test_correlated_noise_is_the_inverse_times_the_noise(
    n: int, keeps: list[float], seed: int
) -> None:
    Z = np.random.default_rng(seed).normal(size=(n, 3))
    assert np.allclose(lower(root(n, *keeps)) @ correlated(Z, *keeps), Z, atol=1e-9)


@pytest.mark.parametrize("n", [1, 5, 64])
@pytest.mark.parametrize("keeps", [(1.0,), (0.7,), (0.7, 0.8, 0.3)])
def test_the_noise_has_the_covariance_of_the_factorisation(
    n: int, keeps: tuple[float, ...]
) -> None:
    # What a linear map does to independent noise is the map times its transpose.
    map_ = correlated(np.eye(n), *keeps)
    C = lower(root(n, *keeps))
    assert np.allclose(map_ @ map_.T, np.linalg.inv(C.T @ C), atol=1e-10)
    # In the sums the variance is that of C: logarithmic, or bounded.
    summed = sums(n, keeps) @ map_
    assert np.allclose(np.diag(summed @ summed.T), np.cumsum(root(n, *keeps) ** 2))


@pytest.mark.thorough
@settings(max_examples=30)
@given(batches=st.integers(1, 300), forget=st.floats(0.03, 0.9), matched=st.booleans())
def test_with_forgetting_the_sensitivity_holds_for_a_stream_that_never_ends(
    batches: int, forget: float, matched: bool
) -> None:
    method = DPFTRL(budget=BUDGET, times=TIMES, batch=64, forget=forget, matched=matched)
    known = method.sensitivity(batches)
    assert known == method.sensitivity(1)  # it does not depend on a length known in advance
    longest = 2 * np.linalg.norm(root(6000, *method.keeps))
    assert longest <= known <= longest * (1 + 1e-8)


@settings(max_examples=30)
@given(
    n=st.integers(1, 30),
    batch=st.integers(0, 29),
    forget=st.floats(0.03, 0.9),
    matched=st.booleans(),
)
def test_with_forgetting_no_replaced_record_moves_the_release_further(
    n: int, batch: int, forget: float, matched: bool
) -> None:
    method = DPFTRL(budget=BUDGET, times=TIMES, batch=32, forget=forget, matched=matched)
    rows = np.zeros((n, 3))
    rows[batch % n] = [0, 2, 0]  # g becomes -g
    assert np.linalg.norm(lower(root(n, *method.keeps)) @ rows) <= method.sensitivity(n)


@pytest.mark.parametrize("forget", [0.0, 0.2])
def test_matched_noise_is_correlated_for_what_is_released(forget: float) -> None:
    """With nothing but noise, releases are rate times C Z: momentum and averages included."""
    stream = blobs(n=256)
    stream.records.X[:] = 0
    method = DPFTRL(budget=BUDGET, times=TIMES, batch=32, forget=forget, matched=True)
    released = [model.weights.reshape(-1) for _, model in method.models(stream, seed=5)]
    rate = method.rate / (stream.task().loss.smoothness(1.0) * 32)
    sigma = method.clip * stream.task().loss.lipschitz(1.0) * method.sensitivity(8) / BUDGET.mu
    Z = independent_noise((8, released[0].size), sigma, seed=5)
    expected = -rate * (1 - method.average) * lower(root(8, *method.keeps)) @ Z
    assert np.allclose(released, expected[1::2], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("batch", [16, 32, 64])
def test_without_anything_to_learn_weights_fade_by_the_step(batch: int) -> None:
    stream = blobs(n=128)
    stream.records.X[64:] = 0
    method = DPFTRL(
        budget=ApproxDP(1e5, 1e-6),
        times=TIMES,
        batch=batch,
        forget=0.3,
        momentum=0.0,
        average=0.0,
    )
    before, after = (model.weights for _, model in method.models(stream, seed=1))
    assert np.linalg.norm(before) > 0.1
    assert np.allclose(after, 0.7 * before, atol=0.05 * np.linalg.norm(before))


@settings(max_examples=30)
@given(n=st.integers(1, 30), data=st.data())
def test_no_replaced_record_moves_the_release_by_more_than_the_sensitivity(
    n: int, data: st.DataObject
) -> None:
    method = DPFTRL(budget=BUDGET, times=TIMES, batch=1)
    C, moves = lower(root(n, 1.0)), []
    for batch in range(n):
        # The record's clipped gradient g becomes -g: as far as two vectors of norm 1 can be apart.
        g = np.array(data.draw(st.lists(st.floats(0.1, 1), min_size=3, max_size=3)))
        rows = np.zeros((n, 3))
        rows[batch] = 2 * g / np.linalg.norm(g)
        moves.append(np.linalg.norm(C @ rows))
    assert max(moves) <= method.sensitivity(n)
    assert max(moves) >= method.sensitivity(n) * (1 - 1e-9)  # and it is attained
    assert method.sensitivity(n) >= 2  # replace-one: never below twice the clip


def test_neighbours_with_the_same_noise_differ_by_what_one_record_adds() -> None:
    """The first batch sees no effect of its own noise: its gradient moves by 2 clips at most."""
    stream = blobs(n=64)
    other = blobs(n=64)
    other.records.y[5] = 1 - other.records.y[5]
    method = DPFTRL(budget=BUDGET, times=TIMES, batch=64, momentum=0.0, average=0.0)
    w, v = (next(method.models(each, seed=3))[1].weights for each in (stream, other))
    task = stream.task()
    clip = method.clip * task.loss.lipschitz(1.0)
    rate = method.rate / (task.loss.smoothness(1.0) * 64)
    assert 0 < np.linalg.norm(w - v) <= rate * 2 * clip * (1 + 1e-9)


def test_the_noise_of_a_release_has_the_promised_deviation() -> None:
    """With one batch and no signal a weight is rate * sigma * N(0, 1).

    The sum of n squares of N(0, 1) is off by more than 2 sqrt(n x) + 2 x with a probability of at
    most 2 exp(-x) (Laurent and Massart): below 1e-6 for x = 15.
    """
    stream = blobs(n=64)
    stream.records.X[:] = 0
    method = DPFTRL(budget=BUDGET, times=TIMES, batch=64, average=0.0)
    rate = method.rate / (stream.task().loss.smoothness(1.0) * 64)
    sigma = method.clip * stream.task().loss.lipschitz(1.0) * 2 / BUDGET.mu
    drawn = np.array([next(method.models(stream, seed))[1].weights for seed in range(100)])
    squares, n = float(np.sum((drawn / (rate * sigma)) ** 2)), drawn.size
    assert abs(squares - n) <= 2 * math.sqrt(15 * n) + 30


def test_it_learns_and_releases_in_time() -> None:
    method = DPFTRL(budget=ApproxDP(100.0, 1e-6), times=Times(first=128, step=64), batch=32)
    curve = measure(method, blobs(n=512, classes=3), range(2))
    assert curve.at == tuple(range(128, 513, 64))
    assert curve.runs[:, -1].min() > 0.9


def test_releases_fall_on_batches() -> None:
    with pytest.raises(InvalidValueError, match="batch must be a divisor"):
        DPFTRL(budget=BUDGET, times=TIMES, batch=48)
