"""The refit: exact sums, sensitivities, what it spends, and that it corrects a model."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tidegate.data.records import Records
from tidegate.features import clip_rows
from tidegate.learn import GradientPerturbation, Huber, Logistic, Loss, Softmax, refit
from tidegate.learn.exact import exact_bits
from tidegate.learn.gradient import descend, deviation
from tidegate.learn.learner import Task, Terms
from tidegate.learn.refit import (
    Box,
    Exact,
    Fold,
    after,
    classes_of,
    fold_for,
    left_for_descent,
    summed,
)
from tidegate.learn.transform import Transform
from tidegate.privacy.budget import Allowance
from tidegate.privacy.noise import NotPrivateBits
from tidegate.privacy.person import EACH_RECORD, Person, Protects
from tidegate.schedule import SlotWeight, Span

Floats = NDArray[np.float64]
LOSSES: list[Loss] = [Logistic(), Softmax(2), Softmax(3), Softmax(10)]
losses = st.sampled_from(LOSSES)
seeds = st.integers(0, 2**32)
SAME = Transform.of(np.zeros(4), np.ones(4))


def records(seed: int, n: int, classes: int, *, weighted: bool = False) -> Records:
    """Transformed records, some of them unusable."""
    rng = np.random.default_rng(seed)
    usable = rng.random(n) < 0.9
    X = np.asarray(clip_rows(rng.normal(size=(n, 4)), 1.0)) * usable[:, None]
    weights = rng.uniform(0.01, 1, size=n) if weighted else None
    return SAME.records(Records(X, rng.integers(classes, size=n) * usable, usable, weights))


def exact(data: Records) -> Exact:
    return Exact.of(data, bits=20, weighted=data.slot_weights is not None)


def model(seed: int, loss: Loss, size: float) -> Floats:
    return size * np.random.default_rng(seed + 1).normal(size=loss.shape(5))


def naive(data: Records, w: Floats, loss: Loss, fold: Fold) -> Iterator[Floats]:
    """The clipped vector of each slot, by its definition."""
    classes = classes_of(loss)
    box, X = Box(classes), np.asarray(exact(data).rows)
    for row, y, usable in zip(X, data.y, data.usable, strict=True):
        parts, last = row[:-1] @ w[:-1], Transform.CONSTANT * w[-1]
        if not usable:
            yield np.zeros(len(box.low))
            continue
        if classes == 2:
            if np.ndim(parts):
                parts, last = parts[1] - parts[0], last[1] - last[0]
            z = math.exp(fold.temperature) * parts
            p = 1 / (1 + math.exp(-min(max(z + last + fold.shift, -700), 700)))
            vector = [(p - y) * z, p * (1 - p) * z * z, p - y, p * (1 - p) * z]
        else:
            z = math.exp(fold.temperature) * (parts + last)
            z = z - z.mean()
            p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
            e = p - np.eye(classes)[y]
            vector = [e @ z, (p * z * z).sum() - (p @ z) ** 2]
        yield np.clip(vector, box.low, box.high)


@given(seeds, losses, st.floats(-1, 1), st.floats(-2, 2), st.booleans())
def test_sums_are_those_of_the_definition(
    seed: int, loss: Loss, temperature: float, shift: float, weighted: bool
) -> None:
    classes = classes_of(loss)
    data, fold = records(seed, 30, classes, weighted=weighted), Fold(temperature, shift)
    w, box = model(seed, loss, 3.0), Box(classes)
    bits = exact_bits(30, max(box.hi, box.lo + 0.5, box.h))
    found = summed(exact(data), weights=w, fold=fold, box=box, bits=bits)
    each = np.array(list(naive(data, w, loss, fold)))
    parts = np.ones(30) if data.slot_weights is None else data.slot_weights
    np.testing.assert_allclose(found, parts @ each, atol=1e-4)


@given(seeds, losses)
def test_sums_are_exact_in_any_order_and_cut(seed: int, loss: Loss) -> None:
    classes, n = classes_of(loss), 200
    data, w, box = records(seed, n, classes, weighted=True), model(seed, loss, 3.0), Box(classes)
    bits = exact_bits(n, max(box.hi, box.lo + 0.5, box.h))

    def one(part: Records) -> Floats:
        return summed(exact(part), weights=w, fold=Fold(0.3, 0.1), box=box, bits=bits)

    rows = [one(data.take(slice(i, i + 1))) for i in range(n)]
    forward, backward = np.zeros(len(box.low)), np.zeros(len(box.low))
    for a, b in zip(rows, reversed(rows), strict=True):
        forward, backward = forward + a, backward + b
    assert np.array_equal(forward, backward)
    unit = Fraction(2) ** -bits
    assert all(Fraction(float(x)) % unit == 0 for x in forward)


@given(seeds, losses, st.sampled_from([0.1, 1.0, 30.0, 2.0**390]), st.booleans())
def test_a_replaced_record_moves_the_sum_by_its_weight_times_the_sensitivity(
    seed: int, loss: Loss, size: float, weighted: bool
) -> None:
    classes = classes_of(loss)
    box = Box(classes)
    one, other = (records(s, 1, classes, weighted=weighted) for s in (seed, seed + 7))
    weight = 1.0 if one.slot_weights is None else float(one.slot_weights[0])
    if other.slot_weights is not None:
        other.slot_weights[:] = weight
    w, bits = model(seed, loss, size), exact_bits(1, max(box.hi, box.lo + 0.5, box.h))
    sums = [
        summed(exact(each), weights=w, fold=Fold(0.5, -0.2), box=box, bits=bits)
        for each in (one, other)
    ]
    moved = sum(
        ((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(*sums, strict=True)),
        Fraction(0),
    )
    assert moved <= (Fraction(weight) * Fraction(box.sensitivity)) ** 2


@pytest.mark.parametrize("loss", LOSSES)
def test_records_come_near_the_sensitivity(loss: Loss) -> None:
    """Search over pairs of records and models; the box is not attained, but nearly so."""
    classes = classes_of(loss)
    box, best = Box(classes), 0.0
    rng = np.random.default_rng(5)
    for _ in range(300):
        w = rng.normal(size=loss.shape(5)) * rng.choice([1.0, 3.0, 10.0, 30.0])
        data = records(int(rng.integers(2**32)), 60, classes)
        found = np.array(list(naive(data, w, loss, Fold())))
        apart = np.linalg.norm(found[:, None] - found[None], axis=2)
        best = max(best, float(apart.max()))
    assert 0.8 * box.sensitivity < best <= box.sensitivity


@given(st.integers(2, 2**20))
def test_the_box_is_what_it_says(classes: int) -> None:
    box = Box(classes)
    z = np.linspace(0, 60, 60_001)
    p = 1 / (1 + (classes - 1) * np.exp(-z))
    assert box.lo == pytest.approx(float((z * (1 - p)).max()), abs=1e-4)
    assert box.h == pytest.approx(float((z * z * p * (1 - p)).max()), abs=1e-4)
    assert box.hi == pytest.approx(1 + 2 * math.log(classes), abs=1e-4)
    sides = [
        Fraction(float(b)) - Fraction(float(a)) for a, b in zip(box.low, box.high, strict=True)
    ]
    assert Fraction(box.sensitivity) ** 2 >= sum(side * side for side in sides)
    assert (box.low <= 0).all()
    assert (box.high >= 0).all()


@given(st.floats(1e-6, 100), losses)
def test_squares_of_what_is_spent_add_up_to_at_most_the_square(mu: float, loss: Loss) -> None:
    reach = Fraction(Box(classes_of(loss) or 2).sensitivity)
    spent = sum((reach / Fraction(each)) ** 2 for each in refit.noise_scales(loss, mu))
    spent += Fraction(left_for_descent(mu)) ** 2
    assert 1 - 1e-12 < spent / Fraction(mu) ** 2 <= 1


@given(seeds, losses, st.floats(-1.5, 1.5), st.floats(-3, 3))
def test_folded_weights_have_the_folded_margins(
    seed: int, loss: Loss, temperature: float, shift: float
) -> None:
    w, X = model(seed, loss, 1.0), np.asarray(records(seed, 9, 2).X)
    found = X @ Fold(temperature, shift).into(w)
    features, constant = X[:, :-1] @ w[:-1], np.multiply.outer(X[:, -1], w[-1])
    warm = math.exp(temperature)
    lifted = shift * (X[:, -1] > 0)
    if isinstance(loss, Logistic):
        expected = warm * features + constant + lifted
    elif w.shape[1] == 2:
        expected = warm * features + constant + np.multiply.outer(lifted, [-0.5, 0.5])
    else:
        expected = warm * (features + constant)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def no_noise(center: Floats, sigma: float) -> Floats:
    del sigma
    return center


def problem(classes: int, seed: int = 3) -> tuple[Records, Floats]:
    """Records whose labels have the probabilities of a linear model, and that model."""
    rng = np.random.default_rng(seed)
    X = np.asarray(clip_rows(rng.normal(size=(20_000, 4)), 1.0))
    data = SAME.records(Records(X, np.zeros(20_000, np.intp), np.ones(20_000, np.bool_)))
    truth = rng.normal(size=(5,) if classes == 2 else (5, classes)) * 2
    margins = np.asarray(data.X) @ truth
    if classes == 2:
        y = rng.random(20_000) < 1 / (1 + np.exp(-margins))
    else:
        y = (margins + rng.gumbel(size=margins.shape)).argmax(axis=1)
    return Records(data.X, y.astype(np.intp), data.usable), truth


@pytest.mark.parametrize(("classes", "size"), [(2, 0.5), (2, 2.0), (3, 0.5), (3, 2.0)])
def test_it_corrects_a_model_that_is_too_flat_or_too_sharp(classes: int, size: float) -> None:
    data, truth = problem(classes)
    loss = Logistic() if classes == 2 else Softmax(classes)
    wrong = truth * size
    if classes == 2:
        wrong[-1] += 5
    fixed = wrong
    for _ in range(4):
        fold = fold_for(
            fixed,
            data.map(lambda part: Exact.of(part, bits=20)),
            loss=loss,
            mu=1e3,
            divisor=data.n,
            class_shares=(),
            new=1.0,
            perturb=no_noise,
        )
        fixed = fold.into(fixed)

    def value(w: Floats) -> float:
        return float(loss.value((np.asarray(data.X) @ w).T, data.y).mean())

    assert value(fixed) < value(wrong)
    assert value(fixed) < value(truth) + 1e-3


def test_steps_are_damped_and_bounded() -> None:
    box = Box(2)
    still = after(Fold(), np.array([1.0, 0.1, 1.0, 0.1]), box=box, deviation=1e6, share=0.5)
    assert abs(still.temperature) < 1e-9
    assert abs(still.shift) < 1e-9
    fold = Fold()
    for _ in range(50):
        fold = after(fold, np.array([-2.0, 0.0, -1.0, 0.0]), box=box, deviation=1e-9, share=0.0)
    assert fold == Fold(1.5, 10.0)


@pytest.mark.parametrize("loss", [Logistic(), Softmax(2)])
def test_it_shifts_less_if_few_records_are_new(loss: Loss) -> None:
    data, wrong = problem(2)[0], np.zeros(loss.shape(5))

    def shift(new: float) -> float:
        parts = data.map(lambda part: Exact.of(part, bits=20))
        public: dict[str, Any] = {"divisor": data.n, "class_shares": (), "perturb": no_noise}
        return fold_for(wrong, parts, loss=loss, mu=1e3, new=new, **public).shift

    assert shift(0.01) == pytest.approx(refit.MIN_NEW_WEIGHT * shift(1.0))
    assert shift(0.9) == pytest.approx(0.9 * shift(1.0))


def test_the_shift_makes_up_for_what_the_temperature_moves() -> None:
    """Without it the mean probability would miss the share of a class that is not common."""
    data, truth = problem(2)
    wrong = truth / 4
    parts = data.map(lambda part: Exact.of(part, bits=20))
    public: dict[str, Any] = {"divisor": data.n, "class_shares": (), "perturb": no_noise}
    fold = fold_for(wrong, parts, loss=Logistic(), mu=1e3, new=1.0, **public)
    p = 1 / (1 + np.exp(-(np.asarray(data.X) @ fold.into(wrong))))
    assert abs(float(p.mean() - data.y.mean())) < 4e-3


@given(seeds, losses, st.floats(-2, 1.5), st.floats(-10, 10))
def test_a_fold_can_be_undone(seed: int, loss: Loss, temperature: float, shift: float) -> None:
    w, fold = model(seed, loss, 3.0), Fold(temperature, shift)
    np.testing.assert_allclose(fold.out_of(fold.into(w)), w, rtol=1e-12, atol=1e-12)


# --- within a fit


def fit(task: Task, data: Records, **terms: Any) -> tuple[Floats, list[tuple[int, float]]]:
    """A fit without noise, and what was perturbed: how many numbers, with which deviation."""
    seen = []

    def perturb(center: Floats, sigma: float) -> Floats:
        seen.append((center.size, sigma))
        return center

    settings = Terms(allowance=Allowance("mu", 0.5), **terms)
    descent = GradientPerturbation().descent_of(task, settings, data.n, data.d)
    return descend(task, settings, data, descent, perturb).weights, seen


@pytest.mark.parametrize("loss", [Logistic(), Huber(), Softmax(2), Softmax(3)])
@pytest.mark.parametrize("again", [False, True])
def test_what_a_surveyed_fit_releases_costs_at_most_its_allowance(loss: Loss, again: bool) -> None:
    classes = classes_of(loss)
    data = records(1, 400, classes or 2, weighted=again)
    slot_weights = (SlotWeight(Span(0, 400), Fraction(1)),) if again else ()
    terms: dict[str, Any] = {"slot_weights": slot_weights, "behind": 100 if again else None}
    task = Task(loss=loss, norm=3.0, regularization=0.0).centred()
    _, seen = fit(task, data, **terms)
    settings = GradientPerturbation().settings(
        task, Terms(allowance=Allowance("mu", 0.5), **terms), n=400, d=5
    )
    rounds = int(settings.get("refit_rounds", 0))
    assert rounds == (2 if classes else 0)
    steps, last = seen[: len(seen) - rounds], seen[len(seen) - rounds :]
    spent = sum((2 * Fraction(settings["clip"]) / Fraction(s)) ** 2 for _, s in steps)
    for i, (size, sigma) in enumerate(last):
        box = Box(classes or 2)
        assert size == len(box.low)
        assert settings[f"refit_noise_scale_{i + 1}"] == sigma / 400
        spent += (Fraction(box.sensitivity) / Fraction(sigma)) ** 2
    assert 0.99 < spent / Fraction(1, 4) <= 1
    small = again and isinstance(loss, Softmax)
    clip = Transform.NORM / (4 if small else 2)
    assert settings["clip"] == pytest.approx(clip)


@pytest.mark.parametrize(
    "protects",
    [EACH_RECORD, Person(contributions=1), Person(contributions=1, typical=Fraction("7/3"))],
)
def test_a_card_states_the_means_that_a_refit_uses(
    protects: Protects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The noise on the card is the noise of the sums, over what they are divided by."""
    divisors: list[float] = []

    def spied(*args: Any, **public: Any) -> Fold:
        divisors.append(public["divisor"])
        return fold_for(*args, **public)

    monkeypatch.setattr(refit, "fold_for", spied)
    data = records(1, 401, 3, weighted=True)
    if protects.persons:
        data = replace(data, person_weights=data.slot_weights)
    task = Task(loss=Softmax(3), norm=1.0, regularization=0.0).centred()
    terms: dict[str, Any] = {
        "slot_weights": (SlotWeight(Span(0, 401), Fraction(1, 2)),),
        "protects": protects,
    }
    _, seen = fit(task, data, **terms)
    stated = GradientPerturbation().settings(
        task, Terms(allowance=Allowance("mu", 0.5), **terms), n=401, d=5
    )
    (divisor,) = divisors
    worth = 200.5 / float(protects.typical)
    assert divisor == (pytest.approx(worth) if protects.persons else 200)
    assert stated["refit_noise_scale_1"] == seen[-2][1] / divisor
    assert stated["refit_noise_scale_2"] == seen[-1][1] / divisor
    assert stated["refit_sensitivity"] == pytest.approx(Box(3).sensitivity / divisor)


