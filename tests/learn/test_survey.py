"""Surveys: exact sums, sensitivities that are attained, and noise as stated."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array

from tidegate.checks import InvalidValueError
from tidegate.compute import Disk
from tidegate.data.records import Records, join
from tidegate.features import clip_rows
from tidegate.learn.survey import (
    Kinds,
    Survey,
    cells_of,
    lattice_bits,
    scales,
    sensitivity,
    settings,
    survey,
)
from tidegate.privacy.budget import Allowance, up
from tidegate.privacy.noise import NotPrivateBits

Floats = NDArray[np.float64]

EXACT = Allowance("mu", 1e9)
"""So much that the noise is far below what tests compare."""


def records(seed: int, n: int, d: int, *, norm: float = 1.0, sparse: bool = False) -> Records:
    rng = np.random.default_rng(seed)
    X: Any = clip_rows(rng.normal(size=(n, d)) * rng.uniform(0, 2 * norm, size=(n, 1)), norm)
    usable = rng.random(n) < 0.9
    X[~usable] = 0
    return Records(csr_array(X) if sparse else X, rng.integers(3, size=n) * usable, usable)


def weighted_cells(data: Records, classes: int = 3, *, pairs: bool = False) -> Floats:
    """The exact cells times their weights, in L2 or L1 the vector that noise of one scale hides."""
    cells = cells_of(data, norm=1.0, classes=classes, bits=26, pairs=pairs)
    weights = [1.0] * data.d + [math.sqrt(0.5)] * data.d + [0.5] * (classes + 1) + [1.0]
    return cells * (weights + [1.0] * (cells.size - len(weights)))


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 4), st.booleans())
def test_cells_equal_sums_of_fractions(seed: int, n: int, d: int, sparse: bool) -> None:
    data, bits = records(seed, n, d, norm=2.5, sparse=sparse), lattice_bits(n)
    dense: Any = data.X.toarray() if isinstance(data.X, csr_array) else data.X
    scale = 2.0**bits
    units = [
        [Fraction(math.trunc(x / 2.5 * (1 - 2.0**-50) * scale)) / Fraction(scale) for x in row]
        for row in dense.tolist()
    ]
    sums = [sum(column, Fraction(0)) for column in zip(*units, strict=True)]
    squares = [sum((u * u for u in column), Fraction(0)) for column in zip(*units, strict=True)]
    counts = [int(((data.y == k) & data.usable).sum()) for k in range(3)]
    unusable = int((~data.usable).sum())
    products = [
        sum((one * other for one, other in zip(units[i], units[j], strict=True)), Fraction(0))
        for units in [list(zip(*units, strict=True))]
        for i in range(d)
        for j in range(i + 1, d)
    ]
    found = cells_of(data, norm=2.5, classes=3, bits=bits, pairs=not sparse)
    expected = [*sums, *squares, *counts, unusable, sum(squares), *([] if sparse else products)]
    assert expected == list(map(Fraction, found))


@given(st.integers(0, 2**32), st.integers(2, 300), st.booleans())
def test_cells_do_not_depend_on_order_or_parts(seed: int, n: int, sparse: bool) -> None:
    data, bits = records(seed, n, 5, sparse=sparse), lattice_bits(n)
    shuffled = data.take(np.random.default_rng(seed).permutation(n))
    cells = partial(cells_of, norm=1.0, classes=3, bits=bits, pairs=not sparse)
    whole = cells(data)
    assert np.array_equal(whole, cells(shuffled))
    halves = sum(map(cells, (data.take(slice(0, n // 2)), data.take(slice(n // 2, None)))))
    assert np.array_equal(whole, halves)


def test_many_parts_give_the_same_survey() -> None:
    data = records(3, 1000, 7)
    found = [
        survey(parts, norm=1.0, classes=3, allowance=Allowance("mu", 0.1), bits=NotPrivateBits(1))
        for parts in (data, Disk(small=1).parts([data], data.form))
    ]
    assert np.array_equal(found[0].cells, found[1].cells)
    assert np.array_equal(found[0].pairs, found[1].pairs)


def test_sparse_rows_give_the_same_survey() -> None:
    dense = records(3, 500, 7)
    sparse = Records(csr_array(dense.X), dense.y, dense.usable)
    one, other = (cells_of(each, norm=1.0, classes=3, bits=20) for each in (dense, sparse))
    assert np.array_equal(one, other)


def test_an_unusable_slot_is_in_its_own_cell_only() -> None:
    data = Records(np.ones((4, 2)) / 2, np.array([1, 1, 0, 0]), np.array([True, True, True, False]))
    found = cells_of(data, norm=1.0, classes=2, bits=10)
    assert found[4:7].tolist() == [1.0, 2.0, 1.0]
    unusable = data.take(slice(3, 4))
    alone = cells_of(unusable, norm=1.0, classes=2, bits=10)
    assert alone.tolist() == [0.0, 0, 0, 0, 0, 0, 1, 0]


@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from([1.0, 0.3, 7.0]))
def test_no_row_is_longer_than_one_in_units_of_the_norm(seed: int, d: int, norm: float) -> None:
    rng = np.random.default_rng(seed)
    row = clip_rows(rng.normal(size=(1, d)) * 10 * norm, norm)
    data = Records(row, np.zeros(1, np.intp), np.ones(1, np.bool_))
    assert cells_of(data, norm=norm, classes=2, bits=26)[-1] <= 1


def pair(values: Floats, d: int) -> tuple[Records, Records]:
    """Two records of different classes, from two vectors that are clipped onto the ball."""
    rows = np.asarray(clip_rows(values.reshape(2, d), 1.0))
    one, other = (Records(rows[[i]], np.array([i]), np.ones(1, np.bool_)) for i in range(2))
    return one, other


def farthest(
    d: int,
    order: int,
    weights: tuple[float, float, float] = (1.0, math.sqrt(0.5), 1.0),
    pairs: float = 0.0,
) -> Floats:
    """The pair of rows whose weighted cells are farthest apart, by random and local search."""
    rng = np.random.default_rng(d)
    a, b, length = weights
    one, other = np.triu_indices(d, 1)

    def apart(values: Floats) -> float:
        u, v = (x / max(1.0, math.sqrt(x @ x)) for x in values.reshape(2, d))
        last = np.array([length * (u @ u - v @ v), 0.5, 0.5])
        products = pairs * (u[one] * u[other] - v[one] * v[other])
        moved = np.concatenate([a * (u - v), b * (u * u - v * v), products, last])
        return -float(np.linalg.norm(moved, order))

    best = minimize(apart, rng.normal(size=2 * d), method="Nelder-Mead")
    for _ in range(12):
        start = rng.normal(size=2 * d) * rng.choice([0.3, 1.0, 3.0])
        if rng.random() < 0.5:
            start[d:] = -start[:d] + 0.05 * rng.normal(size=d)
        found = minimize(apart, start, method="Nelder-Mead", options={"maxiter": 300 * d})
        best = min(best, found, key=lambda each: each.fun)
    return np.append(best.x, -best.fun)


def distance(d: int, order: int, *, pairs: bool = False) -> float:
    """The distance of the farthest pair, by the real cells."""
    found = pair(farthest(d, order, pairs=float(pairs))[:-1], d)
    one, other = (weighted_cells(each, pairs=pairs) for each in found)
    return float(np.linalg.norm(one - other, order))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_gaussian_sensitivity_is_attained_and_not_exceeded(d: int) -> None:
    bound = sensitivity("mu", features=d)
    assert 0.999 * bound < distance(d, 2) <= bound
    assert 0.999 * bound < distance(d, 2, pairs=True) <= bound


@pytest.mark.parametrize(("d", "attained"), [(1, 0.97), (2, 0.9999), (3, 0.99)])
def test_the_pure_sensitivity_is_not_exceeded(d: int, attained: float) -> None:
    bound = sensitivity("epsilon", features=d)
    assert attained * bound < distance(d, 1) <= bound


def opposite(d: int) -> Floats:
    """The pair of the proof: half of the features large in one row, the other half in the other."""
    t = math.sqrt(4 / (d + 4 + math.sqrt(d * d + 16 * d)))  # the tangent of half of their angle
    size = 2 / math.sqrt((1 + t * t) * d)
    large, small = size * (1 + t) / 2, size * (1 - t) / 2
    first = np.where(np.arange(d) < d / 2, large, small)
    return np.concatenate([first, -first[::-1]])


@pytest.mark.parametrize("d", [2, 4, 10, 64, 1000])
def test_the_pure_sensitivity_is_attained_for_even_numbers_of_features(d: int) -> None:
    one, other = map(weighted_cells, pair(opposite(d), d))
    moved, bound = np.abs(one - other).sum(), sensitivity("epsilon", features=d)
    assert (1 - 1e-5) * bound < moved <= bound  # what is missing is lost to the lattice
    assert moved > 2 * math.sqrt(d) + 1  # sums and counts alone would be too little


@pytest.mark.parametrize("d", [1, 2, 3, 5, 16, 64, 784, 10**6])
def test_the_pure_sensitivity_is_far_below_the_sum_of_its_parts(d: int) -> None:
    old, new = (sensitivity("epsilon", features=d, rules=rules) for rules in (1, 2))
    assert old - new == pytest.approx(1 + math.sqrt(2) - (new - 1 - 2 * math.sqrt(d)), rel=1e-9)
    assert 0 < new - 1 - 2 * math.sqrt(d) <= 2 / math.sqrt(d)


@pytest.mark.parametrize("weights", [(1.0, 0.8, 1.0), (1.0, math.sqrt(0.5), 1.6)])
def test_larger_weights_would_exceed_it(weights: tuple[float, float, float]) -> None:
    """The search is strong enough: it finds pairs that break weights which are too large."""
    assert farthest(2, 2, weights)[-1] > 1.005 * sensitivity("mu", features=2)


def test_products_that_weigh_more_would_exceed_it() -> None:
    assert farthest(2, 2, pairs=1.3)[-1] > 1.005 * sensitivity("mu", features=2)


@given(st.integers(0, 2**32), st.integers(1, 50))
def test_random_pairs_stay_within_both_sensitivities(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = (weighted_cells(each) for each in pair(rng.normal(size=2 * d), d))
    paired = [weighted_cells(each, pairs=True) for each in pair(rng.normal(size=2 * d), d)]
    assert np.linalg.norm(paired[0] - paired[1]) <= sensitivity("mu", features=d)
    assert np.abs(one - other).sum() <= sensitivity("epsilon", features=d)


def test_an_unusable_record_moves_the_cells_less() -> None:
    row = Records(np.array([[1.0]]), np.array([1]), np.ones(1, np.bool_))
    none = Records(np.array([[0.0]]), np.array([0]), np.zeros(1, np.bool_))
    moved = weighted_cells(row) - weighted_cells(none)
    assert np.linalg.norm(moved) < sensitivity("mu", features=1)


@given(st.floats(1e-3, 10), st.integers(1, 10_000), st.sampled_from(["mu", "epsilon"]))
def test_scales_are_rounded_up(amount: float, d: int, unit: Any) -> None:
    allowance = Allowance(unit, amount)
    found, bound = scales(allowance, features=d), Fraction(sensitivity(unit, features=d))
    assert Fraction(found.sums) * Fraction(amount) >= bound
    assert Fraction(found.squares) ** 2 >= 2 * Fraction(found.sums) ** 2
    assert found.counts == 2 * found.sums
    assert found.length == found.sums
    if unit == "mu":
        assert bound**2 >= Fraction(9, 2)
    else:  # the bound is the least of d t/(2 - t^2) + 2/t + 1 over all t in (0, 1]
        for t in (Fraction(k, 64) for k in range(1, 65)):
            assert bound <= up(1 + d * t / (2 - t * t) + 2 / t)
        assert bound**2 > 4 * d + 1
    assert settings(allowance, features=d)["noise_scale_squares"] == found.squares


@pytest.mark.parametrize("unit", ["mu", "epsilon"])
def test_noise_has_the_stated_deviations(unit: Any) -> None:
    """2000 surveys; each sample deviation is within 1/4 of the claim but for a chance below 1e-6.

    The relative deviation of a sample deviation is at most sqrt(5/8000) = 2.5 % (Laplace): 1/4 is
    ten times that.
    """
    data = records(1, 5, 1)
    bits = NotPrivateBits(4)
    drawn = [
        survey(data, norm=1.0, classes=3, allowance=Allowance(unit, 0.5), bits=bits)
        for _ in range(2000)
    ]
    spread = np.std([each.cells for each in drawn], axis=0)
    stated = drawn[0].deviations
    expected = [stated.sums, stated.squares, *[stated.counts] * 4, stated.length]
    np.testing.assert_allclose(spread, expected, rtol=0.25)


def test_the_noise_of_products_is_that_of_sums() -> None:
    """2000 surveys of three products; 1/4 is 16 deviations of each sample deviation."""
    data, bits, allowance = records(1, 5, 3), NotPrivateBits(4), Allowance("mu", 0.5)
    drawn = [survey(data, norm=1.0, classes=3, allowance=allowance, bits=bits) for _ in range(2000)]
    spread = np.std([each.pairs for each in drawn], axis=0)
    np.testing.assert_allclose(spread, [drawn[0].deviations.sums] * 3, rtol=0.25)
    stated = settings(allowance, features=3, pairs=True)
    assert stated["noise_scale_pairs"] == stated["noise_scale_sums"]


def test_the_parts_of_the_cells() -> None:
    data = records(2, 400, 6)
    found = survey(data, norm=1.0, classes=3, allowance=EXACT, bits=NotPrivateBits(1))
    X: Any = data.X
    assert (found.slots, found.features) == (400, 6)
    np.testing.assert_allclose(found.sums, X.sum(axis=0), atol=1e-3)
    np.testing.assert_allclose(found.squares, (X**2).sum(axis=0), atol=1e-3)
    np.testing.assert_allclose(found.counts, np.bincount(data.y[data.usable]), atol=1e-6)
    assert found.unusable == pytest.approx((~data.usable).sum(), abs=1e-6)
    assert found.unusable_share == pytest.approx((~data.usable).mean(), abs=1e-6)
    assert found.length == pytest.approx((X**2).sum(), abs=1e-3)
    assert isinstance(found.deviations, Kinds)
    np.testing.assert_allclose(found.pairs, (X.T @ X)[np.triu_indices(6, 1)], atol=1e-3)


@pytest.mark.parametrize(
    ("unit", "d", "sparse", "rules"),
    [
        ("epsilon", 6, False, 3),
        ("mu", 65, False, 3),
        ("mu", 1, False, 3),
        ("mu", 6, True, 3),
        ("mu", 6, False, 2),
        ("mu", 6, False, 1),
    ],
)
def test_surveys_without_products(unit: Any, d: int, sparse: bool, rules: int) -> None:
    """Under a pure budget, of many features, of sparse ones, and under rules before."""
    data, allowance = records(2, 40, d, sparse=sparse), Allowance(unit, 1.0)
    found = survey(
        data, norm=1.0, classes=3, allowance=allowance, bits=NotPrivateBits(1), rules=rules
    )
    assert found.pairs.size == 0


def test_refusals() -> None:
    data = records(2, 40, 6)
    refused: list[Callable[[], object]] = [
        lambda: survey(data, norm=1.0, classes=2, allowance=EXACT, bits=NotPrivateBits(1)),
        lambda: Survey(slots=1, classes=2, allowance=EXACT, cells=np.zeros(5)),
        lambda: Survey(slots=1, classes=2, allowance=EXACT, cells=np.zeros(6, np.float32)),
        lambda: Survey(slots=1, classes=2, allowance=EXACT, cells=np.zeros(8), pairs=np.zeros(2)),
    ]
    for make in refused:
        with pytest.raises(InvalidValueError):
            make()


def test_joined_steps_add_up() -> None:
    parts = [records(seed, 64, 3) for seed in range(4)]
    whole = cells_of(join(parts), norm=1.0, classes=3, bits=20)
    assert np.array_equal(whole, sum(cells_of(p, norm=1.0, classes=3, bits=20) for p in parts))
