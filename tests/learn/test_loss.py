"""Values against plain formulas, derivatives against differences, constants against the worst."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.learn.problems import EVERY_LOSS, curvature, every_loss, losses, seeds, truths
from tidegate.checks import InvalidValueError
from tidegate.data.predicted import BITS, RESOLUTION
from tidegate.learn import Huber, HuberError, Logistic, Loss, Softmax, Squared, SquaredError
from tidegate.learn.loss import TARGET_LOSSES, TargetLoss


def margins(loss: Loss, seed: int, m: int = 20) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    shape = (m,) if loss.outputs == 1 else (loss.outputs, m)
    return 3 * rng.normal(size=shape), truths(loss, m, rng)


@given(seeds)
def test_values_are_the_textbook_formulas(seed: int) -> None:
    a, y = margins(Logistic(), seed)
    signed = (2 * y - 1) * a
    np.testing.assert_allclose(Logistic().value(a, y), np.log(1 + np.exp(-signed)), atol=1e-12)
    hinge = np.maximum(0, 1 - signed)
    np.testing.assert_allclose(Huber(h=1e-9).value(a, y), hinge, atol=1e-9)
    b, y = margins(Softmax(4), seed)
    expected = np.log(np.exp(b).sum(0)) - b[y, np.arange(y.size)]
    np.testing.assert_allclose(Softmax(4).value(b, y), expected, rtol=1e-10, atol=1e-12)


@given(seeds)
def test_values_of_targets_are_the_textbook_formulas(seed: int) -> None:
    a, y = margins(SquaredError(), seed)
    error = a - y / 2**BITS
    np.testing.assert_allclose(SquaredError().value(a, y), error**2 / 2, atol=1e-12)
    h = 0.5
    linear = h * np.abs(error) - h * h / 2
    expected = np.where(np.abs(error) <= h, error**2 / 2, linear)
    np.testing.assert_allclose(HuberError(h=h).value(a, y), expected, atol=1e-12)
    np.testing.assert_allclose(HuberError(h=1e6).residual(a, y), error, atol=1e-12)


@given(every_loss, seeds)
def test_residual_and_curvature_are_derivatives(loss: Loss, seed: int) -> None:
    a, y = margins(loss, seed)
    v = np.random.default_rng(seed + 1).normal(size=a.shape)
    t = 1e-6
    slope = (loss.value(a + t * v, y) - loss.value(a - t * v, y)) / (2 * t)
    along = (loss.residual(a, y) * v).reshape(-1, y.size).sum(0)
    np.testing.assert_allclose(along, slope, atol=1e-5 * (1 + 20 * loss.smoothness(1)))
    bend = (loss.residual(a + t * v, y) - loss.residual(a - t * v, y)) / (2 * t)
    far_from_kinks = np.full(y.size, True)
    if isinstance(loss, Huber):
        far_from_kinks = np.abs(np.abs(1 - (2 * y - 1) * a) - loss.h) > 10 * t
    if isinstance(loss, HuberError):
        far_from_kinks = np.abs(np.abs(a - y * RESOLUTION) - loss.h) > 20 * t
    difference = (curvature(loss, a, y, v) - bend).reshape(-1, y.size)[:, far_from_kinks]
    assert np.abs(difference).max(initial=0) < 1e-4


@given(losses, seeds)
def test_constants_bound_every_record(loss: Loss, seed: int) -> None:
    a, y = margins(loss, seed)
    v = np.random.default_rng(seed).normal(size=a.shape)
    size = np.linalg.norm(loss.residual(a, y).reshape(-1, y.size), axis=0)
    assert size.max() <= loss.lipschitz(1)
    bent = np.linalg.norm(curvature(loss, a, y, v).reshape(-1, y.size), axis=0)
    assert (bent <= loss.smoothness(1) * np.linalg.norm(v.reshape(-1, y.size), axis=0)).all()
    assert loss.value(np.zeros_like(a), y).max() <= loss.value_at_zero


def test_constants_are_attained() -> None:
    one, first = np.array([1]), np.array([0])
    far = np.array([-50.0])
    assert abs(Logistic().residual(far, one)[0]) == pytest.approx(1)
    assert abs(Huber().residual(far, one)[0]) == 1
    assert np.linalg.norm(Softmax(3).residual(np.array([[-50.0], [50], [-50]]), first)) == (
        pytest.approx(math.sqrt(2))
    )
    assert HuberError(h=0.25).residual(far, one)[0] == -0.25
    assert HuberError(h=0.25).lipschitz(1) == pytest.approx(0.25)
    assert curvature(HuberError(), np.zeros(1), one, np.ones(1))[0] == 1
    assert curvature(SquaredError(), np.zeros(1), one, np.ones(1))[0] == 1
    end = np.array([2**BITS])
    for loss in (SquaredError(), HuberError(h=0.25), HuberError(h=2)):
        assert loss.value(np.zeros(1), end)[0] == pytest.approx(loss.value_at_zero)
    assert curvature(Logistic(), np.zeros(1), one, np.ones(1))[0] == 0.25
    assert curvature(Huber(h=0.5), np.ones(1), one, np.ones(1))[0] == 1
    even, v = np.array([[0.0], [0], [-800]]), np.array([[1.0], [-1], [0]])
    np.testing.assert_allclose(curvature(Softmax(3), even, first, v), v / 2)


def test_squared_errors_have_no_bound_and_say_so() -> None:
    """So no learner may rest on it; a residual can be as large as the margin."""
    assert SquaredError().lipschitz(1.0) == math.inf
    assert SquaredError().residual(np.array([1e6]), np.array([0]))[0] == 1e6


@given(st.sampled_from([SquaredError(), HuberError(h=0.25)]), seeds)
def test_float32_errs_no_more_than_one_rounding(loss: Any, seed: int) -> None:
    """A code is exact in float32 too, so drafts see the same targets."""
    a, y = margins(loss, seed)
    a = a.astype(np.float32)
    narrow, wide = loss.residual(a, y), loss.residual(a.astype(np.float64), y)
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, wide, rtol=2.0**-23, atol=0)


def test_every_loss_of_targets_is_tested() -> None:
    tested: set[type] = {type(loss) for loss in EVERY_LOSS if isinstance(loss, TargetLoss)}
    assert tested == {*TARGET_LOSSES.values()}


@pytest.mark.parametrize("loss", EVERY_LOSS)
@pytest.mark.parametrize("size", [1e-300, 1e3, 1e300])
def test_extreme_margins_stay_finite(loss: Loss, size: float) -> None:
    a, y = margins(loss, 0)
    finite = (loss.residual,) if isinstance(loss, SquaredError) else (loss.value, loss.residual)
    for found in finite:
        assert np.isfinite(found(size * np.sign(a), y)).all()


@given(st.sampled_from([Logistic(), Huber(h=0.05), Softmax(5), HuberError(h=0.5)]), seeds)
def test_float64_residual_errs_less_than_stated(loss: Loss, seed: int) -> None:
    a, y = margins(loss, seed)
    exact = loss.residual(a.astype(np.longdouble), y)
    error = np.linalg.norm((loss.residual(a, y) - exact).reshape(-1, y.size), axis=0)
    assert error.max() <= loss.residual_error


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="h must be a finite number above 0"):
        Huber(h=0)
    with pytest.raises(InvalidValueError, match="h must be a number above"):
        HuberError(h=0)
    with pytest.raises(InvalidValueError, match="classes must be"):
        Softmax(1)
    assert Squared().sensitivity(2.0, 10, 1.0) == pytest.approx(0.1)
