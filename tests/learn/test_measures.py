import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit, softmax
from scipy.stats import binom
from sklearn import metrics

from tidegate.learn.measures.estimates import Answers
from tidegate.learn.measures.measure import Measure, Measures, numbers_for
from tidegate.learn.score_cells import Bins, Cells
from tidegate.learn.score_kinds import measures_of as of_scores
from tidegate.learn.scores import Scores, score
from tidegate.privacy.budget import Allowance, ApproxDP, PureDP, allowance_of
from tidegate.privacy.noise import NotPrivateBits

Step = tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.bool_]]

DEFAULT = allowance_of(ApproxDP(1.0, 1e-6), Fraction(1, 20))
NUMBERS = tuple(numbers_for("classes"))
OUTSIDE = 0.0027
"""How often a normal variable is more than three deviations from its mean."""


def two_classes(
    rng: np.random.Generator,
    n: int,
    *,
    base: float,
    spread: float,
    slope: float = 1,
    shift: float = 0,
) -> Step:
    """Margins whose probabilities are right if the slope is 1 and the shift is 0."""
    truth = base + spread * rng.normal(size=n)
    y = (rng.random(n) < expit(truth)).astype(np.intp)
    return slope * truth + shift, y, rng.random(n) < 0.97


def more_classes(
    rng: np.random.Generator, n: int, *, classes: int, spread: float, slope: float = 1
) -> Step:
    truth = spread * rng.normal(size=(n, classes))
    truth[:, 0] += 1
    sums = softmax(truth, axis=1).cumsum(axis=1)
    y = (sums < rng.random((n, 1))).sum(axis=1).clip(max=classes - 1).astype(np.intp)
    return slope * truth, y, rng.random(n) < 0.97


def exact(
    margins: Any,
    y: Any,
    usable: Any,
    classes: int,
    *,
    bins: Bins | None = None,
    probabilities: bool = True,
) -> Measures:
    answers = Answers(margins, y, usable, classes, bins=bins, probabilities=probabilities)
    return Measures(answers)


STEPS: dict[str, Callable[[np.random.Generator, int], Step]] = {
    "balanced": lambda rng, n: two_classes(rng, n, base=0, spread=1.5),
    "one in four": lambda rng, n: two_classes(rng, n, base=-1.2, spread=0.7),
    "too sure": lambda rng, n: two_classes(rng, n, base=-1.2, spread=0.7, slope=3),
    "too timid": lambda rng, n: two_classes(rng, n, base=-0.5, spread=1.5, slope=0.3),
    "biased": lambda rng, n: two_classes(rng, n, base=-1.2, spread=0.7, shift=1.2),
    "rare class": lambda rng, n: two_classes(rng, n, base=-4, spread=1),
    "ten": lambda rng, n: more_classes(rng, n, classes=10, spread=3),
    "ten, too sure": lambda rng, n: more_classes(rng, n, classes=10, spread=3, slope=3),
    "ten, too timid": lambda rng, n: more_classes(rng, n, classes=10, spread=3, slope=0.4),
}


def classes_of(margins: NDArray[np.float64]) -> int:
    return 2 if margins.ndim == 1 else margins.shape[1]


def scored(step: Step, bits: NotPrivateBits, allowance: Allowance = DEFAULT) -> Scores:
    margins, y, usable = step
    return score(margins, y, usable, classes=classes_of(margins), allowance=allowance, bits=bits)


def without_noise(step: Step, allowance: Allowance) -> Scores:
    """The scores of a step as they would be if the noise happened to be 0."""
    margins, y, usable = step
    classes = classes_of(margins)
    counts, cells = Cells.of(classes, len(y), allowance).count(margins, y, usable)
    return Scores(slots=len(y), classes=classes, allowance=allowance, counts=counts, cells=cells)


def numbers(measures: Measures) -> dict[str, Measure | None]:
    """All numbers of the measures, by name."""
    found: dict[str, Measure | None] = {
        name: getattr(measures, name) for name in numbers_for("classes")
    }
    for k, each in enumerate(measures.calibration):
        found |= {
            f"predicted {k}": each.predicted,
            f"observed {k}": each.observed,
            f"share {k}": each.share,
        }
    for k, at in enumerate(measures.thresholds):
        found |= {
            f"precision {k}": at.precision,
            f"recall {k}": at.recall,
            f"flagged {k}": at.flagged,
        }
    if (matrix := measures.confusion) is not None:
        for i, j in np.ndindex(*matrix.counts.shape):
            value, deviation = matrix.counts[i, j], matrix.deviations[i, j]
            found[f"confusion {i} {j}"] = Measure(float(value), float(deviation))
    return found


