"""Projection and Fourier features against naive references and their promised averages.

Statistical thresholds are Hoeffding's for a false-alarm rate of 1e-6 a test; seeds are fresh.
"""

import math
import secrets
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from tidegate.data.maps.fourier import lattice_normals
from tidegate.data.maps.projection import SPREAD, signs
from tidegate.data.rows import exact_product
from tidegate.features import RandomFourier, RandomProjection

FALSE_ALARM = 1e-6
seeds = st.integers(0, 2**53)


def fresh_seed() -> int:
    return secrets.randbelow(2**53)


@given(
    rows=arrays(np.float64, (2, 6), elements=st.floats(-1e200, 1e200)),
    whole=arrays(np.float64, (6, 3), elements=st.integers(-(2**15), 2**15)),
)
def test_the_product_is_exact_up_to_rounding_the_rows(
    rows: NDArray[np.float64], whole: NDArray[np.float64]
) -> None:
    steps, step = exact_product(rows, whole, bits=15)
    for i, j in np.ndindex(2, 3):
        peak = Fraction(max(float(np.abs(rows[i]).max()), 2.0**-901))
        exact = sum(Fraction(a) * Fraction(b) for a, b in zip(rows[i], whole[:, j], strict=True))
        found = Fraction(float(steps[i, j])) * Fraction(float(step[i, 0]))
        # Half a step for each entry: 53 - 15 - 3 bits below a power of two at most twice the peak.
        assert abs(found - exact) <= peak * Fraction(2, 2**36) * int(np.abs(whole[:, j]).sum())


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 1000, 1024, 1025])
def test_the_largest_sum_stays_within_the_exact_integers(columns: int) -> None:
    rows = np.full((1, columns), np.nextafter(1.0, 0.0))
    steps, step = exact_product(rows, np.full((columns, 1), 2.0**15), bits=15)
    assert steps[0, 0] <= 2**53
    assert steps[0, 0] * step[0, 0] == columns * 2.0**15


@given(columns=st.integers(1, 50), components=st.integers(1, 40), seed=seeds)
def test_each_coordinate_is_spread_evenly(columns: int, components: int, seed: int) -> None:
    matrix = signs(columns, components, seed).toarray()
    assert set(np.unique(matrix)) <= {-1.0, 0.0, 1.0}
    assert (np.abs(matrix).sum(axis=1) == min(SPREAD, components)).all()


@given(rows=arrays(np.float64, (3, 20), elements=st.floats(-1e6, 1e6)), seed=seeds)
def test_projection_agrees_with_a_plain_product(rows: NDArray[np.float64], seed: int) -> None:
    naive = rows @ signs(20, 16, seed).toarray() / math.sqrt(SPREAD)
    found = RandomProjection(n_components=16, seed=seed).transform(rows)
    np.testing.assert_allclose(found, naive, atol=1e-11 * (1 + np.abs(rows).max()), rtol=0)


@pytest.mark.thorough
@pytest.mark.parametrize("components", [3, 8, 20])
def test_projection_keeps_inner_products_on_average(components: int) -> None:
    """Of (1, 1) and (1, -1), each of norm sqrt 2: their images' products lie within +-4."""
    trials, start = 4000, fresh_seed()
    rows = np.array([[1.0, 1.0], [1.0, -1.0]])
    grams = np.zeros((2, 2))
    for trial in range(trials):
        image: Any = RandomProjection(components, seed=start + trial).transform(rows)
        grams += image @ image.T / trials
    threshold = 8 * math.sqrt(math.log(2 * 3 / FALSE_ALARM) / (2 * trials))
    np.testing.assert_allclose(grams, 2 * np.eye(2), atol=threshold, rtol=0)


@given(rows=arrays(np.float64, (3, 5), elements=st.floats(-50, 50)), seed=seeds)
def test_fourier_agrees_with_plain_cosines(rows: NDArray[np.float64], seed: int) -> None:
    components, gamma = 6, 0.7
    angles = rows @ lattice_normals(5, components, seed) * 2.0**-12 * math.sqrt(2 * gamma)
    naive = np.hstack([np.cos(angles), np.sin(angles)]) / math.sqrt(components)
    found = RandomFourier(components, gamma=gamma, seed=seed).transform(rows)
    np.testing.assert_allclose(found, naive, atol=2 * math.pi * 2.0**-17, rtol=0)


@pytest.mark.parametrize("gamma", [0.1, 1.0])
@pytest.mark.parametrize("columns", [1, 30])
def test_fourier_products_approach_the_kernel(gamma: float, columns: int) -> None:
    """A mean of independent cosines in [-1, 1]; angles rounded to 2^-17 turns move it 1e-4."""
    components = 4096
    x, z = np.random.default_rng().uniform(-1, 1, size=(2, columns)) / math.sqrt(columns)
    a, b = RandomFourier(components, gamma=gamma, seed=fresh_seed()).transform([x, z])
    threshold = 2 * math.sqrt(math.log(2 / FALSE_ALARM) / (2 * components)) + 1e-4
    assert abs(a @ b - math.exp(-gamma * float((x - z) @ (x - z)))) <= threshold
    assert a @ a == pytest.approx(1, abs=1e-12)


def test_the_features_of_a_seed_are_those_of_earlier_releases() -> None:
    """A model is of use only with the features it was fitted on: these may never change."""
    rows = np.array([[1.0, -2.0, 0.5]])
    projected: Any = RandomProjection(n_components=3, seed=5).transform(rows)
    np.testing.assert_allclose(projected * math.sqrt(3), [[0.5, -1.5, -3.5]], rtol=1e-15)
    fourier: Any = RandomFourier(n_components=2, gamma=0.5, seed=5).transform(rows)
    expected = [
        [0.7069509238835507, -0.19720358848667618, -0.014845579146470746, 0.6790513564436623]
    ]
    np.testing.assert_allclose(fourier, expected, rtol=1e-12)
