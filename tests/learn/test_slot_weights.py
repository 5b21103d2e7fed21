"""Slot weights under every learner, beside a naive reference."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize

from tidegate.checks import InvalidValueError
from tidegate.data.records import Records
from tidegate.learn import GradientPerturbation, Logistic, OutputPerturbation, output
from tidegate.learn.exact import exact_bits, lattice_bits
from tidegate.learn.gradient import clipped_sum
from tidegate.learn.learner import Pull, Task, Terms, Weights
from tidegate.learn.mean import HistogramPerturbation, MeanPerturbation
from tidegate.learn.objective import Objective
from tidegate.learn.output import discounted
from tidegate.learn.refit import Exact
from tidegate.learn.slot_weights import reweighed, weighted
from tidegate.privacy.budget import Allowance, down, up
from tidegate.privacy.noise import NotPrivateBits
from tidegate.schedule import SlotWeight, Span

AMPLE = Allowance("mu", 1e9)
parts = st.lists(st.fractions(Fraction(1, 100), 1, max_denominator=100), min_size=1, max_size=5)


def spans(weights: Sequence[Fraction], size: int) -> tuple[SlotWeight, ...]:
    """Weights of so many slots each, one after the other."""
    edges = pairwise(range(0, size * len(weights) + 1, size))
    return tuple(SlotWeight(Span(*edge), e) for edge, e in zip(edges, weights, strict=True))


def records(n: int, seed: int = 0) -> Records:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X /= 1.001 * np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    usable = rng.random(n) < 0.8
    X[~usable] = 0
    return Records(X, np.where(usable, rng.integers(2, size=n), 0), usable)


def laid(weights: tuple[SlotWeight, ...], plain: Records) -> Records:
    (part,) = weighted([plain], weights)
    return part.load()


def each(weights: tuple[SlotWeight, ...]) -> Weights:
    return np.array([float(e) for span, e in weights for _ in range(*span)])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@given(weights=parts, seed=st.integers(0, 99))
def test_a_mean_is_the_weighted_one(form: Any, weights: list[Fraction], seed: int) -> None:
    slot_weights = spans(weights, 20)
    plain = records(20 * len(weights), seed)
    terms = Terms(allowance=AMPLE, slot_weights=slot_weights)
    task = Pull(norm=1.0, regularization=0.0)
    given = Records(form(plain.X), plain.y, plain.usable)
    mean = MeanPerturbation().fit(task, terms, laid(slot_weights, given), NotPrivateBits(1))
    e = each(slot_weights)
    np.testing.assert_allclose(mean, e @ plain.X / e.sum(), atol=1e-6)


@given(parts, st.integers(0, 99))
def test_a_histogram_is_the_weighted_one(weights: list[Fraction], seed: int) -> None:
    slot_weights = spans(weights, 20)
    plain = records(20 * len(weights), seed)
    terms = Terms(allowance=AMPLE, slot_weights=slot_weights)
    learner, task = HistogramPerturbation(2), Pull(norm=1.0, regularization=0.0)
    counts = learner.fit(task, terms, laid(slot_weights, plain), NotPrivateBits(1))
    e = each(slot_weights)
    naive = [e[plain.usable & (plain.y == k)].sum() / e.sum() for k in range(2)]
    np.testing.assert_allclose(counts, naive, atol=1e-6)


@given(parts, st.integers(0, 99))
def test_no_row_of_a_mean_is_longer_than_its_weight(weights: list[Fraction], seed: int) -> None:
    """Each slot by itself, in exact arithmetic: a product that is rounded up would be caught."""
    slot_weights = spans(weights, 1)
    plain = records(len(weights), seed)
    learner, task = MeanPerturbation(), Pull(norm=1.0, regularization=0.0)
    for slot, (_, e) in enumerate(slot_weights):
        alone = np.zeros_like(plain.X)
        alone[slot] = plain.X[slot]
        row = learner.summed(task, laid(slot_weights, Records(alone, plain.y, plain.usable)))
        for x, weighed in zip(plain.X[slot], row, strict=True):
            assert abs(Fraction(float(weighed))) <= e * abs(Fraction(float(x)))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_product_that_floats_round_up_stays_below(form: Any) -> None:
    """The float below 1/3 times 3/4 is a tie between 1/4 and the float below it."""
    third = Fraction(1 / 3)
    assert Fraction(float(third) * 0.75) > third * Fraction(3, 4)
    plain = Records(form(np.array([[0.75]])), np.zeros(1, np.intp), np.ones(1, np.bool_))
    task = Pull(norm=1.0, regularization=0.0)
    (summed,) = MeanPerturbation().summed(task, laid(spans([third], 1), plain))
    assert Fraction(float(summed)) <= third * Fraction(3, 4)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@given(weights=parts, seed=st.integers(0, 99))
def test_weighted_gradients_are_exact_and_short(
    form: Any, weights: list[Fraction], seed: int
) -> None:
    """The sum is that of each slot by itself, on the lattice; a slot's norm is at most e C."""
    size, clip, w = 2, 0.25, np.array([2.0, -3.0, 1.0])  # margins of whole weights are exact
    slot_weights, plain = spans(weights, size), records(size * len(weights), seed)
    held = laid(slot_weights, plain)
    x_bits, e_bits = lattice_bits(plain.n, 1.0, clip)
    sums = partial(clipped_sum, w=w, loss=Logistic(), clip=clip, bits=e_bits)

    def summed(slots: slice) -> list[Fraction]:
        part = held.take(slots)
        part = replace(part, X=form(part.X))
        return [Fraction(float(s)) for s in sums(Exact.of(part, bits=x_bits, weighted=True))]

    alone = [summed(slice(slot, slot + 1)) for slot in range(plain.n)]
    for slot, e in enumerate(e for span, e in slot_weights for _ in range(*span)):
        assert sum(s * s for s in alone[slot]) <= (e * Fraction(clip)) ** 2
        assert all((s * 2 ** (x_bits + e_bits)).denominator == 1 for s in alone[slot])
    assert summed(slice(None)) == [sum(column) for column in zip(*alone, strict=True)]


