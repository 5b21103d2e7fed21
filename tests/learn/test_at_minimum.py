"""Gradients at a minimiser: how far it can lie from its center, and how far apart they can be."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.learn import Huber, Logistic, Softmax
from tidegate.learn.learner import Task, Terms
from tidegate.learn.loss import HuberError, Loss
from tidegate.learn.loss.at_minimum import half_apart, reach
from tidegate.learn.minimum import minimize
from tidegate.learn.output import OutputPerturbation
from tidegate.privacy.budget import Allowance

LOSSES = [Logistic(), Softmax(2), Softmax(3), Softmax(10)]
pulls = st.sampled_from([1e-3, 0.03, 0.3, 3.0])


def steepest(loss: Loss, center: float, pull: float) -> float:
    return loss.lipschitz_at_minimum(1.0, center_norm=center, regularization=pull)


@pytest.mark.parametrize("margin", [0.0, 0.3, 1.0, 2.0, 5.0, 30.0, 1e4, 1e12])
def test_half_apart_is_the_largest_of_the_curve(margin: float) -> None:
    """Angles from the direction of w, finely spaced near a right angle, where the best one is."""
    c = np.concatenate([np.geomspace(1e-13, 1, 20_000), [0.0]])
    with np.errstate(over="ignore"):
        curve = np.sqrt(1 - c * c) / (1 + np.exp(-margin * c))
    assert curve.max() <= half_apart(margin) <= curve.max() * (1 + 1e-6)


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.4, 1.0, 3.0, 9.0]), st.integers(1, 4))
def test_no_two_gradients_are_farther_apart(seed: int, margin: float, d: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(300, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows *= rng.choice([1.0, 0.9, 0.2], size=(300, 1))
    gradients = rows / (1 + np.exp(margin * rows[:, :1]))
    apart = np.linalg.norm(gradients[:, None] - gradients[None], axis=2).max()
    assert apart <= 2 * half_apart(margin)


def wrong_at_center(loss: Loss, n: int, d: int, center: float, seed: int) -> tuple[Any, Any, Any]:
    """Records that pull a minimiser away from its center, with some others among them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-12)
    y = rng.integers(max(2, loss.outputs), size=n)
    alike = rng.random(n) < 0.8
    X[alike], y[alike] = X[0], y[0]
    first = np.zeros(loss.shape(d))
    if loss.outputs == 1:
        first[:] = -center * X[0] * (2 * y[0] - 1)
    else:
        first[:, y[0]] = -center * math.sqrt(0.5) * X[0]
        first[:, (y[0] + 1) % loss.outputs] = center * math.sqrt(0.5) * X[0]
    return X, y, first


@given(
    st.sampled_from(LOSSES), st.integers(0, 2**32), pulls, st.sampled_from([0.0, 0.5, 3.0, 20.0])
)
def test_a_minimiser_is_within_reach(loss: Loss, seed: int, pull: float, center: float) -> None:
    X, y, first = wrong_at_center(loss, 1 + seed % 5, 1 + seed % 3, center, seed)
    found = minimize(
        loss, X, y, regularization=pull, center=first, norm=1.0, tolerance=1e-9
    ).weights
    slope = math.sqrt(2) if loss.outputs > 1 else 1.0
    odds = slope * center + (math.log(loss.outputs - 1) if loss.outputs > 1 else 0.0)
    limit = reach(slope=slope, odds=odds, regularization=pull)
    assert np.linalg.norm(found - first) <= limit + 1e-9 / pull


def test_reach_is_attained() -> None:
    """All records alike and wrong: 99.9 % of the bound, where lambda is the one that suits it."""
    ratios = []
    for pull in np.geomspace(0.02, 0.5, 40):
        X, y = np.ones((2, 1)), np.ones(2, np.intp)
        found = minimize(Logistic(), X, y, regularization=float(pull), norm=1.0, tolerance=1e-9)
        ratios.append(
            abs(float(found.weights[0])) / reach(slope=1.0, odds=0.0, regularization=float(pull))
        )
    assert 0.999 < max(ratios) <= 1 + 1e-6


@given(
    st.sampled_from([*LOSSES, Huber()]),
    st.integers(0, 2**32),
    pulls,
    st.sampled_from([0.0, 0.5, 3.0]),
)
def test_one_record_moves_a_minimiser_by_at_most_this(
    loss: Loss, seed: int, pull: float, center: float
) -> None:
    """Also from a prior, also by a record that cannot be used."""
    n, d = 1 + seed % 4, 1 + seed % 3
    X, y, first = wrong_at_center(loss, n, d, center, seed)
    rng = np.random.default_rng(seed)
    other, labels, usable = X.copy(), y.copy(), np.ones(n)
    kind = seed % 4
    if kind == 0:
        usable[0] = 0
    elif kind == 1:
        other[0] = -X[0]
    else:
        other[0] = rng.normal(size=d)
        other[0] /= np.linalg.norm(other[0]) * (1 + 1e-12)
        labels[0] = rng.integers(max(2, loss.outputs))
    tau = 1e-9
    options: Any = {"regularization": pull, "center": first, "norm": 1.0, "tolerance": tau}
    one = minimize(loss, X, y, **options).weights
    two = minimize(loss, other, labels, weights=usable, **options).weights
    limit = (steepest(loss, center, pull) / n + tau) / pull
    assert np.linalg.norm(one - two) <= limit


@pytest.mark.parametrize("loss", LOSSES)
def test_it_lies_between_half_of_g_and_g(loss: Loss) -> None:
    full = loss.lipschitz(1.0)
    for center in (0.0, 1.0, 50.0, 1e9):
        found = [steepest(loss, center, pull) for pull in (1e-9, 1e-3, 0.1, 1.0, 1e3)]
        assert found == sorted(found, reverse=True)
        assert all(full / 2 <= each <= full for each in found)
        assert steepest(loss, center, 0.1) <= steepest(loss, center + 1, 0.1)


@pytest.mark.parametrize("loss", [Huber(), Huber(2.0), HuberError()])
def test_losses_that_are_steep_at_margin_0_keep_g(loss: Loss) -> None:
    assert steepest(loss, 0.0, 1e3) == loss.lipschitz(1.0)


@pytest.mark.parametrize(("features", "least"), [(10, 0.33), (784, 0.46), (4096, 0.48)])
def test_how_much_noise_is_saved(features: int, least: float) -> None:
    """A pure fit of 1,024 records with epsilon 1, lambda left to the learner."""
    task = Task(loss=Logistic(), norm=1.0, regularization=None)
    old, new = (
        OutputPerturbation().settings(
            task, Terms(allowance=Allowance("epsilon", 1.0), rules=rules), n=1024, d=features
        )["noise_scale"]
        for rules in (1, 2)
    )
    assert least < 1 - new / old < 0.5


def test_half_of_a_distance_is_no_bound_for_a_record_that_is_removed() -> None:
    """The numbers of docs/proofs/minimiser.md: without its only record, the minimiser is c."""
    first, pull = np.array([-2.0]), 10.0
    found = minimize(Logistic(), [[1.0]], [1], regularization=pull, center=first, norm=1.0)
    moved = float(found.weights[0] - first[0])
    half = steepest(Logistic(), 2.0, pull) / (2 * pull)
    assert (round(moved, 5), round(half, 5)) == (0.04381, 0.03193)
    largest = 1 / (1 + math.exp(-(2.0 + reach(slope=1.0, odds=2.0, regularization=pull))))
    assert moved <= largest / (2 * pull)
