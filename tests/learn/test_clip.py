"""Clipping is judged by the exact norm of the stored numbers, in rational arithmetic."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tests.learn.problems import seeds
from tidegate.checks import InvalidValueError
from tidegate.learn import clip_rows


def exact_squares(X: Any) -> list[Fraction]:
    return [sum((Fraction(float(v)) ** 2 for v in row), Fraction(0)) for row in X]


@given(
    seeds,
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([1.0, 0.1, 3e-29, 1e29, 1 / 3]),
    st.floats(-1e-7, 1e-7),
)
def test_exact_norm_is_within(seed: int, dtype: type, norm: float, offset: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, rng.integers(1, 40)))
    X *= (norm / np.linalg.norm(X, axis=1) * (1 + offset))[:, None]
    X[:3] *= np.array([[1e5], [0], [1e-5]])
    X = X.astype(dtype)
    clipped = clip_rows(X, norm)
    assert clipped.dtype == dtype
    assert max(exact_squares(clipped)) <= Fraction(norm) ** 2
    np.testing.assert_allclose(clipped[4:], X[4:], rtol=1e-6)
    np.testing.assert_array_equal(clipped[1:3], X[1:3])
    np.testing.assert_array_equal(clip_rows(clipped, norm), clipped)
    rows = clip_rows(sparse.csr_array(X), norm)
    np.testing.assert_allclose(rows.toarray(), clipped, rtol=1e-6)
    assert max(exact_squares(rows.toarray())) <= Fraction(norm) ** 2


def test_huge_rows_and_duplicates() -> None:
    clipped = clip_rows(np.array([[1.7e308, 1.7e308], [1e200, 0]]), 1.0)
    assert max(exact_squares(clipped)) <= 1
    twice = sparse.csr_array((np.array([0.8, 0.8]), (np.array([0, 0]), np.array([1, 1]))), (1, 2))
    assert clip_rows(twice, 1.0).toarray()[0, 1] == pytest.approx(1)
    with pytest.raises(InvalidValueError, match="norm must be"):
        clip_rows(clipped, 0.0)
