"""Measures of a regression: right without noise, and within their deviations with it."""

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn import metrics

from tidegate.learn.measures.measure import Ends, Measures, numbers_for
from tidegate.learn.measures.sums import Predictions
from tidegate.learn.score_kinds import measures_of as of_scores
from tidegate.learn.slot_weights import Owned, person_weights
from tidegate.learn.target_scores import TargetScores, exact_sums, parts_of, score_targets
from tidegate.privacy.budget import Allowance, ApproxDP, allowance_of
from tidegate.privacy.noise import NotPrivateBits

Floats = NDArray[np.float64]
Step = tuple[Floats, Floats, NDArray[np.bool_]]

LOW, HIGH = -60.0, 180.0
DEFAULT = allowance_of(ApproxDP(1.0, 1e-6), Fraction(1, 20))
OUTSIDE = 0.0027
"""How often a normal variable is more than three deviations from its mean."""


def linear(
    rng: np.random.Generator,
    n: int,
    *,
    middle: float,
    spread: float,
    noise: float,
    shift: float = 0,
) -> Step:
    """Predictions that explain a part of the spread of the targets."""
    told = middle + spread * rng.normal(size=n)
    truth = (told + noise * rng.normal(size=n)).clip(-1, 1)
    return told + shift, truth, rng.random(n) < 0.97


STEPS: dict[str, Callable[[np.random.Generator, int], Step]] = {
    "good": lambda rng, n: linear(rng, n, middle=0, spread=0.4, noise=0.2),
    "late": lambda rng, n: linear(rng, n, middle=-0.45, spread=0.1, noise=0.28),
    "biased": lambda rng, n: linear(rng, n, middle=0.2, spread=0.2, noise=0.2, shift=0.3),
    "useless": lambda rng, n: linear(rng, n, middle=0, spread=0.0, noise=0.3),
    "wild": lambda rng, n: linear(rng, n, middle=0, spread=2.0, noise=2.0),
    "narrow": lambda rng, n: linear(rng, n, middle=0.9, spread=0.02, noise=0.02),
    "perfect": lambda rng, n: linear(rng, n, middle=0, spread=0.3, noise=0.0),
}


NUMBERS = tuple(numbers_for("target"))


def exact(predictions: Any, truths: Any, usable: Any, *, low: float, high: float) -> Measures:
    return Measures(Predictions(predictions, truths, usable, Ends(low, high)))


def scored(step: Step, bits: NotPrivateBits, allowance: Allowance = DEFAULT) -> TargetScores:
    return score_targets(*step, low=LOW, high=HIGH, allowance=allowance, bits=bits)


def without_noise(step: Step, allowance: Allowance) -> TargetScores:
    """The scores of a step as they would be if the noise happened to be 0."""
    slots = len(step[2])
    sums, cells = exact_sums(*step, parts=parts_of(slots, allowance))
    return TargetScores(
        slots=slots, low=LOW, high=HIGH, allowance=allowance, sums=sums, cells=cells
    )


def numbers(measures: Measures) -> dict[str, Any]:
    return {name: getattr(measures, name) for name in NUMBERS}


def outside(name: str, n: int, steps: int) -> dict[str, int]:
    """How many of the simulated steps have each number more than 3 deviations from the truth."""
    rng, bits = np.random.default_rng(n), NotPrivateBits(n, len(name))
    found = dict.fromkeys(NUMBERS, 0)
    for _ in range(steps):
        step = STEPS[name](rng, n)
        truth = numbers(exact(*step, low=LOW, high=HIGH))
        for key, measure in numbers(of_scores(scored(step, bits))).items():
            if measure is not None and truth[key] is not None:
                off = abs(measure.value - truth[key].value)
                found[key] += off > 3 * measure.deviation * (1 + 1e-9)
    return found


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("n", [1024, 4096])
def test_deviations_cover_the_truth(name: str, n: int) -> None:
    """200 steps; with normal noise, more than `most` outside by a chance below 1e-6 over all."""
    found = outside(name, n, 200)
    most = binom.isf(1e-6 / len(NUMBERS) / len(STEPS) / 2, 200, OUTSIDE)
    assert {key: count for key, count in found.items() if count > most} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("n", [256, 1024, 4096])
def test_of_2000_steps_few_are_outside(name: str, n: int) -> None:
    found = outside(name, n, 2000)
    most = binom.isf(1e-6 / len(NUMBERS) / len(STEPS) / 3, 2000, OUTSIDE)
    assert {key: count for key, count in found.items() if count > most} == {}


@pytest.mark.parametrize("name", STEPS)
def test_exact_measures_are_those_of_scikit_learn(name: str) -> None:
    p, t, usable = STEPS[name](np.random.default_rng(5), 3000)
    ours = exact(p, t, usable, low=LOW, high=HIGH)
    predicted, truth = (60 + 120 * each[usable].clip(-1, 1) for each in (p, t))
    expected = {
        "mae": metrics.mean_absolute_error(truth, predicted),
        "rmse": metrics.root_mean_squared_error(truth, predicted),
        "constant_rmse": truth.std(),
        "r2": metrics.r2_score(truth, predicted),
        "mean_error": (predicted - truth).mean(),
        "mean_target": truth.mean(),
        "unusable": 1 - usable.mean(),
    }
    for key, value in expected.items():
        assert getattr(ours, key).value == pytest.approx(value, abs=1e-9), key
    assert ours.table.counts.sum() == usable.sum()
    edges = np.linspace(LOW, HIGH, 9)
    counted = np.histogram2d(truth, predicted, bins=(edges, edges))[0]
    assert np.array_equal(ours.table.counts, counted)