def outside(name: str, n: int, steps: int) -> dict[str, int]:
    """How many of the simulated steps have each number more than 3 deviations from the truth."""
    rng, bits = np.random.default_rng(n), NotPrivateBits(n, len(name))
    found: dict[str, int] = {}
    for _ in range(steps):
        step = STEPS[name](rng, n)
        scores = scored(step, bits)
        truth = numbers(exact(*step, scores.classes, bins=scores.layout.bins))
        for key, measure in numbers(of_scores(scores)).items():
            right = truth[key]
            if measure is not None and right is not None:
                wrong = abs(measure.value - right.value) > 3 * measure.deviation
                found[key] = found.get(key, 0) + wrong
    return found


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("n", [1024, 4096])
def test_deviations_cover_the_truth(name: str, n: int) -> None:
    """40 steps; with normal noise, more than `most` outside by a chance below 1e-6 over all."""
    found = outside(name, n, 40)
    most = binom.isf(1e-6 / len(found) / len(STEPS) / 2, 40, OUTSIDE)
    assert {key: count for key, count in found.items() if count > most} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("n", [1024, 4096])
def test_of_1000_steps_at_most_13_are_outside(name: str, n: int) -> None:
    """More than 13 of 1,000 steps outside have a chance of 1e-6 for one number, if noise is normal.

    The cells of a confusion matrix of ten classes are a hundred numbers: one more is allowed.
    """
    found = outside(name, n, 1000)
    most = {key: 14 if key.startswith("confusion") else 13 for key in found}
    assert {key: count for key, count in found.items() if count > most[key]} == {}


@pytest.mark.parametrize("name", STEPS)
def test_exact_measures_are_those_of_scikit_learn(name: str) -> None:
    margins, y, usable = STEPS[name](np.random.default_rng(5), 3000)
    classes = classes_of(margins)
    ours = exact(margins, y, usable, classes)
    margins, y = margins[usable], y[usable]
    codes = margins > 0 if classes == 2 else margins.argmax(axis=1)
    shares = np.bincount(y, minlength=classes) / len(y)
    expected = {
        "accuracy": metrics.accuracy_score(y, codes),
        "majority": shares.max(),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, codes),
        "constant_log_loss": metrics.log_loss(y, np.tile(shares, (len(y), 1))),
        "unusable": 1 - usable.mean(),
    }
    if classes == 2:
        p = expit(margins)
        expected |= {
            "auc": metrics.roc_auc_score(y, margins),
            "brier": metrics.brier_score_loss(y, p),
            "bias": p.mean() - y.mean(),
        }
    table = np.stack([1 - p, p], axis=1) if classes == 2 else softmax(margins, axis=1)
    truth = table[np.arange(len(y)), y]
    expected["log_loss"] = -np.log(np.maximum(truth, 0.001)).mean()
    if truth.min() >= 0.001:
        assert expected["log_loss"] == pytest.approx(metrics.log_loss(y, table))
    for key, value in expected.items():
        assert getattr(ours, key).value == pytest.approx(value, abs=1e-9), key
    assert ours.confusion is not None
    assert np.array_equal(ours.confusion.counts, metrics.confusion_matrix(y, codes))
    for at in ours.thresholds:
        flagged = expit(margins) > at.probability
        assert at.flagged.value == pytest.approx(flagged.mean())
        if at.precision is not None and at.recall is not None:
            assert at.precision.value == pytest.approx(metrics.precision_score(y, flagged))
            assert at.recall.value == pytest.approx(metrics.recall_score(y, flagged))


@pytest.mark.parametrize("name", STEPS)
def test_without_noise_all_counts_are_exact_and_bins_hide_little(name: str) -> None:
    step = STEPS[name](np.random.default_rng(5), 20_000)
    scores = without_noise(step, Allowance("mu", 5.0))
    truth = numbers(exact(*step, scores.classes, bins=scores.layout.bins))
    for key, measure in numbers(of_scores(scores)).items():
        right = truth[key]
        if measure is None or right is None:
            continue
        hidden = {"log_loss": 0.01, "brier": 0.001, "auc": 0.003, "bias": 0.001}.get(key, 1e-6)
        if key.startswith("predicted"):  # the outermost bins state their middle
            hidden = 0.06
        assert measure.value == pytest.approx(right.value, abs=hidden), key


