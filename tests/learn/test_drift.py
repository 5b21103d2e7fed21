"""The drift alarm: how often it rings by chance, and what it sees."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, ncx2

from tidegate.data.records import Records
from tidegate.learn.drift import (
    RATE,
    RATE_PARTS,
    VARIANCES,
    Drift,
    Errors,
    Spread,
    binomial,
    drift_of,
    drift_of_scores,
    highest,
    spread,
    threshold,
)
from tidegate.learn.preparation import Moments
from tidegate.learn.score_cells import Cells
from tidegate.learn.scores import Scores
from tidegate.learn.survey import Survey, scales, survey
from tidegate.learn.target_scores import score_targets
from tidegate.privacy.budget import Allowance, budget_of
from tidegate.privacy.noise import NotPrivateBits

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Source:
    """Records that take one of a few values: a step's sums follow from how often each occurs.

    Attributes:
        rows: The features of each value, of norm at most 1.
        chances: How likely each value is.
        y: The class of each value; -1 if it is unusable.
    """

    rows: Floats
    chances: Floats
    y: NDArray[np.intp]
    classes: int = 2

    def survey(self, n: int, allowance: Allowance, rng: np.random.Generator) -> Survey:
        """The survey of a step, with noise from an ordinary generator: exact noise is slow."""
        rows = self.rows * (self.y >= 0)[:, None]
        labels = np.where(self.y >= 0, self.y, self.classes)
        tallies = np.eye(self.classes + 1)[labels]
        squares = rows * rows
        values = np.hstack([rows, squares, tallies, squares.sum(axis=1, keepdims=True)])
        exact = rng.multinomial(n, self.chances) @ values
        d, each = rows.shape[1], scales(allowance, features=rows.shape[1])
        sizes = [d, d, self.classes + 1, 1]
        draw = rng.laplace if allowance.unit == "epsilon" else rng.normal
        cells = exact + np.repeat(each, sizes) * draw(size=sum(sizes))
        return Survey(slots=n, classes=self.classes, allowance=allowance, cells=cells)

    def moments(
        self, n: int, steps: int, allowance: Allowance, rng: np.random.Generator
    ) -> Moments:
        before = Moments.before_first(self.rows.shape[1], self.classes)
        for _ in range(steps):
            before = before.after(self.survey(n, allowance, rng))
        return before


def rare(n: int) -> Source:
    """One-hot rows, each about once in one, three or thirty steps; one class and fault as rare."""
    chances = np.array([1 / n, 1 / (3 * n), 1 / (30 * n), 1 / (3 * n), 0.5 / n, 0.0])
    chances[-1] = 1 - chances.sum()
    rows = np.vstack([np.eye(5), np.zeros(5)])
    return Source(rows, chances, np.array([0, 0, 0, 1, -1, 0]))


def far(n: int) -> Source:
    """All rows at one point near the sphere, but for a few at the opposite one."""
    chances = np.array([1 - 2 / n, 2 / n])
    return Source(np.array([[0.7, 0.7], [-0.7, -0.7]]), chances, np.array([0, 1]))


def even(n: int) -> Source:
    """Rows and classes that are spread evenly: the largest variances that there are."""
    del n
    corners = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)]) / 1.75
    return Source(corners, np.full(8, 1 / 8), np.array([0, 1, 0, 1, -1, -1, 0, 1]))


SOURCES = [rare, far, even]
ALLOWANCES = [
    Allowance("mu", 1e4),  # hardly any noise: sampling is all
    Allowance("mu", 0.5),
    Allowance("epsilon", 1e4),
    Allowance("epsilon", 0.5),
]
TRIALS = 60


def most(trials: int, rate: float) -> int:
    """A count that the number of false alarms exceeds with probability at most 1e-6."""
    return int(binom.isf(1e-6, trials, rate))


@pytest.mark.parametrize("allowance", ALLOWANCES, ids=str)
@pytest.mark.parametrize("n", [64, 1024, 8192])
@pytest.mark.parametrize("source", SOURCES)
def test_alarms_without_drift_are_as_rare_as_stated(
    source: Callable[[int], Source], n: int, allowance: Allowance
) -> None:
    rng, drawn = np.random.default_rng(), source(n)
    rates = {RATE: 0, 0.3: 0}
    for trial in range(TRIALS):
        before = drawn.moments(n, 1 + trial % 3 * 4, allowance, rng)
        now = drawn.survey(n, allowance, rng)
        for rate in rates:
            found = drift_of(before, now, rate=rate)
            assert found is not None
            rates[rate] += found.alarm
    for rate, count in rates.items():
        assert count <= most(TRIALS, rate), rate


def test_a_normal_approximation_would_ring_too_often() -> None:
    """Why the thresholds are not z-scores: rare features, variances plugged in, no noise."""
    rng, n, alarms = np.random.default_rng(), 64, 0
    for _ in range(1000):
        old, new = rng.binomial(n, 1 / n), rng.binomial(n, 1 / n)
        share = old / n
        deviation = math.sqrt(2 * share * (1 - share) / n)
        alarms += abs(new - old) / n > 3.29 * deviation  # one cell, rate 1/1000
    assert alarms > 10 * most(1000, 1 / 1000)


@pytest.mark.parametrize("unit", ["mu", "epsilon"])
@pytest.mark.parametrize("chance", [0.001, 0.1, 0.5, 0.98])
def test_bounds_on_means_and_variances_hold_as_often_as_stated(unit: str, chance: float) -> None:
    rng, n, x, trials = np.random.default_rng(), 500, math.log(10), 4000
    draw = rng.laplace if unit == "epsilon" else rng.normal
    scale = 0.02
    means = rng.binomial(n, chance, trials) / n + scale * draw(size=trials)
    deviation = scale * (math.sqrt(2) if unit == "epsilon" else 1)
    noise = spread(deviation**2, deviation, unit)
    assert (highest(means, n, noise, x) < chance).sum() <= most(trials, 0.1)
    variance = chance * (1 - chance)
    assert (binomial(means, n, noise, x) < variance).sum() <= most(trials, 0.2)


@given(
    mean=st.floats(-1, 2),
    count=st.floats(1, 1e6),
    deviation=st.floats(0, 1),
    reach=st.floats(0, 1),
    x=st.floats(0.1, 30),
)
def test_the_bound_on_a_mean_solves_its_inequality(
    mean: float, count: float, deviation: float, reach: float, x: float
) -> None:
    high = float(highest(mean, count, Spread(deviation**2, reach), x))
    assert 0 <= high <= 1
    for truth in np.linspace(0, 1, 21):
        allowed = math.sqrt(2 * x * (truth / count + deviation**2)) + reach * x
        if truth - mean <= allowed - 1e-9:
            assert truth <= high + 1e-9


@pytest.mark.parametrize("x", [1.0, 5.0, 12.0])
def test_the_bound_on_a_shifted_norm_is_above_the_exact_quantile(x: float) -> None:
    for d in (1, 10, 150):
        for shift in (0.0, 3.0, 200.0):
            bound = d + shift + 2 * math.sqrt((d + 2 * shift) * x) + 2 * x
            assert ncx2.sf(bound, d, shift) <= math.exp(-x)


def test_the_weights_of_a_forgetting_mean_are_bounded_by_its_sum() -> None:
    for steps in range(1, 40):
        weights = Moments.KEEP ** np.arange(steps)
        assert 100 * (weights**2).sum() / (100 * weights.sum()) ** 2 <= 1 / (100 * weights.sum())


def test_the_parts_of_the_rate_add_up() -> None:
    assert math.isclose(sum(RATE_PARTS.values()) + VARIANCES, 1)


def share(part: Fraction) -> Allowance:
    return Allowance("mu", budget_of(1.0, 1e-6).of_share(part))


def cube(d: int) -> Source:
    """Rows with d features of mean 0 and deviation 1 / sqrt(d), and a quarter in class 1."""
    rows = np.random.default_rng(5).choice([-1.0, 1.0], (500, d)) / math.sqrt(d) / 1.001
    rows = np.vstack([rows, -rows])
    return Source(rows, np.full(1000, 1 / 1000), (np.arange(1000) % 4 == 0).astype(np.intp))


def shifted(now: Survey, cells: slice, by: float) -> Survey:
    """The survey of a step whose means have moved."""
    moved = now.cells.copy()
    moved[cells] += by * now.slots
    return replace(now, cells=moved)


@pytest.mark.parametrize(
    ("n", "cells", "by", "what"),
    [
        (1024, slice(3, 4), 0.50, "features"),
        (8192, slice(3, 4), 0.07, "features"),
        (1024, slice(0, 150), 0.06, "features"),  # less than one deviation of a feature
        (8192, slice(0, 150), 0.0125, "features"),
        (8192, slice(300, 301), -0.12, "classes"),
        (8192, slice(302, 303), 0.12, "unusable records"),
        (8192, slice(303, 304), -0.12, "features"),
    ],
)
def test_drift_is_seen_and_named(n: int, cells: slice, by: float, what: str) -> None:
    """With features of norm 1 and a share of 1/20 of (1, 1e-6); misses have a chance below 1e-6."""
    rng, source, allowance = np.random.default_rng(), cube(150), share(Fraction(1, 20))
    before, now = source.moments(n, 20, allowance, rng), source.survey(n, allowance, rng)
    found = drift_of(before, shifted(now, cells, by))
    assert found is not None
    assert found.alarm
    assert found.what == what
    assert found.rate == RATE


@pytest.mark.parametrize("steps", [1, 12])
@pytest.mark.parametrize(
    "allowance", [Allowance("epsilon", 1e4), Allowance("epsilon", 0.5)], ids=str
)
@pytest.mark.parametrize(
    ("kind", "cell", "variance"),
    [("sums", 0, 12 / 49 - 1 / 49), ("counts", 6, 0.375 * 0.625), ("counts", 8, 0.25 * 0.75)],
)
def test_thresholds_are_those_of_known_variances_and_little_more(
    steps: int, allowance: Allowance, kind: str, cell: int, variance: float
) -> None:
    """A reference with the true variance and all weights, in which no term is left out."""
    rng, source, n = np.random.default_rng(), even(1), 2**17
    before, now = source.moments(n, steps, allowance, rng), source.survey(n, allowance, rng)
    now = shifted(now, slice(cell, cell + 1), 3.0)
    found = drift_of(before, now)
    assert found is not None
    weights = Moments.KEEP ** np.arange(steps)
    weights /= weights.sum() * n
    cells = 3  # features, or classes and unusable records
    scale = getattr(scales(allowance, features=3), kind)
    noise = 2 * scale**2 * (1 / n**2 + (weights**2).sum())
    sampling = variance * (1 / n + n * (weights**2).sum())
    x = math.log(2 * cells / (RATE_PARTS[kind] * RATE))
    reference = math.sqrt(2 * x * (noise + sampling)) + x * scale / n
    gap = abs(now.cells[cell] / n - before.cells[cell] / before.cells[-2])
    assert reference <= gap / found.statistic <= 1.1 * reference


def test_the_first_step_has_nothing_before_it() -> None:
    rng, source, allowance = np.random.default_rng(), even(1), Allowance("mu", 1.0)
    now = source.survey(100, allowance, rng)
    assert drift_of(Moments.before_first(3, 2), now) is None
    counted = scores(100, 50, Allowance("mu", 1.0), rng)
    assert drift_of_scores(Errors(), counted) is None


def test_real_surveys_are_compared() -> None:
    def surveyed(center: float, seed: int) -> Survey:
        X = np.random.default_rng(seed).uniform(-0.1, 0.1, (4096, 2))
        X[:, 0] += center
        records = Records(X, np.zeros(4096, np.intp), np.ones(4096, np.bool_))
        bits = NotPrivateBits(seed)
        return survey(records, norm=1.0, classes=2, allowance=Allowance("mu", 1.0), bits=bits)

    before = Moments.before_first(2, 2).after(surveyed(0.5, 1)).after(surveyed(0.5, 2))
    same, other = drift_of(before, surveyed(0.5, 3)), drift_of(before, surveyed(0.6, 4))
    assert same is not None
    assert other is not None
    assert (same.alarm, same.what) == (False, "")
    assert (other.alarm, other.what) == (True, "features")


def scores(n: int, wrong: float, allowance: Allowance, rng: np.random.Generator) -> Scores:
    """Scores with this many wrong answers, plus noise."""
    layout = Cells.of(2, n, allowance)
    blank = Scores(
        slots=n, classes=2, allowance=allowance, counts=np.zeros(3), cells=np.zeros(layout.size)
    )
    if allowance.unit == "epsilon":
        noise = rng.laplace(scale=blank.count_deviation / math.sqrt(2), size=3)
    else:
        noise = rng.normal(scale=blank.count_deviation, size=3)
    return replace(blank, counts=np.array([n - wrong, wrong, 0]) + noise)


@pytest.mark.parametrize("allowance", ALLOWANCES, ids=str)
@pytest.mark.parametrize("n", [64, 8192])
@pytest.mark.parametrize("last", [0.003, 0.2, 0.9])
def test_accuracy_alarms_are_as_rare_as_stated(n: int, last: float, allowance: Allowance) -> None:
    """The models get better, or stay as good; each is scored on records of its own."""
    rng, rates = np.random.default_rng(), {RATE: 0, 0.3: 0}
    for trial in range(300):
        chances = np.linspace(last if trial % 2 else min(2 * last, 1), last, 1 + trial % 7)
        before = Errors()
        for chance in chances:
            before = before.after(scores(n, rng.binomial(n, chance), allowance, rng))
        now = scores(n, rng.binomial(n, last), allowance, rng)
        for rate in rates:
            found = drift_of_scores(before, now, rate=rate)
            assert found is not None
            rates[rate] += found.alarm
    for rate, count in rates.items():
        assert count <= most(300, rate), rate


def test_a_loss_of_accuracy_is_seen_and_a_gain_is_none() -> None:
    rng, n, allowance = np.random.default_rng(), 8192, share(Fraction(1, 20))
    before = Errors()
    for _ in range(20):
        before = before.after(scores(n, rng.binomial(n, 0.2), allowance, rng))
    worse = drift_of_scores(before, scores(n, rng.binomial(n, 0.32), allowance, rng))
    better = drift_of_scores(before, scores(n, rng.binomial(n, 0.05), allowance, rng))
    assert worse is not None
    assert better is not None
    assert (worse.alarm, worse.what) == (True, "accuracy")
    assert (better.alarm, better.what, better.statistic) == (False, "", 0.0)


def target_scores(n: int, error: float, rng: np.random.Generator, allowance: Allowance) -> Any:
    """Scores of predictions that are off by a random part of the range, with this mean."""
    truth = rng.uniform(-1, 1, n)
    wrong = rng.beta(1, 1 / error - 1, n)
    predictions = np.where(truth > 0, truth - 2 * wrong, truth + 2 * wrong)
    return score_targets(
        predictions, truth, np.ones(n, np.bool_), low=0.0, high=1.0, allowance=allowance,
        bits=NotPrivateBits(int(rng.integers(2**32))),
    )  # fmt: skip


def test_larger_errors_of_a_regression_are_seen_and_smaller_ones_are_none() -> None:
    """Mean errors of 10 %, then 25 % or 2 % of the range: noise is 0.7 %, the threshold 3 %."""
    rng, n, allowance = np.random.default_rng(), 8192, share(Fraction(1, 20))
    before = Errors()
    for _ in range(20):
        before = before.after(target_scores(n, 0.1, rng, allowance))
    worse = drift_of_scores(before, target_scores(n, 0.25, rng, allowance))
    better = drift_of_scores(before, target_scores(n, 0.02, rng, allowance))
    assert worse is not None
    assert better is not None
    assert (worse.alarm, worse.what) == (True, "errors")
    assert (better.alarm, better.what) == (False, "")


@pytest.mark.parametrize("allowance", ALLOWANCES, ids=str)
def test_alarms_of_errors_are_as_rare_as_stated(allowance: Allowance) -> None:
    rng, rates = np.random.default_rng(), {RATE: 0, 0.3: 0}
    for trial in range(100):
        before = Errors()
        for _ in range(1 + trial % 4):
            before = before.after(target_scores(256, 0.1, rng, allowance))
        now = target_scores(256, 0.1, rng, allowance)
        for rate in rates:
            found = drift_of_scores(before, now, rate=rate)
            assert found is not None
            rates[rate] += found.alarm
    for rate, count in rates.items():
        assert count <= most(100, rate), rate


def test_two_drifts_of_a_step_become_one() -> None:
    one, other = Drift(statistic=0.5, rate=RATE), Drift(statistic=2.0, rate=RATE, what="classes")
    assert one.beside(None) == one
    assert (
        one.beside(other)
        == other.beside(one)
        == Drift(statistic=2.0, rate=2 * RATE, what="classes")
    )
    assert 2 * RATE == 1 / 1000


def test_a_sum_passes_its_threshold_as_rarely_as_stated() -> None:
    rng, x, trials = np.random.default_rng(), math.log(20), 20_000
    terms = rng.laplace(size=(trials, 3)).sum(axis=1)
    assert (terms > threshold(6.0, 1.0, x)).sum() <= most(trials, 0.05)
    assert (rng.normal(size=trials) > threshold(1.0, 0.0, x)).sum() <= most(trials, 0.05)
