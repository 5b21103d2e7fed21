"""Surveys, scores and accuracy in which a person counts like one record."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tidegate.checks import InvalidValueError
from tidegate.data.records import Records
from tidegate.learn.drift import Errors, drift_of, drift_of_scores
from tidegate.learn.preparation import Moments, stops
from tidegate.learn.private_accuracy import correct, private_accuracy
from tidegate.learn.score_cells import Cells
from tidegate.learn.score_kinds import measures_of
from tidegate.learn.scores import Scores, score
from tidegate.learn.slot_weights import Owned, once, with_persons
from tidegate.learn.survey import (
    cells_of,
    cells_of_persons,
    lattice_bits,
    person_bits,
    survey,
)
from tidegate.privacy.budget import Allowance
from tidegate.privacy.noise import NotPrivateBits

MU, EPSILON = Allowance("mu", 0.5), Allowance("epsilon", 0.5)


def step(n: int, persons: int, *, seed: int = 0, usable: float = 1.0) -> Records:
    """Records of two classes, those of some persons."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    X = np.column_stack([0.5 * y - 0.25, np.full(n, 0.5)])
    good = rng.random(n) < usable
    owners = (1 + rng.integers(persons, size=(n, 1))).astype(np.uint64)
    return Records(
        np.where(good[:, None], X, 0),
        np.where(good, y, 0),
        good,
        owners=owners * np.ones((1, 2), np.uint64),
    )


def counted(records: Records, admitted: Any = None) -> Records:
    bits = np.ones(records.n, np.bool_) if admitted is None else admitted
    return once(records, bits)


@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 2**32), st.booleans())
def test_cells_are_the_weighted_sums_exactly(n: int, persons: int, seed: int, thin: bool) -> None:
    records = counted(step(n, persons, seed=seed, usable=0.8), np.arange(n) % 4 > 0)
    bits, shares = person_bits(n)
    given_rows = Records(
        sparse.csr_array(records.X) if thin else records.X,
        records.y,
        records.usable,
        person_weights=records.person_weights,
    )
    found = cells_of_persons(given_rows, norm=1.0, classes=2, bits=bits, shares=shares)
    expected = [Fraction(0)] * 8
    assert records.person_weights is not None
    for row, y, good, weight in zip(
        records.X, records.y, records.usable, records.person_weights, strict=True
    ):
        part = Fraction(int(Fraction(float(weight)) * 2**shares), 2**shares)
        units = [
            Fraction(int(Fraction(float(x)) * (1 - Fraction(1, 2**50)) * 2**bits), 2**bits)
            for x in row
        ]
        for place, each in enumerate([*units, *(u * u for u in units)]):
            expected[place] += part * each
        expected[4 + int(y) if good else 6] += part
        expected[7] += part * sum(u * u for u in units)
    assert [Fraction(float(each)) for each in found] == expected


def test_a_person_moves_a_survey_like_one_record() -> None:
    """All of a person's slots change sides and class: the weighted cells move as far as for one."""
    one = step(64, 4)
    assert one.owners is not None
    mine = one.owners[:, 0] == 1
    other = Records(
        np.where(mine[:, None], -np.eye(2)[0], one.X), np.where(mine, 1, one.y), one.usable,
        owners=one.owners,
    )  # fmt: skip
    first = Records(
        np.where(mine[:, None], np.eye(2)[0], one.X), np.where(mine, 0, one.y), one.usable,
        owners=one.owners,
    )  # fmt: skip
    bits, shares = person_bits(64)
    a, b = (
        cells_of_persons(counted(each), norm=1.0, classes=2, bits=bits, shares=shares)
        for each in (first, other)
    )
    weights = np.array([1, 1, 0.5**0.5, 0.5**0.5, 0.5, 0.5, 0.5, 1])
    moved = float(np.linalg.norm(weights * (a - b)))
    assert 2.1 < moved <= 4.5**0.5  # it is attained


