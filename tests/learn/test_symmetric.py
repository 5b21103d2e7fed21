"""Matrices, computed by operations that give the same numbers on every machine."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tidegate.learn.exact import eigen, product, solved

seeds, sizes = st.integers(0, 2**32), st.integers(1, 24)


def covariance(seed: int, d: int, least: float = 0.0) -> NDArray[np.float64]:
    """A random symmetric matrix with eigenvalues of very different sizes."""
    rng = np.random.default_rng(seed)
    turned: Any = np.linalg.qr(rng.normal(size=(d, d)))[0]
    found = (turned * (least + 10.0 ** rng.uniform(-6, 1, size=d))) @ turned.T
    return np.asarray((found + found.T) / 2)


@given(seeds, sizes)
def test_eigenvalues_are_those_of_a_library(seed: int, d: int) -> None:
    matrix = covariance(seed, d)
    values, vectors = eigen(matrix)
    size = float(np.abs(matrix).max())
    np.testing.assert_allclose(np.sort(values), np.linalg.eigvalsh(matrix), atol=1e-12 * d * size)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(d), atol=1e-12 * d)
    np.testing.assert_allclose((vectors * values) @ vectors.T, matrix, atol=1e-12 * d * size)


def test_matrices_that_are_special() -> None:
    for matrix in (np.zeros((3, 3)), np.eye(4), np.ones((5, 5)), np.full((2, 2), 1e-300)):
        values, vectors = eigen(matrix)
        expected = np.linalg.eigvalsh(matrix)
        np.testing.assert_allclose(np.sort(values), expected, atol=1e-14)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(matrix)), atol=1e-14)


@given(seeds, sizes, st.integers(1, 5))
def test_equations_are_solved(seed: int, d: int, columns: int) -> None:
    matrix = covariance(seed, d, least=0.01)
    wanted = np.random.default_rng(seed).normal(size=(d, columns))
    found = solved(matrix, product(matrix, wanted))
    np.testing.assert_allclose(found, wanted, atol=1e-8)
    np.testing.assert_allclose(product(matrix, wanted), matrix @ wanted, atol=1e-12)
