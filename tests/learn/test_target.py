"""Targets: codes that depend on one value alone, parts of the range, and predictions."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.checks import InvalidValueError
from tidegate.data.intake import clean
from tidegate.data.predicted import (
    BITS,
    RESOLUTION,
    Target,
    by_part,
    middle_of,
    part_of,
    predicted_of,
)
from tidegate.data.records import Records
from tidegate.learn import Huber, HuberError, SquaredError, minimize

ends = st.floats(-1e300, 1e300)
values: st.SearchStrategy[Any] = st.one_of(
    st.floats(),
    st.integers(-(10**400), 10**400),
    st.sampled_from([None, "3.5", "late", b"1", True, [1.0], {}, 1 + 2j, np.float32(0.1)]),
)


@st.composite
def targets(draw: st.DrawFn) -> Target:
    low, high = sorted([draw(ends), draw(ends)])
    if not high - low > 2.0**-1000:
        high = low + max(1.0, abs(low))
    return Target(low, high)


@given(targets(), st.lists(values, min_size=1, max_size=8))
def test_a_code_depends_on_its_own_value_alone(target: Target, given_values: list[Any]) -> None:
    codes, usable = target.codes(given_values)
    alone = [target.codes([value]) for value in given_values]
    assert codes.tolist() == [int(code[0]) for code, _ in alone]
    assert usable.tolist() == [bool(used[0]) for _, used in alone]
    assert (np.abs(codes) <= 2**BITS).all()
    assert (codes[~usable] == 0).all()


@given(targets(), st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_an_array_is_read_as_its_values_are(target: Target, numbers: list[float]) -> None:
    one, other = target.codes(np.array(numbers)), target.codes(numbers)
    assert np.array_equal(one[0], other[0])
    assert np.array_equal(one[1], other[1])


@given(st.integers(-(2**BITS), 2**BITS), targets())
def test_a_code_is_within_half_a_unit_of_the_target(code: int, target: Target) -> None:
    """For a range that float64 resolves."""
    target = Target(-3.0, 5.0)
    exact = 1 + 4 * Fraction(code, 2**BITS)
    codes, _ = target.codes([float(exact)])
    assert int(codes[0]) == code
    assert target.values(codes)[0] == float(exact)


@given(targets(), st.lists(st.floats(allow_nan=False), min_size=1))
def test_predictions_stay_in_the_range(target: Target, margins: list[float]) -> None:
    predicted = target.predictions(np.array(margins))
    assert (predicted >= target.low).all()
    assert (predicted <= target.high).all()


@given(st.lists(st.integers(-(2**BITS), 2**BITS), min_size=1))
def test_parts_are_equal_and_exact(codes: list[int]) -> None:
    expected = [
        min(int((Fraction(code, 2**BITS) + 1) * Target.parts / 2), Target.parts - 1)
        for code in codes
    ]
    assert part_of(np.array(codes)).tolist() == expected


def test_a_code_is_exact_in_float32() -> None:
    codes = np.array([2**BITS, 2**BITS - 1, -(2**BITS) + 1, 1])
    scaled = codes.astype(np.float32) * np.float32(RESOLUTION)
    assert [Fraction(float(each)) for each in scaled] == [
        Fraction(int(code), 2**BITS) for code in codes
    ]


def test_the_mean_of_parts_is_near_the_mean() -> None:
    rng = np.random.default_rng(0)
    codes = Target(0, 1).codes(rng.beta(2, 5, size=10_000))[0]
    shares = np.bincount(part_of(codes), minlength=Target.parts) / codes.size
    assert middle_of(shares.tolist()) == pytest.approx(codes.mean() * RESOLUTION, abs=0.05)


def test_records_of_a_target() -> None:
    records = clean([[3.0, 4.0], [np.nan, 0.0], [1.0, 0.0]], [5, 5, None], norm=1.0, target=T)
    assert records.usable.tolist() == [True, False, False]
    assert records.y.tolist() == [0, 0, 0]
    assert not records.X[1:].any()
    assert by_part(Records(records.X, records.y, records.usable)).y.tolist() == [4, 4, 4]


T = Target(0, 10)


@pytest.mark.parametrize(
    "given_ends", [(1, 1), (2, 1), (np.nan, 1), (0, np.inf), ("a", 1), (0, 1e302), (0, 2.0**-1020)]
)
def test_bad_ranges_are_refused_in_one_line(given_ends: Any) -> None:
    with pytest.raises(InvalidValueError) as refused:
        Target(*given_ends)
    assert "target" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_classes_and_a_target_together_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="classes must be None if there is a target"):
        predicted_of([0, 1], T)


@pytest.mark.parametrize("seed", range(3))
def test_a_large_h_minimises_squared_errors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, lam = rng.normal(size=(200, 4)), 0.05
    y = (X @ rng.normal(size=4)).clip(0, 10)
    found = minimize(HuberError(h=100.0), X, y, regularization=lam, target=T).weights
    t = y / 5 - 1
    ridge = np.linalg.solve(X.T @ X / 200 + 2 * lam * np.eye(4), X.T @ t / 200)
    np.testing.assert_allclose(found, ridge, atol=1e-6)


def test_losses_that_minimize_does_not_take_are_refused() -> None:
    X, y = np.eye(2), [0.0, 1.0]
    for loss, target in ((SquaredError(), T), (HuberError(), None), ("huber", T), (Huber(), T)):
        with pytest.raises(InvalidValueError, match="loss must be HuberError"):
            minimize(loss, X, y, regularization=0.1, target=target)
    with pytest.raises(InvalidValueError, match="y must be finite numbers"):
        minimize(HuberError(), X, [0.0, np.nan], regularization=0.1, target=T)
