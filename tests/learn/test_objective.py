"""Passes against plain formulas and differences; the rounding bound against long doubles."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tests.learn.problems import losses, objective, records, seeds, usable, value
from tidegate.data.records import Records
from tidegate.learn import Loss, Softmax
from tidegate.learn import objective as module
from tidegate.learn.objective import Bounds, Objective

sizes = st.tuples(st.integers(1, 30), st.integers(1, 6))


def point(F: Objective, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=F.center.shape)


@given(losses, sizes, seeds)
def test_derivatives_match_differences(loss: Loss, size: tuple[int, int], seed: int) -> None:
    X, y = records(loss, *size, seed)
    mask = np.random.default_rng(seed).integers(2, size=size[0]).astype(np.bool_)
    F = Objective(Records(X, y, mask), loss, regularization=0.1, norm=1.0)
    w, v, t = point(F, seed), point(F, seed + 1), 1e-5
    slope = (value(F, w + t * v) - value(F, w - t * v)) / (2 * t)
    assert np.vdot(F.gradient(w), v) == pytest.approx(slope, abs=1e-3)
    u = point(F, seed + 2)
    assert np.vdot(v, F.precondition(v)) > 0
    assert np.vdot(u, F.precondition(v)) == pytest.approx(np.vdot(v, F.precondition(u)), abs=1e-9)


@given(losses, sizes, seeds)
def test_storage_order_and_chunks_do_not_matter(
    loss: Loss, size: tuple[int, int], seed: int
) -> None:
    X, y = records(loss, *size, seed)
    X = X.astype(np.float32)
    options: dict[str, Any] = {"regularization": 0.1, "norm": 1.0}
    F = Objective(usable(X, y), loss, **options)
    w = point(F, seed)
    order = np.random.default_rng(seed).permutation(size[0])
    expected = F.gradient(w)
    for other in (
        Objective(usable(X.astype(np.float64), y), loss, **options),
        Objective(usable(sparse.csr_array(X), y), loss, **options),
        Objective(usable(X[order], y[order]), loss, **options),
    ):
        np.testing.assert_allclose(other.gradient(w), expected, atol=1e-13)
        np.testing.assert_allclose(other.gradient(w, draft=True), expected, atol=1e-4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LARGEST_CHUNK", 3)
        chunked = Objective(usable(sparse.csr_array(X), y), loss, **options)
        np.testing.assert_allclose(chunked.gradient(w), expected, atol=1e-13)


@given(losses, sizes, seeds)
def test_rounding_bound_holds(loss: Loss, size: tuple[int, int], seed: int) -> None:
    X, y = records(loss, *size, seed)
    F = Objective(usable(X, y), loss, regularization=0.1, norm=1.0)
    w = point(F, seed)
    w /= np.linalg.norm(w)
    wide = w.astype(np.longdouble)
    data = loss.residual((X.astype(np.longdouble) @ wide).T, y) @ X.astype(np.longdouble)
    exact = data.T / X.shape[0] + 2 * np.longdouble(0.1) * wide
    bound = Bounds(
        loss=loss, d=size[1], norm=1.0, regularization=0.1, center_norm=0.0, tolerance=1e-9
    ).rounding_bound
    assert 4 * np.linalg.norm(F.gradient(w) - exact) <= bound < 1e-10


def test_exact_pass_over_float32_makes_no_float64_copy_of_all_rows() -> None:
    F = objective(Softmax(3), 20_000, 50, 0)
    assert isinstance(F.records, Records)
    X, y = F.records.X, F.records.y
    G = Objective(usable(X.astype(np.float32), y), F.loss, regularization=0.1, norm=1.0)
    tracemalloc.start()
    G.gradient(G.center)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.25 * X.nbytes
