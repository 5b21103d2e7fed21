"""Descents do not swing: the proof is in docs/proofs/descent.md, and old rules break these laws."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit, j1, log_softmax, softmax

from tidegate.learn.descent import (
    MAX_PROVED_FEATURES,
    MAX_STEPS,
    Course,
    Pace,
    fastest_rate,
    travel,
)
from tidegate.learn.rules import UNNUMBERED

Floats = NDArray[np.float64]

LEAST_FACTOR = -0.126
"""How far an error may change its sign: least with 256 steps, and then -0.1258."""


def descended(gradient: Any, start: Floats, pace: Pace) -> Floats:
    """A descent without noise, as `descend` makes it."""
    weights, velocity = start, np.zeros_like(start)
    for j in range(pace.steps):
        momentum = j / (j + 3)
        velocity = momentum * velocity - pace.rate * gradient(weights + momentum * velocity)
        weights = weights + velocity
    return weights


SIZED: dict[str, Any] = {"slots": 100, "mu": 1.0, "norm": 1.0, "lipschitz": 1.0}
"""What the pace does not depend on: the horizon says it."""


def plain_course(**more: Any) -> Course:
    """The course of a fit of six surveyed columns that goes on from the release before."""
    usual: dict[str, Any] = {
        **SIZED,
        "smoothness": 0.25,
        "regularization": 0.0,
        "features": 6,
        "target": False,
        "continues": True,
        "surveyed": True,
    }
    return Course(**{**usual, **more})


@st.composite
def courses(draw: st.DrawFn, *, features: int = 6) -> Course:
    return Course(
        **SIZED,
        smoothness=draw(st.floats(1e-3, 1e3)),
        regularization=draw(st.sampled_from([0.0, 1e-4, 0.1, 10.0])),
        features=features,
        target=draw(st.booleans()),
        continues=draw(st.booleans()),
        surveyed=draw(st.booleans()),
    )


horizons = st.floats(1e-3, 1e7)


@given(course=courses(), horizon=horizons, share=st.floats(0, 1))
def test_no_direction_of_a_quadratic_is_overshot(
    course: Course, horizon: float, share: float
) -> None:
    # A direction whose curvature is `share` of the bound, and the pull of the regulariser.
    pace = course.pace(horizon, steps=None, rate=None)
    curvature = share * course.smoothness + 2 * course.regularization
    left = descended(lambda w: curvature * w, np.ones(1), pace)
    assert LEAST_FACTOR <= left[0] <= 1


def test_the_rules_before_overshot() -> None:
    course = plain_course(rules=UNNUMBERED)
    pace = course.pace(250.0, steps=None, rate=None)
    assert (pace.steps, round(pace.rate)) == (2, 111)
    left = descended(lambda w: 0.25 * w, np.ones(1), pace)
    assert abs(left[0]) > 100


@given(
    course=courses(), horizon=horizons, steps=st.none() | st.integers(1, 400), wide=st.booleans()
)
def test_the_rate_is_never_raised_for_a_longer_way(
    course: Course, *, horizon: float, steps: int | None, wide: bool
) -> None:
    features = MAX_PROVED_FEATURES + 1 if wide else 6
    course = Course(**{**vars(course), "features": features})
    pace = course.pace(horizon, steps=steps, rate=None)
    fastest = fastest_rate(
        smoothness=course.smoothness,
        regularization=course.regularization,
        features=features,
        target=course.target,
    )
    assert pace.rate <= fastest
    assert pace.rate * travel(pace.steps) <= horizon * (1 + 1e-9)
    if steps is None:
        assert pace.steps <= MAX_STEPS
        covered = pace.rate * travel(pace.steps) >= horizon * (1 - 1e-9)
        assert covered or pace.steps == MAX_STEPS


@given(steps=st.integers(1, MAX_STEPS), rate=st.floats(1e-3, 1e3), horizon=st.floats(1e-3, 1e7))
def test_given_steps_and_rates_are_kept(steps: int, rate: float, horizon: float) -> None:
    course = plain_course()
    assert course.pace(horizon, steps=steps, rate=rate) == (steps, rate)
    assert course.pace(horizon, steps=None, rate=rate).rate == rate


def deviations(steps: int, curvatures: Floats) -> Floats:
    """The deviation of the last weights for each curvature, at rate 1 and with noise of 1."""
    weights = velocity = np.zeros((len(curvatures), steps))  # what the noise of each step added
    for j in range(steps):
        momentum = j / (j + 3)
        slope = curvatures[:, None] * (weights + momentum * velocity)
        slope[:, j] += 1
        velocity = momentum * velocity - slope
        weights = weights + velocity
    return np.asarray(np.linalg.norm(weights, axis=1))


@pytest.mark.parametrize(
    ("steps", "factor"), [(1, 1.0), (2, 1.006), (16, 1.047), (64, 1.083), (MAX_STEPS, 1.098)]
)
def test_the_noise_of_a_flat_direction_follows_from_the_way(steps: int, factor: float) -> None:
    """It is this factor times 2 C T/(n mu), by which docs/proofs/gradient.md sizes the way."""
    (found,) = deviations(steps, np.zeros(1))
    assert round(float(found) * steps**0.5 / travel(steps), 3) == factor <= (128 / 105) ** 0.5


def assert_damped(steps: int) -> None:
    found = deviations(steps, np.linspace(0, 1, 41))
    assert (found <= found[0] * (1 + 1e-12)).all()


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 16, 64, MAX_STEPS])
def test_curvature_only_damps_the_noise(steps: int) -> None:
    assert_damped(steps)


@pytest.mark.thorough
def test_curvature_only_damps_the_noise_of_any_number_of_steps() -> None:
    for steps in range(1, MAX_STEPS + 1):
        assert_damped(steps)


def factors(steps: int, curvatures: Floats) -> Floats:
    """P_J: the part of the start's error that is left for each curvature, at rate 1."""
    return descended(lambda w: curvatures * w, np.ones_like(curvatures), Pace(steps, 1.0))