@pytest.mark.parametrize("again", [False, True])
def test_a_card_states_all_that_is_needed_to_check_it(again: bool) -> None:
    task = Task(loss=Softmax(3), norm=1.0, regularization=0.0).centred()
    slot_weights = (SlotWeight(Span(0, 400), Fraction(1, 2)),)
    terms = Terms(
        allowance=Allowance("mu", 0.5),
        behind=100 if again else None,
        slot_weights=slot_weights,
    )
    on_card = Terms(allowance=Allowance("mu", 0.5), slot_weights=slot_weights)
    learner = GradientPerturbation()
    stated = learner.settings(task, terms, n=400, d=5)
    assert learner.restated(task, on_card, stated, n=400, d=5) == stated
    for wrong in ({"refit_rounds": 0}, {"refit_noise_scale_1": 1e-9}, {"refit_rounds": 4}):
        lie = {**stated, **wrong}
        assert learner.restated(task, on_card, lie, n=400, d=5) != lie


def test_without_surveys_nothing_changes() -> None:
    task = Task(loss=Softmax(3), norm=Transform.NORM, regularization=0.0)
    data = records(1, 400, 3)
    settings = GradientPerturbation().settings(
        task, Terms(allowance=Allowance("mu", 0.5)), n=400, d=5
    )
    assert not any(key.startswith("refit") for key in settings)
    _, seen = fit(task, data)
    assert {sigma for _, sigma in seen} == {deviation(settings["clip"], len(seen), 0.5)}


def test_a_private_fit_learns() -> None:
    data, truth = problem(2)
    task = Task(loss=Logistic(), norm=1.0, regularization=0.0).centred()
    terms = Terms(allowance=Allowance("mu", 0.5), class_shares=(0.4, 0.6))
    w = GradientPerturbation().fit(task, terms, data, NotPrivateBits(1))
    rows = np.asarray(data.X)
    value: Callable[[Floats], float] = lambda w: float(Logistic().value(rows @ w, data.y).mean())  # noqa: E731
    assert value(w) < value(truth) + 0.01
