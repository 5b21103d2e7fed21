"""exp, log and the logistic function: their errors, and that each number's result is its own."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from tidegate.learn import exact
from tidegate.learn.exact import LEAST, MOST, PARTS, exp, log, logistic

UNIT = 2.0**-53
TINY, HUGE = float(np.finfo(float).tiny), float(np.finfo(float).max)

Exact = Callable[[Any], Any]


def error(found: float, wanted: Any) -> float:
    """The relative error of a float, in units of 2^-53, rounded up."""
    return float((abs(arb(found) - wanted) / abs(wanted) / arb(UNIT)).abs_upper())


@pytest.fixture(autouse=True)
def precision() -> Any:
    before, ctx.prec = ctx.prec, 160
    yield
    ctx.prec = before


def edges() -> list[float]:
    """Numbers next to where exp changes its table entry, and other ends."""
    ties = [(k + 0.5) * math.log(2) / PARTS for k in range(-3000, 3000, 7)]
    powers = [k * math.log(2) for k in range(-1021, 1023)]
    ends = [LEAST, MOST, 0.0, -0.0, TINY, -TINY, 5e-324, 2.0**-30, -1.0, 1.0, 40.0, -40.0]
    near = [math.nextafter(t, side) for t in ties + powers for side in (-math.inf, math.inf)]
    return [*ties, *powers, *near, *ends]


def spread() -> list[float]:
    rng = np.random.default_rng(0)
    return [*rng.uniform(LEAST, MOST, 6000), *rng.normal(size=6000), *rng.normal(size=2000) * 1e-4]


def test_exp_and_logistic_err_as_little_as_proved() -> None:
    x = np.array([*edges(), *spread()])
    x = x[(x >= LEAST) & (x <= MOST)]
    for t, e, p in zip(x.tolist(), exp(x).tolist(), logistic(x).tolist(), strict=True):
        assert error(e, arb(t).exp()) < (2.5 if t >= -706 else 3)
        assert error(p, 1 / (1 + (-arb(t)).exp())) < 5


def test_exp_and_logistic_err_as_little_where_numbers_are_subnormal() -> None:
    low = np.random.default_rng(3).uniform(LEAST, -706, 100_000)
    for t, found in zip(low.tolist(), exp(low).tolist(), strict=True):
        assert error(found, arb(t).exp()) < 3
    low = np.random.default_rng(4).uniform(-MOST, LEAST, 20_000)
    for t, found in zip(low.tolist(), logistic(low).tolist(), strict=True):
        assert error(found, 1 / (1 + (-arb(t)).exp())) < 5


@pytest.mark.parametrize("x", [float.fromhex("-0x1.61d8700fb2889p+9"), -707.6736601266825])
def test_below_minus_706_exp_may_err_by_more_than_above(x: float) -> None:
    assert 2.5 < error(float(exp(np.array([x]))[0]), arb(x).exp()) < 3


def test_log_errs_as_little_as_proved() -> None:
    rng = np.random.default_rng(1)
    near = [1 + k * 2.0**-52 for k in range(1, 40)] + [1 - k * 2.0**-53 for k in range(1, 40)]
    ends = [TINY, HUGE, 0.5, 2.0, 0.7071067811865475, 0.7071067811865476, 1.4142135623730951]
    x = np.array([*np.exp(rng.uniform(-700, 700, 5000)), *rng.uniform(0.01, 2, 5000), *near, *ends])
    for t, found in zip(x.tolist(), log(x).tolist(), strict=True):
        assert error(found, arb(t).log()) < 8
    assert log(np.ones(1))[0] == 0


def test_constants_are_the_nearest_floats() -> None:
    two = arb(2).log()
    high, low = arb(exact.PART_HIGH), exact.PART_LOW
    assert error(low, two / PARTS - high) <= 1
    assert error(exact.LOG2_LOW, two - arb(exact.LOG2_HIGH)) <= 1
    assert error(exact.PER_UNIT, PARTS / two) <= 1
    for j, power in enumerate(exact.POWERS.tolist()):
        assert error(power, (two * j / PARTS).exp()) <= 1
    # times a whole number of so many bits, they are exact
    assert (exact.PART_HIGH * 2.0**42).is_integer()
    assert exact.PART_HIGH * 2.0**42 < 2**31
    assert (exact.LOG2_HIGH * 2.0**42).is_integer()
    assert LEAST * exact.PER_UNIT > -(2**21) < -MOST * exact.PER_UNIT


def test_numbers_outside_count_as_the_ends() -> None:
    far = exp(np.array([-math.inf, -1e300, 1e300, math.inf]))
    assert np.array_equal(far, exp(np.array([LEAST, LEAST, MOST, MOST])))
    assert np.isfinite(far).all()
    assert np.isnan(exp(np.array([math.nan]))).all()


@given(st.lists(st.floats(-800, 800), min_size=1, max_size=40), st.integers(0, 5))
def test_a_result_depends_on_its_number_alone(numbers: list[float], shift: int) -> None:
    x = np.array(numbers)
    for function in (exp, logistic, lambda t: log(np.abs(t) + 1)):
        whole = function(x)
        alone = np.concatenate([function(x[i : i + 1]) for i in range(x.size)])
        assert alone.tobytes() == whole.tobytes()
        padded = function(np.concatenate([np.zeros(shift), x]))[shift:]
        assert padded.tobytes() == whole.tobytes()
        assert function(x[::-1])[::-1].tobytes() == whole.tobytes()
        assert function(np.stack([x, x], axis=1))[:, 1].tobytes() == whole.tobytes()


def test_long_arrays_are_cut_without_a_trace() -> None:
    x = np.random.default_rng(2).normal(size=3 * exact.CHUNK + 1)
    whole = exp(x)
    assert np.array_equal(whole[exact.CHUNK - 3 :], exp(x[exact.CHUNK - 3 :]))
    assert exp(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.longdouble])
def test_other_types_keep_their_type_and_stay_finite(dtype: Any) -> None:
    x = np.array([-1e4, -1.0, 0.0, 1.0, 1e4], dtype)
    assert exp(x).dtype == logistic(x).dtype == dtype
    assert np.isfinite(exp(x)).all()
    assert np.abs(logistic(x[1:4]) - 1 / (1 + np.exp(-x[1:4]))).max() < 1e-6


def test_a_shorter_series_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds leave no room for one term less."""
    monkeypatch.setattr(exact, "ODD", exact.ODD[2:])
    x = np.array([1.4142135623730951])
    assert error(float(log(x)[0]), arb(float(x[0])).log()) > 8
