"""Descents do not swing: the proof is in docs/proofs/descent.md, and old rules break these laws."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit, j1

from tidegate.learn.descent import (
    MAX_PROVED_FEATURES,
    MAX_STEPS,
    Course,
    Pace,
    fastest_rate,
    travel,
)

Floats = NDArray[np.float64]

LEAST_FACTOR = -0.14
"""A little below the least value of 2 J1(z)/z, -0.1323: how far an error may change its sign."""


def descended(gradient: Any, start: Floats, pace: Pace) -> Floats:
    """A descent without noise, as `descend` makes it."""
    weights, velocity = start, np.zeros_like(start)
    for j in range(pace.steps):
        momentum = j / (j + 3)
        velocity = momentum * velocity - pace.rate * gradient(weights + momentum * velocity)
        weights = weights + velocity
    return weights


@st.composite
def courses(draw: st.DrawFn, *, features: int = 6) -> Course:
    return Course(
        horizon=draw(st.floats(1e-3, 1e7)),
        smoothness=draw(st.floats(1e-3, 1e3)),
        regularization=draw(st.sampled_from([0.0, 1e-4, 0.1, 10.0])),
        features=features,
        target=draw(st.booleans()),
        continues=draw(st.booleans()),
        surveyed=draw(st.booleans()),
    )


@given(course=courses(), share=st.floats(0, 1))
def test_no_direction_of_a_quadratic_is_overshot(course: Course, share: float) -> None:
    # A direction whose curvature is `share` of the bound, and the pull of the regulariser.
    pace = course.pace(steps=None, rate=None)
    curvature = share * course.smoothness + 2 * course.regularization
    left = descended(lambda w: curvature * w, np.ones(1), pace)
    assert LEAST_FACTOR <= left[0] <= 1


def test_the_rules_before_overshot() -> None:
    course = Course(
        horizon=250.0,
        smoothness=0.25,
        regularization=0.0,
        features=6,
        target=False,
        continues=True,
        surveyed=True,
    )
    pace = course.earlier_pace(steps=None, rate=None)
    assert (pace.steps, round(pace.rate)) == (2, 111)
    left = descended(lambda w: 0.25 * w, np.ones(1), pace)
    assert abs(left[0]) > 100


@given(course=courses(), steps=st.none() | st.integers(1, 400), wide=st.booleans())
def test_the_rate_is_never_raised_for_a_longer_way(
    course: Course, *, steps: int | None, wide: bool
) -> None:
    features = MAX_PROVED_FEATURES + 1 if wide else 6
    course = Course(**{**vars(course), "features": features})
    pace = course.pace(steps=steps, rate=None)
    fastest = fastest_rate(
        smoothness=course.smoothness,
        regularization=course.regularization,
        features=features,
        target=course.target,
    )
    assert pace.rate <= fastest
    assert pace.rate * travel(pace.steps) <= course.horizon * (1 + 1e-9)
    if steps is None:
        assert pace.steps <= MAX_STEPS
        covered = pace.rate * travel(pace.steps) >= course.horizon * (1 - 1e-9)
        assert covered or pace.steps == MAX_STEPS


@given(steps=st.integers(1, MAX_STEPS), rate=st.floats(1e-3, 1e3), horizon=st.floats(1e-3, 1e7))
def test_given_steps_and_rates_are_kept(steps: int, rate: float, horizon: float) -> None:
    course = Course(
        horizon=horizon,
        smoothness=0.25,
        regularization=0.0,
        features=6,
        target=False,
        continues=True,
        surveyed=True,
    )
    assert course.pace(steps=steps, rate=rate) == (steps, rate)
    assert course.pace(steps=None, rate=rate).rate == rate


@cache
def responses(steps: int, curvature: float) -> Floats:
    """What one unit of noise in each step's gradient adds to the last weights, at rate 1."""
    found = np.empty(steps)
    for at in range(steps):
        weights = velocity = 0.0
        for j in range(steps):
            momentum = j / (j + 3)
            slope = curvature * (weights + momentum * velocity) + (j == at)
            velocity = momentum * velocity - slope
            weights += velocity
        found[at] = -weights
    return found


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 16, 64])
def test_curvature_only_damps_the_noise(steps: int) -> None:
    flat = np.linalg.norm(responses(steps, 0.0))
    for curvature in np.linspace(0, 1, 41):
        assert np.linalg.norm(responses(steps, float(curvature))) <= flat * (1 + 1e-12)


def test_the_least_factor_is_that_of_the_limit() -> None:
    z = np.linspace(1e-6, 60, 60_001)
    assert -0.1324 < float((2 * j1(z) / z).min()) < -0.1322


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

    course = Course(
        horizon=horizon,
        smoothness=0.25,
        regularization=0.0,
        features=3,
        target=False,
        continues=True,
        surveyed=True,
    )
    start = rng.normal(size=3)
    end = descended(slope, start, course.pace(steps=None, rate=None))
    assert loss(end) <= loss(start) + 1e-9
