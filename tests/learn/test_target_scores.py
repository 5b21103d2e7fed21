"""Scores of a regression: what they cost, and that they are the sums they claim to be."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError
from tidegate.learn import target_scores
from tidegate.learn.scores import Scores, score
from tidegate.learn.slot_weights import Owned, person_weights
from tidegate.learn.survey import person_bits
from tidegate.learn.target_scores import (
    INVERSE_SCALE,
    PRECISION,
    TargetScores,
    exact_sums,
    fraction_bits,
    parts_of,
    scales,
    score_targets,
)
from tidegate.privacy.budget import Allowance, ApproxDP, PureDP, allowance_of
from tidegate.privacy.noise import NotPrivateBits

Floats = NDArray[np.float64]
Slot = tuple[float, float, bool]
Count = Callable[..., tuple[Floats, Floats]]

ALLOWANCES = [Allowance("mu", 0.05), Allowance("epsilon", 0.05)]
ENDS = st.sampled_from([-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0])
INSIDE = ENDS | st.floats(-1, 1)
PREDICTIONS = INSIDE | st.sampled_from([-np.inf, -1e300, -1.5, 1.0000001, 7.0, np.inf, np.nan])
SLOTS = st.tuples(PREDICTIONS, INSIDE, st.booleans())


def arrays(slots: list[Slot]) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    predictions, truths, usable = zip(*slots, strict=True)
    return np.array(predictions), np.array(truths), np.array(usable)


def summed(
    slots: list[Slot], weights: Floats | None = None, *, parts: int = 8, count: Count = exact_sums
) -> Floats:
    return np.concatenate(count(*arrays(slots), parts=parts, person_weights=weights))


def costs(changes: Floats, allowance: Allowance) -> Floats:
    """The privacy loss of each change: mu of Gaussian noise, epsilon of Laplace noise."""
    scale = scales(allowance)
    each = changes / np.concatenate([scale[:-1], np.full(changes.shape[1] - 7, scale.cell)])
    if allowance.unit == "epsilon":
        return np.asarray(np.abs(each).sum(axis=1))
    return np.asarray(np.sqrt((each**2).sum(axis=1)))


def cost(change: Floats, allowance: Allowance) -> float:
    return float(costs(change[None], allowance)[0])


def test_weights_are_those_of_the_proof() -> None:
    """The two worst pairs of records, exactly: each costs all of it."""
    w = PRECISION
    errors = w.bias + w.absolute + w.square
    assert errors + 4 * w.truth + 2 * w.cell == 1  # (1, -1) -> (1, 1)
    assert errors + w.truth + w.truth_square + w.usable + w.unusable + w.cell == 1  # -> unusable
    assert 4 * w.bias <= errors
    assert w.bias == w.absolute
    assert w.truth_square <= 2 * w.truth
    w = INVERSE_SCALE
    errors = w.bias + w.absolute + w.square
    assert errors + Fraction(9, 4) * w.truth + 2 * w.cell == 1  # (1, -1) -> (1/4, 1/4)
    assert errors + w.truth + w.truth_square + w.usable + w.unusable + w.cell == 1
    assert w.bias <= w.absolute
    assert w.truth == w.truth_square


@pytest.mark.parametrize("allowance", ALLOWANCES)
@given(before=SLOTS, after=SLOTS)
@example(before=(1.0, -1.0, True), after=(1.0, 1.0, True))
@example(before=(1.0, -1.0, True), after=(0.25, 0.25, True))
@example(before=(1.0, -1.0, True), after=(0.0, 0.0, False))
@example(before=(np.inf, -1.0, True), after=(-np.inf, 1.0, True))
def test_replacing_a_record_costs_at_most_the_allowance(
    allowance: Allowance, before: Slot, after: Slot
) -> None:
    change = summed([before]) - summed([after])
    assert cost(change, allowance) <= allowance.amount


@pytest.mark.parametrize("allowance", ALLOWANCES)
@pytest.mark.parametrize("parts", [2, 8])
def test_a_fine_grid_of_pairs_costs_at_most_the_allowance(allowance: Allowance, parts: int) -> None:
    """All pairs of records on a grid, from the formulas; the largest cost is attained."""
    p, t = (each.ravel() for each in np.meshgrid(np.linspace(-1, 1, 33), np.linspace(-1, 1, 33)))
    u = (p - t) / 2
    columns = np.stack([u, abs(u), u * u, t, t * t], axis=1)
    usable = np.hstack([columns, np.ones((t.size, 1)), np.zeros((t.size, 1))])
    rows = np.vstack([usable, [[0, 0, 0, 0, 0, 0, 1]]])
    place = np.append(
        np.minimum((t + 1) * parts / 2, parts - 1).astype(int) * parts
        + np.minimum((p + 1) * parts / 2, parts - 1).astype(int),
        -1,
    )
    scale, worst = scales(allowance), 0.0
    for row, here in zip(rows, place, strict=True):
        moves = np.abs(rows - row) / np.array(scale[:-1])
        cells = (place != here) * ((here >= 0) + (place >= 0) * 1.0)
        if allowance.unit == "epsilon":
            worst = max(worst, (moves.sum(axis=1) + cells / scale.cell).max())
        else:
            worst = max(worst, np.sqrt((moves**2).sum(axis=1) + cells / scale.cell**2).max())
    assert worst <= allowance.amount
    assert worst == pytest.approx(allowance.amount, rel=1e-9)


# --- persons


@st.composite
def person_steps(draw: st.DrawFn) -> tuple[list[Slot], list[Slot], Floats]:
    """A step and one in which all records of one person are replaced, with the person weights."""
    owners = draw(st.lists(st.integers(1, 3), min_size=1, max_size=12))
    admitted = np.array(draw(st.lists(st.booleans(), min_size=len(owners), max_size=len(owners))))
    owned = Owned(np.array([(each, each) for each in owners], np.uint64), admitted)
    before = [draw(SLOTS) for _ in owners]
    after = [draw(SLOTS) if each == 1 else old for each, old in zip(owners, before, strict=True)]
    return before, after, person_weights(owned, [(len(owners), 1.0)])


@pytest.mark.parametrize("allowance", ALLOWANCES)
@given(person_steps())
def test_replacing_a_person_costs_at_most_the_allowance(
    allowance: Allowance, step: tuple[list[Slot], list[Slot], Floats]
) -> None:
    before, after, weights = step
    change = summed(before, weights) - summed(after, weights)
    assert cost(change, allowance) <= allowance.amount


def test_slots_that_are_not_admitted_are_in_no_sum() -> None:
    slots = [(0.5, -0.5, True), (0.5, 0.5, False)]
    assert not summed(slots, np.zeros(2)).any()


# --- a naive reference


def naive(slots: list[Slot], weights: list[Fraction] | None, bits: int, parts: int) -> list[Any]:
    """The sums in fractions, one record after another."""
    sums, cells = [Fraction(0)] * 7, [Fraction(0)] * parts**2

    def rounded(x: Fraction) -> Fraction:
        return Fraction(round(x * 2**bits), 2**bits)

    for k, (raw, truth, usable) in enumerate(slots):
        weight = Fraction(1) if weights is None else weights[k]
        if not usable:
            sums[6] += weight
            continue
        p = 0.0 if np.isnan(raw) else min(max(raw, -1.0), 1.0)
        u, t = rounded(Fraction((p - truth) / 2)), rounded(Fraction(truth))
        for place, value in enumerate([u, abs(u), u * u, t, t * t, Fraction(1)]):
            sums[place] += weight * value
        row, column = (min(int((x + 1) * parts / 2), parts - 1) for x in (truth, p))
        cells[row * parts + column] += weight
    return [*sums, *cells]


@given(st.lists(SLOTS, min_size=1, max_size=20), st.sampled_from([2, 4, 8]))
def test_sums_are_exact(slots: list[Slot], parts: int) -> None:
    found = summed(slots, parts=parts)
    assert [Fraction(x) for x in found] == naive(slots, None, fraction_bits(len(slots)), parts)


@given(person_steps())
def test_sums_of_persons_are_exact(step: tuple[list[Slot], list[Slot], Floats]) -> None:
    slots, _, weights = step
    bits, shares = person_bits(len(slots))
    cut = [Fraction(int(Fraction(w) * 2**shares), 2**shares) for w in weights]
    assert [Fraction(x) for x in summed(slots, weights)] == naive(slots, cut, bits, 8)


@given(st.integers(0, 2**32))
def test_sums_do_not_depend_on_the_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 300
    p, t, usable = rng.normal(size=n), rng.uniform(-1, 1, n), rng.random(n) < 0.9
    weights, order = rng.random(n), rng.permutation(n)
    for before, after in ((None, None), (weights, weights[order])):
        one = exact_sums(p, t, usable, parts=8, person_weights=before)
        other = exact_sums(p[order], t[order], usable[order], parts=8, person_weights=after)
        assert np.array_equal(np.concatenate(one), np.concatenate(other))


# --- planted mistakes


def worst(count: Count, allowance: Allowance) -> float:
    """The largest cost among a few neighbours that try each way to move the sums."""
    corners: list[Slot] = [(p, t, True) for p in (-9.0, -1.0, 0.0, 9.0) for t in (-1.0, 0.0, 1.0)]
    slots = [*corners, (np.nan, 1.0, True), (1.0, 1.0, False), (0.0, 0.0, False)]
    pairs: list[Any] = [([one], [other], None) for one in slots for other in slots]
    three = person_weights(Owned(np.ones((3, 2), np.uint64), np.ones(3, np.bool_)), [(3, 1.0)])
    pairs += [([one] * 3, [other] * 3, three) for one in slots for other in slots]
    changes = [summed(a, w, count=count) - summed(b, w, count=count) for a, b, w in pairs]
    return float(max(costs(np.array(changes), allowance)))


def not_clipped(p: Floats, t: Floats, usable: Any, **more: Any) -> tuple[Floats, Floats]:
    sums, cells = exact_sums(p, t, usable, **more)
    error = (np.nan_to_num(p[usable]) - t[usable]) / 2
    sums[0], sums[1], sums[2] = error.sum(), np.abs(error).sum(), (error**2).sum()
    return sums, cells


def unusable_twice(p: Floats, t: Floats, usable: Any, **more: Any) -> tuple[Floats, Floats]:
    sums, cells = exact_sums(p, t, usable, **more)
    sums[5] -= sums[6]  # the share of usable records, "so that unusable ones weigh more"
    return sums, cells


def unusable_scored(p: Floats, t: Floats, usable: Any, **more: Any) -> tuple[Floats, Floats]:
    everywhere, cells = exact_sums(p, t, np.ones_like(usable), **more)
    everywhere[6] = np.count_nonzero(~usable)
    return everywhere, cells


def persons_ignored(p: Floats, t: Floats, usable: Any, **more: Any) -> tuple[Floats, Floats]:
    return exact_sums(p, t, usable, parts=more["parts"])


def whole_errors(p: Floats, t: Floats, usable: Any, **more: Any) -> tuple[Floats, Floats]:
    sums, cells = exact_sums(p, t, usable, **more)
    sums[:3] *= 2, 2, 4  # e instead of e/2
    return sums, cells


@pytest.mark.parametrize("allowance", ALLOWANCES)
def test_the_neighbours_find_no_fault_with_the_right_sums(allowance: Allowance) -> None:
    found = worst(exact_sums, allowance)
    assert 0.999 * allowance.amount < found <= allowance.amount


@pytest.mark.parametrize("allowance", ALLOWANCES)
@pytest.mark.parametrize(
    "mistake", [not_clipped, unusable_twice, unusable_scored, persons_ignored, whole_errors]
)
def test_planted_mistakes_are_found(mistake: Count, allowance: Allowance) -> None:
    assert worst(mistake, allowance) > 1.01 * allowance.amount


@pytest.mark.parametrize("kind", PRECISION._fields)
@pytest.mark.parametrize("unit", ["mu", "epsilon"])
def test_weights_beyond_the_sensitivity_are_found(
    kind: str, unit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each weight raised alone, in place of the proved one."""
    name = "PRECISION" if unit == "mu" else "INVERSE_SCALE"
    weights = getattr(target_scores, name)
    raised = weights._replace(**{kind: getattr(weights, kind) * Fraction(3, 2)})
    monkeypatch.setattr(target_scores, name, raised)
    allowance = Allowance(unit, 0.05)
    points = np.linspace(-1, 1, 17)
    slots: list[Slot] = [(p, t, True) for p in points for t in points] + [(0.0, 0.0, False)]
    rows = [summed([slot], parts=2) for slot in slots]
    changes = [one - other for one in rows[: len(points)] for other in rows]
    found = max(costs(np.array(changes), allowance))
    assert found > 1.005 * allowance.amount