@given(parts)
def test_weights_are_rounded_down_and_cover_the_slots(weights: list[Fraction]) -> None:
    slot_weights, plain = spans(weights, 2), records(2 * len(weights))
    placed = laid(slot_weights, plain).slot_weights
    assert placed is not None
    for weight, e in zip(placed[::2], weights, strict=True):
        assert Fraction(float(weight)) <= e < Fraction(math.nextafter(weight, 2))
    with pytest.raises(InvalidValueError, match="slot_weights must be for"):
        laid(slot_weights, records(2 * len(weights) + 1))


def test_a_fit_without_a_model_before_it_descends_as_any_other() -> None:
    task, learner = Task(loss=Logistic(), norm=1.0, regularization=0.0), GradientPerturbation()
    weights = spans([Fraction(1)], 100)
    plain, first, later = (
        learner.settings(task, Terms(allowance=Allowance("mu", 1.0), **given), n=100, d=2)
        for given in ({}, {"slot_weights": weights}, {"slot_weights": weights, "behind": 100})
    )
    assert plain == first != later


@pytest.mark.parametrize("learner", [MeanPerturbation(), HistogramPerturbation(2)])
def test_the_noise_of_a_mean_is_told_as_it_is(learner: Any) -> None:
    slot_weights, task = spans([Fraction(1, 4), Fraction(1)], 8), Pull(norm=1.0, regularization=0)
    terms = Terms(allowance=Allowance("mu", 0.5), slot_weights=slot_weights)
    told = learner.settings(task, terms, n=16, d=2)["noise_scale"]
    assert told == learner.scale(task, terms.allowance) / 10


@given(parts, st.integers(1, 50))
def test_counts_are_exact_sums_on_their_lattice(weights: list[Fraction], size: int) -> None:
    """Then they are the same in any order, and no count exceeds the sum of its weights."""
    slot_weights = spans(weights, size)
    plain = records(size * len(weights))
    n, task = plain.n, Pull(norm=1.0, regularization=0.0)
    counts = HistogramPerturbation(2).summed(task, laid(slot_weights, plain))
    unit = 2 ** exact_bits(n, 1.0)
    slots = [Fraction(int(e * unit), unit) for span, e in slot_weights for _ in range(*span)]
    for label, count in enumerate(counts):
        used = plain.usable & (plain.y == label)
        exact = sum(e for e, counts in zip(slots, used, strict=True) if counts)
        assert Fraction(float(count)) == exact


@pytest.mark.thorough
@pytest.mark.parametrize("unit", ["epsilon", "mu"])
@given(weights=parts, seed=st.integers(0, 9))
def test_an_output_is_the_weighted_minimiser(unit: Any, weights: list[Fraction], seed: int) -> None:
    """Beside scipy's: with the factors that make up for the tolerance, and M rounded up."""
    slot_weights, loss = spans(weights, 30), Logistic()
    plain = records(30 * len(weights), seed)
    task = Task(loss=loss, norm=1.0, regularization=0.05)
    terms = Terms(allowance=Allowance(unit, 1e9), slot_weights=slot_weights)
    learner = OutputPerturbation()
    fitted = learner.fit(task, terms, laid(slot_weights, plain), NotPrivateBits(1))
    public = learner.settings(task, terms, n=plain.n, d=3)
    mass = up(sum((span.size * e for span, e in slot_weights), Fraction(0)))
    bound = loss.lipschitz_at_minimum(1.0, center_norm=0.0, regularization=0.05)
    theta = Fraction(public["tolerance"]) * Fraction(mass) / Fraction(bound)
    a = np.array(
        [max(0.0, float((1 + theta) * e - theta)) for s, e in slot_weights for _ in range(*s)]
    )

    def value(w: Weights) -> float:
        losses = loss.value(plain.X @ w, plain.y)
        return float(a[plain.usable] @ losses[plain.usable] / mass + 0.05 * w @ w)

    naive = minimize(value, np.zeros(3), tol=1e-14).x
    assert np.linalg.norm(fitted - naive) <= public["tolerance"] / (2 * 0.05) + 1e-4