@pytest.mark.parametrize("name", STEPS)
def test_without_noise_only_the_lattice_is_left(name: str) -> None:
    step = STEPS[name](np.random.default_rng(5), 20_000)
    found = numbers(of_scores(without_noise(step, Allowance("mu", 9.0))))
    for key, right in numbers(exact(*step, low=LOW, high=HIGH)).items():
        close = 1e-2 if name == "narrow" and key == "r2" else 1e-3
        assert found[key].value == pytest.approx(right.value, abs=close), key
        assert abs(found[key].value - right.value) <= 3 * found[key].deviation + 1e-12, key


def test_without_usable_records_hardly_anything_is_defined() -> None:
    nothing: Step = (np.zeros(5), np.zeros(5), np.zeros(5, bool))
    scores = without_noise(nothing, DEFAULT)
    for found in (exact(*nothing, low=LOW, high=HIGH), of_scores(scores)):
        defined = [name for name in NUMBERS if getattr(found, name) is not None]
        assert defined == ["unusable"]
        assert found.unusable.value == pytest.approx(1)
        json.dumps(found.as_json(), allow_nan=False)


def test_targets_that_are_all_equal_leave_r2_open() -> None:
    step: Step = (np.full(4096, 0.25), np.full(4096, 0.5), np.ones(4096, bool))
    for found in (exact(*step, low=LOW, high=HIGH), of_scores(scored(step, NotPrivateBits(1)))):
        assert found.r2 is None
        assert found.mae is not None
        assert found.mae.value == pytest.approx(30, abs=5 * found.mae.deviation + 1e-9)


def test_deviations_are_small_enough_to_be_of_use() -> None:
    """Share 1/20 of (1, 1e-6), a step of 16,384 records late by minutes: see the proof page."""
    step = STEPS["late"](np.random.default_rng(0), 16_384)
    found = of_scores(without_noise(step, DEFAULT))
    limits = {
        "mae": 0.9,
        "rmse": 2.0,
        "mean_error": 0.9,
        "mean_target": 0.7,
        "constant_rmse": 1.3,
        "r2": 0.14,
    }
    for name, limit in limits.items():
        assert getattr(found, name).deviation < limit, name


@pytest.mark.parametrize("seed", range(3))
def test_measures_are_over_persons(seed: int) -> None:
    """Nine in ten slots are those of few persons, on whom the model is wrong."""
    rng, n = np.random.default_rng(seed), 40_000
    many = rng.random(n) < 0.9
    owners = np.where(many, rng.integers(1, 60, n), 1000 + np.arange(n)).astype(np.uint64)
    owned = Owned(np.column_stack([owners, owners]), np.ones(n, np.bool_))
    weights = person_weights(owned, [(n, 1.0)])
    truth = rng.uniform(-0.5, 0.5, n)
    told = np.where(many, truth + 0.5, truth)
    found = score_targets(
        told, truth, np.ones(n, bool), low=LOW, high=HIGH, allowance=Allowance("mu", 0.5),
        bits=NotPrivateBits(seed), person_weights=weights,
    )  # fmt: skip
    persons = 59 + (~many).sum()
    assert abs(found.total - persons) < 6 * 2**0.5 * found.deviations.usable
    measures = of_scores(found)
    assert measures.mae is not None
    right = 240 * 0.25 * 59 / persons
    assert abs(measures.mae.value - right) < 6 * measures.mae.deviation + 0.05


def test_exact_and_noisy_measures_have_the_same_json() -> None:
    step = STEPS["good"](np.random.default_rng(1), 4096)
    scores = scored(step, NotPrivateBits(1), Allowance("mu", 5.0))
    noisy, truth = of_scores(scores).as_json(), exact(*step, low=LOW, high=HIGH).as_json()
    assert json.loads(json.dumps(noisy)) == noisy
    assert list(noisy) == list(truth)
    assert noisy["mae"].keys() == truth["mae"].keys()
    assert noisy["target"] == [LOW, HIGH]


@pytest.mark.parametrize("width", [1e-6, 3.0, 1e9, 2.0**1000])
def test_json_has_digits_for_any_unit(width: float) -> None:
    step = STEPS["good"](np.random.default_rng(1), 1000)
    found = exact(*step, low=-width / 2, high=width / 2)
    assert found.mae is not None
    assert found.as_json()["mae"]["value"] == pytest.approx(found.mae.value, rel=1e-3)


def test_json_keeps_values_in_their_range() -> None:
    step = STEPS["perfect"](np.random.default_rng(1), 1024)
    found = [of_scores(scored(step, NotPrivateBits(seed))) for seed in range(20)]
    assert min(each.mae.value for each in found if each.mae is not None) < 0
    assert all(each.as_json()["mae"]["value"] >= 0 for each in found)