# --- noise


@pytest.mark.parametrize("budget", [ApproxDP(1.0, 1e-6), PureDP(1.0)])
def test_the_noise_has_the_stated_deviations(budget: Any) -> None:
    """Pooled over 800 scores for each of the eight kinds, divided by the stated deviation.

    The relative deviation of a pooled deviation is at most sqrt(5/(4 * 800)) = 4 % (Laplace);
    22 % is 5.5 times that, so eight of them are all within it except with a chance below 1e-6.
    """
    allowance = allowance_of(budget, Fraction(1, 2))
    p, t, usable = np.linspace(-1, 1, 10), np.linspace(1, -1, 10), np.arange(10) < 8
    parts, bits = parts_of(10, allowance), NotPrivateBits(3)
    sums, cells = exact_sums(p, t, usable, parts=parts)
    drawn = []
    for _ in range(800):
        found = score_targets(p, t, usable, low=0, high=1, allowance=allowance, bits=bits)
        stated = np.array(found.deviations)
        drawn.append(np.append(found.sums - sums, (found.cells - cells)[0]) / stated)
    np.testing.assert_allclose(np.array(drawn).std(axis=0), 1, rtol=0.22)


# --- JSON


def scored(**more: Any) -> TargetScores:
    t = np.linspace(-1, 1, 100)
    return score_targets(
        t / 2, t, np.arange(100) < 90, low=-60.0, high=180.0, allowance=ALLOWANCES[0],
        bits=NotPrivateBits(3), **more,
    )  # fmt: skip