def test_the_least_factor_is_nearer_to_zero_than_the_limit() -> None:
    z = np.linspace(1e-6, 60, 60_001)
    assert -0.1324 < float((2 * j1(z) / z).min()) < -0.1322
    curvatures = np.geomspace(1e-6, 1, 1001)
    least = [float(factors(steps, curvatures).min()) for steps in range(1, MAX_STEPS + 1)]
    assert least == sorted(least, reverse=True)
    assert -0.1258 <= least[-1] <= -0.1257


def test_a_third_more_curvature_than_the_bound_does_not_swing() -> None:
    """A divisor M that is rounded down adds less than that from M = 3 on."""
    for steps in range(1, MAX_STEPS + 1):
        assert np.abs(factors(steps, np.linspace(0, 4 / 3, 401))).max() <= 1 + 1e-9
    assert np.abs(factors(MAX_STEPS, np.array([1.36]))).max() > 100


@pytest.mark.parametrize(("excess", "horizon"), [(2.0, 2.0), (1.5, 24.0)])
@pytest.mark.parametrize("continues", [True, False])
def test_fits_of_fewer_than_three_records_do_not_swing_on_their_short_way(
    *, excess: float, horizon: float, continues: bool
) -> None:
    """The curvature may be `excess` times its bound; a longer way than `horizon` may swing."""

    def left(horizon: float) -> float:
        course = plain_course(smoothness=1.0, continues=continues)
        pace = course.pace(horizon, steps=None, rate=None)
        return float(np.abs(factors(pace.steps, pace.rate * np.linspace(0, excess, 401))).max())

    assert max(left(each) for each in np.linspace(0.01, horizon, 400)) <= 1 + 1e-9
    assert left(1000.0) > 100


@given(
    seed=st.integers(0, 2**32),
    clip=st.floats(0.05, 1.0),
    horizon=st.floats(0.1, 1e5),
)
def test_a_clipped_logistic_descent_never_ends_above_its_start(
    seed: int, clip: float, horizon: float
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(40, 3))
    x /= np.maximum(np.linalg.norm(x, axis=1), 1)[:, None]
    x *= rng.uniform(0.2, 1, size=(40, 1))
    y, limits = rng.choice([-1.0, 1.0], size=40), clip / np.linalg.norm(x, axis=1)

    def slope(w: Floats) -> Floats:
        residual = np.clip(-y * expit(-y * (x @ w)), -limits, limits)
        return np.asarray(x.T @ residual / 40)

    # The convex loss whose slope is the clipped one: a straight line where the clip applies.
    bound = np.minimum(limits, 1 - 1e-12)
    bend = np.log((1 - bound) / bound)

    def loss(w: Floats) -> float:
        margins = y * (x @ w)
        bent = np.maximum(margins, bend)
        return float(np.mean(np.logaddexp(0, -bent) + bound * (bent - margins)))

    start = rng.normal(size=3)
    end = descended(slope, start, plain_course(features=3).pace(horizon, steps=None, rate=None))
    assert loss(end) <= loss(start) + 1e-9


@pytest.mark.parametrize("steps", [16, MAX_STEPS])
def test_the_bias_of_clipping_can_raise_the_loss_itself(steps: int) -> None:
    """The page claims nothing about the loss that is not clipped: here it starts at its least."""
    y, start = np.array([1.0] * 9 + [-1.0]), np.array([np.log(9)])

    def slope(w: Floats) -> Floats:
        return np.array([np.clip(-y * expit(-y * w), -0.35, 0.35).mean()])

    def loss(w: Floats) -> float:
        return float(np.logaddexp(0, -y * w).mean())

    end = descended(slope, start, Pace(steps, 4.0))
    assert (round(loss(start), 3), round(float(end[0]), 2)) == (0.325, 3.21)
    assert 0.360 < loss(end) < 0.361


def test_the_bias_of_clipping_can_raise_a_softmax_loss() -> None:
    x, clip, wanted = np.array([-1.0, 0.25, 0.5]), 0.25, np.eye(3)[2]

    def slope(w: Floats) -> Floats:
        gradients = x[:, None] * (softmax(np.outer(x, w), axis=1) - wanted)
        lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
        return np.asarray((gradients * np.minimum(1, clip / lengths)).mean(axis=0))

    def loss(w: Floats) -> float:
        return float(-log_softmax(np.outer(x, w), axis=1)[:, 2].mean())

    end = descended(slope, np.zeros(3), Pace(16, 2.0))
    assert (round(loss(np.zeros(3)), 2), round(loss(end), 2)) == (1.1, 1.93)