@given(st.integers(0, 2**32), st.sampled_from(list(STEPS)), st.sampled_from([1024, 8192]))
def test_accuracy_has_at_most_twice_the_deviation_of_a_single_count(
    seed: int, name: str, n: int
) -> None:
    rng = np.random.default_rng(seed)
    margins, y, _ = STEPS[name](rng, n)
    for allowance, single in [
        (DEFAULT, 1 / DEFAULT.amount),
        (allowance_of(PureDP(1.0), Fraction(1, 2)), 2**0.5 / 0.5),
    ]:
        accuracy = of_scores(without_noise((margins, y, np.ones(n, bool)), allowance)).accuracy
        assert accuracy is not None
        assert accuracy.deviation <= 2 * single / n * 1.05  # the single count has a fixed divisor


def test_unusable_records_are_neither_right_nor_wrong() -> None:
    usable = np.arange(1000) < 400
    found = exact(np.ones(1000), np.ones(1000, np.intp), usable, 2)
    noisy = of_scores(without_noise((np.ones(1000), np.ones(1000, np.intp), usable), DEFAULT))
    assert found.accuracy == Measure(1.0, 0.0)
    assert found.unusable == Measure(0.6, 0.0)
    assert noisy.accuracy is not None
    assert noisy.accuracy.value == pytest.approx(1)
    assert noisy.unusable.value == pytest.approx(0.6)


def test_without_usable_records_hardly_anything_is_defined() -> None:
    nothing: Step = (np.zeros(5), np.zeros(5, np.intp), np.zeros(5, bool))
    for found in (exact(*nothing, 2), of_scores(without_noise(nothing, DEFAULT))):
        defined = [name for name in NUMBERS if found.values[name] is not None]
        assert defined == ["unusable"]
        assert found.unusable.value == pytest.approx(1)
        json.dumps(found.as_json(), allow_nan=False)


def test_classes_without_noise_enough_leave_measures_open() -> None:
    step = STEPS["rare class"](np.random.default_rng(1), 1024)
    found = of_scores(without_noise(step, DEFAULT))  # 30 records of a class, noise of 50
    assert found.auc is None
    assert found.balanced_accuracy is None
    assert found.accuracy is not None


def test_margins_without_probabilities_give_no_measure_of_them() -> None:
    step = STEPS["balanced"](np.random.default_rng(1), 4096)
    found = exact(*step, 2, probabilities=False)
    assert found.log_loss is found.brier is found.bias is None
    assert len(found.calibration) == len(found.thresholds) == 0
    assert found.auc is not None


def test_many_classes_leave_out_the_cells_by_class() -> None:
    step = more_classes(np.random.default_rng(1), 4096, classes=100, spread=3)
    found = of_scores(scored(step, NotPrivateBits(1)))
    truth = exact(*step, 100)
    assert found.confusion is None
    assert found.balanced_accuracy is found.majority is None
    assert found.log_loss is not None
    assert truth.log_loss is not None
    assert abs(found.log_loss.value - truth.log_loss.value) < 5 * found.log_loss.deviation


def test_exact_and_noisy_measures_have_the_same_json() -> None:
    def shape(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shape(each) for key, each in value.items()}
        return [shape(each) for each in value] if isinstance(value, list) else type(value).__name__

    step = two_classes(np.random.default_rng(1), 16384, base=0, spread=3)  # records in every bin
    scores = scored(step, NotPrivateBits(1), Allowance("mu", 5.0))
    noisy = of_scores(scores).as_json()
    truth = exact(*step, 2, bins=scores.layout.bins).as_json()
    assert json.loads(json.dumps(noisy)) == noisy
    assert shape(noisy) == shape(truth)


def test_json_keeps_values_in_their_range() -> None:
    step = (np.full(1024, 9.0), np.ones(1024, np.intp), np.ones(1024, bool))
    values = [of_scores(scored(step, NotPrivateBits(seed))) for seed in range(20)]
    raw = [each.accuracy.value for each in values if each.accuracy is not None]
    assert max(raw) > 1
    assert all(0 <= each.as_json()["accuracy"]["value"] <= 1 for each in values)


@given(st.integers(0, 4), st.floats(0, 1))
def test_positions_say_where_in_its_bin_a_probability_is(level: int, p: float) -> None:
    for bins in (Bins.two(level), Bins.confidence(level, 10), Bins.truth(level)):
        low, high = np.array(bins.ends[:-1]), np.array(bins.ends[1:])
        places = np.arange(bins.count)
        assert np.all(bins.positions(low, places) == -0.5)
        assert np.all(bins.positions(high, places) == 0.5)
        inside = low + (high - low) * p
        assert np.all(
            np.diff([bins.positions(x, places) for x in (low, inside, high)], axis=0) >= 0
        )