@given(parts, st.integers(1, 40))
def test_one_mass_is_in_the_objective_and_its_sensitivity(
    weights: list[Fraction], size: int
) -> None:
    """To the last bit: M is not below the sum of the weights, and Delta is that of this M."""
    slot_weights = spans(weights, size)
    plain, task = records(size * len(weights)), Task(loss=Logistic(), norm=1.0, regularization=0.5)
    terms, learner = Terms(allowance=AMPLE, slot_weights=slot_weights), OutputPerturbation()
    with patch.object(output, "Objective", wraps=Objective) as made:
        learner.fit(task, terms, laid(slot_weights, plain), NotPrivateBits(1))
    mass = Fraction(made.call_args.kwargs["mass"])
    assert mass >= sum(span.size * e for span, e in slot_weights)
    public = learner.settings(task, terms, n=plain.n, d=3)
    bound = task.loss.lipschitz_at_minimum(1.0, center_norm=0.0, regularization=0.5)
    tolerance, lipschitz = Fraction(public["tolerance"]), Fraction(bound)
    moved = (lipschitz / mass + tolerance) / Fraction(public["regularization"])
    assert moved <= Fraction(public["sensitivity"]) <= moved * (1 + Fraction(1, 2**50))
    theta = tolerance * mass / lipschitz
    expected = discounted(slot_weights, theta)
    (part,) = made.call_args.args[:1]
    assert {*part.fold(attrgetter("slot_weights"), max)} == {*expected.values()}


@given(parts, st.fractions(0, 3, max_denominator=50))
def test_a_slot_moves_the_solution_by_its_weight_at_most(
    weights: list[Fraction], theta: Fraction
) -> None:
    """a + theta <= e (1 + theta), the claim of docs/proofs/minimiser.md; or it is not read."""
    for weight, factor in discounted(spans(weights, 1), theta).items():
        e = max(each for each in weights if down(each) == weight)
        assert factor == 0 or Fraction(factor) + theta <= e * (1 + theta)
        assert factor <= weight


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_weights_that_round_to_one_float_the_smaller_decides(order: int) -> None:
    theta, tiny = Fraction(1, 10**20), Fraction(1, 10**20)
    weights = [tiny, tiny + Fraction(1, 10**40)][::order]
    assert down(weights[0]) == down(weights[1])
    (factor,) = discounted(spans(weights, 1), theta).values()
    assert Fraction(factor) + theta <= min(weights) * (1 + theta)


def test_a_row_that_counts_for_nothing_is_not_read() -> None:
    plain = records(4)
    kept = reweighed(
        laid(spans([Fraction(1, 4), Fraction(1)], 2), plain), factors={0.25: 0.0, 1.0: 1.0}
    )
    assert not kept.X[:2].any()
    assert not kept.usable[:2].any()
    assert plain.y[:2].any()
    assert not kept.y[:2].any()
    assert np.array_equal(kept.X[2:], plain.X[2:])
    with pytest.raises(InvalidValueError, match="slot_weights must be those of the fit"):
        reweighed(laid(spans([Fraction(1, 3), Fraction(1)], 2), plain), factors={0.25: 0.0})


@pytest.mark.parametrize("learner", [MeanPerturbation(), HistogramPerturbation(2)])
def test_weights_of_the_fit_that_the_records_lack_are_refused(learner: Any) -> None:
    plain, weights = records(4), spans([Fraction(1, 4), Fraction(1)], 2)
    task, bits = Pull(norm=1.0, regularization=0.0), NotPrivateBits(1)
    with pytest.raises(InvalidValueError, match="on fit and records, or on neither"):
        learner.fit(task, Terms(allowance=AMPLE, slot_weights=weights), plain, bits)
    task = Task(loss=Logistic(), norm=1.0, regularization=0.1)
    with pytest.raises(InvalidValueError, match="on fit and records, or on neither"):
        OutputPerturbation().fit(task, Terms(allowance=AMPLE, slot_weights=weights), plain, bits)