@given(st.integers(2, 40), st.integers(1, 5), st.integers(0, 2**32))
def test_products_of_persons_are_the_weighted_sums_exactly(n: int, persons: int, seed: int) -> None:
    records = counted(step(n, persons, seed=seed, usable=0.8), np.arange(n) % 4 > 0)
    bits, shares = person_bits(n)
    found = cells_of_persons(records, norm=1.0, classes=2, bits=bits, shares=shares, pairs=True)
    expected = Fraction(0)
    assert records.person_weights is not None
    rows: Any = records.X
    for row, good, weight in zip(rows, records.usable, records.person_weights, strict=True):
        units = [
            Fraction(math.trunc(x * (1 - 2.0**-50) * 2**bits), 2**bits) if good else Fraction(0)
            for x in row.tolist()
        ]
        part = Fraction(math.trunc(weight * 2**shares), 2**shares)
        expected += part * units[0] * units[1]
    assert len(found) == 9
    assert Fraction(found[-1]) == expected


@pytest.mark.parametrize("allowance", [MU, EPSILON])
def test_a_survey_of_persons_tells_their_means(allowance: Allowance) -> None:
    """Half of the slots are those of few persons, of one class; all means are over persons."""
    n, few = 40_000, 10
    y = np.repeat([1, 0], n // 2)
    X = np.column_stack([np.where(y == 1, 0.5, -0.5), np.zeros(n)])
    owners = np.where(y == 1, np.arange(n) % few, few + np.arange(n) // 4).astype(np.uint64) + 1
    records = Records(X, y, np.ones(n, np.bool_), owners=np.column_stack([owners, owners]))
    seen = survey(
        counted(records), norm=1.0, classes=2, allowance=allowance, bits=NotPrivateBits(1),
        persons=True,
    )  # fmt: skip
    persons = few + n // 8
    assert abs(seen.total - persons) < 20 * seen.deviations.counts
    moments = Moments.before_first(2, 2).after(seen)
    assert moments.class_shares[0] > 0.98
    transform = moments.transform(norm=1.0, sparse=False)
    np.testing.assert_allclose(transform.center[0], -0.5, atol=0.05)
    assert not stops(seen)
    assert drift_of(moments, seen) is None


def test_unusable_records_of_persons_stop_a_stream() -> None:
    """Nearly all persons have several records, most of which cannot be used."""
    records = step(4000, 800, usable=0.1)
    seen = survey(
        counted(records), norm=1.0, classes=2, allowance=Allowance("mu", 2.0),
        bits=NotPrivateBits(1), persons=True,
    )  # fmt: skip
    assert 0.8 < seen.unusable_share < 1
    assert stops(seen)


def test_slots_that_are_not_admitted_are_in_no_cell() -> None:
    records = counted(step(100, 10), np.zeros(100, np.bool_))
    bits, shares = person_bits(100)
    assert not cells_of_persons(records, norm=1.0, classes=2, bits=bits, shares=shares).any()
    layout = Cells.of(2, 100, MU)
    counts, cells = layout.count(np.ones(100), records.y, records.usable, records.person_weights)
    assert not counts.any()
    assert not cells.any()
    assert correct(np.ones(2), records, norm=2.0) == 0


def test_a_survey_refuses_what_it_does_not_expect() -> None:
    plain = step(50, 5)
    bits, shares = person_bits(50)
    for records in (plain, counted(plain)):
        with pytest.raises(InvalidValueError, match="person_weights must be on"):
            cells_of(records, norm=1.0, classes=2, bits=lattice_bits(50))
    with pytest.raises(InvalidValueError, match="person_weights must be on"):
        cells_of_persons(plain, norm=1.0, classes=2, bits=bits, shares=shares)


# --- scores


def scored(records: Records, margins: Any, allowance: Allowance = MU, classes: int = 2) -> Scores:
    return score(
        margins, records.y, records.usable, classes=classes, allowance=allowance,
        bits=NotPrivateBits(3), person_weights=records.person_weights,
    )  # fmt: skip


@pytest.mark.parametrize("classes", [2, 4, 80])
@pytest.mark.parametrize("allowance", [MU, EPSILON])
def test_a_person_moves_scores_like_one_record(classes: int, allowance: Allowance) -> None:
    """All of a person's slots become wrong: counts move by one in all."""
    rng, n = np.random.default_rng(0), 90
    layout = Cells.of(classes, n, allowance)
    margins = rng.normal(size=n) if classes == 2 else rng.normal(size=(n, classes))
    y = (margins > 0).astype(np.intp) if classes == 2 else margins.argmax(axis=1)
    owners = np.repeat(np.arange(1, 31), 3).astype(np.uint64)
    records = Records(
        np.zeros((n, 1)), y, np.ones(n, np.bool_), owners=np.column_stack([owners, owners])
    )
    weights = counted(records).person_weights
    other = np.where(owners == 7, (y + 1) % classes, y)
    before = layout.count(margins, y, records.usable, weights)
    after = layout.count(margins, other, records.usable, weights)
    third = Fraction(float(np.asarray(weights)[0])) * 3
    assert 1 - Fraction(1, 2**30) <= third <= 1
    moved = np.abs(before[0] - after[0])
    np.testing.assert_allclose(moved[:2], 1, atol=1e-6)
    assert (moved <= 1).all()
    scales = layout.scales(allowance)
    changes = np.abs(before[1] - after[1]) / scales
    moved = moved / layout.count_scale(allowance)
    if allowance.unit == "mu":
        assert np.sqrt((changes**2).sum() + (moved**2).sum()) <= allowance.amount
    else:
        assert changes.sum() + moved.sum() <= allowance.amount


@pytest.mark.parametrize("classes", [2, 3])
def test_measures_are_over_persons(classes: int) -> None:
    """Nine in ten slots are those of one person in a hundred, on whom the model is wrong."""
    rng, n = np.random.default_rng(1), 50_000
    many = rng.random(n) < 0.9
    owners = np.where(many, rng.integers(1, 60, n), 1000 + np.arange(n)).astype(np.uint64)
    y = rng.integers(classes, size=n)
    told = np.where(many, (y + 1) % classes, y)
    margins = 2.0 * told - 1 if classes == 2 else 3.0 * np.eye(classes)[told]
    records = counted(
        Records(np.zeros((n, 1)), y, np.ones(n, np.bool_), owners=np.column_stack([owners] * 2))
    )
    found = scored(records, margins, Allowance("mu", 0.5), classes)
    assert found.persons
    accuracy = measures_of(found).accuracy
    assert accuracy is not None
    exact = (~many).sum() / ((~many).sum() + 59)
    assert abs(accuracy.value - exact) < 6 * accuracy.deviation + 1e-3
    again = Scores.of_json(found.as_json())
    assert again.persons
    assert drift_of_scores(Errors().after(found), found) is None
    plain = score(margins, y, records.usable, classes=classes, allowance=MU, bits=NotPrivateBits(1))
    assert "persons" not in plain.as_json()


def test_a_private_accuracy_counts_persons() -> None:
    owners = np.repeat(np.arange(1, 301), 3).astype(np.uint64)
    records = Records(
        np.ones((900, 1)), np.ones(900, np.intp), np.ones(900, np.bool_),
        owners=np.column_stack([owners, owners]),
    )  # fmt: skip
    protected = counted(records)
    assert 299.999 < correct(np.ones(1), protected, norm=1.0) <= 300
    noisy = private_accuracy(
        np.ones(1), protected, norm=1.0, allowance=Allowance("mu", 2.0), bits=NotPrivateBits(1)
    )
    assert abs(noisy - 1 / 3) < 0.01
    with pytest.raises(InvalidValueError, match="person_weights must be on records with owners"):
        correct(np.ones(1), records, norm=1.0)


def test_pieces_of_a_step_are_counted_like_the_whole_step() -> None:
    records = step(300, 40)
    assert records.owners is not None
    owned = Owned(records.owners, np.arange(300) % 5 > 0)
    pieces = with_persons([records.take(slice(0, 100)), records.take(slice(100, 300))], owned)
    bits, shares = person_bits(300)
    parts = [
        cells_of_persons(piece.load(), norm=1.0, classes=2, bits=bits, shares=shares)
        for piece in pieces
    ]
    whole = cells_of_persons(
        counted(records, owned.admitted), norm=1.0, classes=2, bits=bits, shares=shares
    )
    np.testing.assert_array_equal(sum(parts), whole)