@pytest.mark.parametrize("weights", [None, np.full(100, 0.5)])
def test_scores_survive_json(weights: Floats | None) -> None:
    found = scored(person_weights=weights)
    again = TargetScores.of_json(found.as_json())
    assert again.as_json() == found.as_json()
    assert np.array_equal(again.sums, found.sums)
    assert again.persons == (weights is not None)
    assert ("persons" in found.as_json()) == (weights is not None)


def test_scores_of_classes_and_of_targets_are_not_confused() -> None:
    y = np.arange(100) % 2
    classes = score(
        np.zeros(100),
        y,
        np.ones(100, bool),
        classes=2,
        allowance=ALLOWANCES[0],
        bits=NotPrivateBits(1),
    )
    with pytest.raises(InvalidValueError, match="layout of scores must be target-1, got 2"):
        TargetScores.of_json(classes.as_json())
    with pytest.raises(InvalidValueError, match="layout of scores must be a whole number"):
        Scores.of_json(scored().as_json())


def test_scores_of_another_shape_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="scores must be 7 sums and 4 cells"):
        TargetScores.of_json({**scored().as_json(), "cells": [1.0]})


@given(st.integers(1, 10**8), st.sampled_from(["mu", "epsilon"]), st.floats(1e-4, 9))
def test_the_table_stays_small(slots: int, unit: Any, amount: float) -> None:
    assert parts_of(slots, Allowance(unit, amount)) in (2, 4, 8, 16)
