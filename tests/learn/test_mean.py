from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tidegate.data.records import Records
from tidegate.data.rows import Rows
from tidegate.learn.exact import exact_bits, truncate
from tidegate.learn.learner import Pull, Terms, Weights
from tidegate.learn.mean import SQRT2, HistogramPerturbation, MeanPerturbation
from tidegate.privacy.budget import Allowance
from tidegate.privacy.noise import NotPrivateBits

pull = Pull(norm=1.0, regularization=0.5)
ample = Allowance("mu", 1e9)


def vectors(X: Rows) -> Records:
    n = X.shape[0]
    return Records(X, np.zeros(n, np.intp), np.ones(n, bool))


def ball(seed: int, n: int) -> Weights:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return np.asarray(X / (1.001 * np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))))


@given(st.integers(0, 2**32), st.integers(1, 300))
def test_sums_are_exact_in_any_order(seed: int, n: int) -> None:
    X = truncate(ball(seed, n), exact_bits(n, 1.0))
    order = np.random.default_rng(seed + 1).permutation(n)
    exact = [sum((Fraction(float(v)) for v in column), Fraction(0)) for column in X.T]
    for total in (X.sum(axis=0), X[order].sum(axis=0), np.ones(n) @ X):
        assert [Fraction(float(v)) for v in total] == exact


@pytest.mark.parametrize("prior", [None, np.array([0.5, 0.5, 0.5])])
def test_the_mean_is_drawn_to_its_prior(prior: Weights | None) -> None:
    X = ball(1, 1000)
    terms = Terms(allowance=ample, prior=prior)
    found = MeanPerturbation().fit(pull, terms, vectors(X), NotPrivateBits(1))
    expected = X.mean(axis=0) if prior is None else (X.mean(axis=0) + 0.5 * prior) / 1.5
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_sparse_and_dense_means_agree_bit_for_bit() -> None:
    X = ball(2, 100)
    dense, csr = (
        MeanPerturbation().fit(pull, Terms(allowance=ample), vectors(rows), NotPrivateBits(3))
        for rows in (X, sparse.csr_array(X))
    )
    assert np.array_equal(dense, csr)


def test_float32_records_are_summed_exactly() -> None:
    """In float32 the sum of many small numbers after a large one would lose them all."""
    X = np.full((2**13, 1), 2.0**-24, np.float32)
    X[0] = 1
    terms = Terms(allowance=Allowance("mu", 1e15))
    found = MeanPerturbation().fit(pull, terms, vectors(X), NotPrivateBits(1))
    assert found[0] * 2**13 == pytest.approx(1 + (2**13 - 1) * 2.0**-24, abs=1e-9)


def test_slots_in_no_category_count_in_none() -> None:
    data = Records(np.zeros((8, 0)), np.array([0, 0, 1, 0, 0, 0, 0, 0]), np.arange(8) < 4)
    found = HistogramPerturbation(3).fit(pull, Terms(allowance=ample), data, NotPrivateBits(1))
    np.testing.assert_allclose(found, [3 / 8, 1 / 8, 0], atol=1e-6)


def test_scales_are_the_diameters() -> None:
    assert MeanPerturbation().scale(pull, Allowance("epsilon", 0.5)) == 4
    assert HistogramPerturbation(9).scale(pull, Allowance("epsilon", 0.5)) == 4
    assert HistogramPerturbation(9).scale(pull, Allowance("mu", 1.0)) == SQRT2
    assert Fraction(SQRT2) ** 2 > 2 > Fraction(np.nextafter(SQRT2, 0)) ** 2
