"""Person weights against their definition, in exact arithmetic."""

import math
import time
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.checks import InvalidValueError
from tidegate.data.records import Records
from tidegate.learn.slot_weights import (
    BITS,
    AdmittedStep,
    Owned,
    PersonPiece,
    once,
    person_weights,
    with_persons,
    with_weights,
)
from tidegate.schedule import SlotWeight, Span

Runs = list[tuple[int, float]]

UNIT = Fraction(1, 2**BITS)

levels = st.one_of(
    st.sampled_from([0.0, 0.5, 1.0, 0.8, 0.8**2, 0.8**3, 2.0**-60, 5e-324]), st.floats(0, 1)
)


@st.composite
def cases(draw: Any) -> tuple[Owned, Runs]:
    runs = draw(st.lists(st.tuples(st.integers(1, 4), levels), min_size=1, max_size=5))
    n = sum(size for size, _ in runs)
    # Words that collide in the first, in the second or in both; (0, 0) is nobody.
    word = st.sampled_from([0, 1, 2, 2**63, 2**64 - 1])
    people = draw(st.lists(st.tuples(word, word), min_size=n, max_size=n))
    admitted = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return Owned(np.array(people, np.uint64), np.array(admitted)), runs


def naive(owned: Owned, runs: Runs) -> list[Fraction]:
    """The integrals by their definition; slots that do not count have 0."""
    weights = [Fraction(weight) for size, weight in runs for _ in range(size)]
    mine = defaultdict(list)
    for slot, (owner, admitted) in enumerate(
        zip(owned.owners.tolist(), owned.admitted, strict=True)
    ):
        if admitted and any(owner):
            mine[tuple(owner)].append(slot)
    result = [Fraction(0)] * len(weights)
    for slots in mine.values():
        edges = sorted({Fraction(0), *(weights[slot] for slot in slots)})
        for slot in slots:
            for low, high in pairwise(edges):
                if high <= weights[slot]:
                    count = sum(weights[other] >= high for other in slots)
                    result[slot] += (high - low) / count
    return result


@given(cases())
def test_weights_are_the_integrals_rounded_down(case: tuple[Owned, Runs]) -> None:
    owned, runs = case
    found = person_weights(owned, runs)
    exact = naive(
        owned, [(size, math.floor(weight * 2.0**BITS) * 2.0**-BITS) for size, weight in runs]
    )
    most = len(runs) * UNIT  # each quotient is rounded down once
    for one, other in zip(found.tolist(), exact, strict=True):
        assert Fraction(one) <= other
        assert other - Fraction(one) <= most


@given(cases())
def test_any_of_a_persons_slots_add_up_to_at_most_the_largest_weight(
    case: tuple[Owned, Runs],
) -> None:
    owned, runs = case
    found = [Fraction(each) for each in person_weights(owned, runs).tolist()]
    weights = [Fraction(weight) for size, weight in runs for _ in range(size)]
    people = [tuple(each) for each in owned.owners.tolist()]
    for person in set(people):
        slots = [slot for slot, each in enumerate(people) if each == person][:6]
        for size in range(1, len(slots) + 1):
            for some in combinations(slots, size):
                assert sum(found[slot] for slot in some) <= max(weights[slot] for slot in some)


@given(cases())
def test_slots_that_do_not_count_have_weight_0_and_change_nothing(
    case: tuple[Owned, Runs],
) -> None:
    owned, runs = case
    found = person_weights(owned, runs)
    out = ~owned.admitted | ~owned.owners.any(axis=1)
    assert not found[out].any()
    others = owned.owners.copy()
    others[~owned.admitted] = [9, 9]
    assert (person_weights(Owned(others, owned.admitted), runs) == found).all()


@given(cases(), st.randoms(use_true_random=False))
def test_a_person_does_not_depend_on_others(case: tuple[Owned, Runs], random: Any) -> None:
    owned, runs = case
    person = random.choice(owned.owners.tolist())
    mine = (owned.owners == np.array(person, np.uint64)).all(axis=1)
    alone = Owned(owned.owners, owned.admitted & mine)
    found = person_weights(owned, runs)
    assert (person_weights(alone, runs) == np.where(mine, found, 0)).all()


@pytest.mark.parametrize("weight", [1.0, 0.5, 0.7])
def test_a_person_with_one_slot_counts_like_a_record(weight: float) -> None:
    owned = Owned(np.array([[1, 2], [3, 4]], np.uint64), np.ones(2, np.bool_))
    assert person_weights(owned, [(2, weight)]).tolist() == [weight, weight]


def test_the_ratio_would_break_the_promise_for_a_period() -> None:
    # One slot of weight 1, one old one of weight 1/100: of the old one alone the ratio keeps
    # 1/100 * 1/1.01 (below), but of ten old ones together 0.099, ten times the largest of them.
    owned = Owned(np.ones((11, 2), np.uint64), np.ones(11, np.bool_))
    runs = [(10, 0.01), (1, 1.0)]
    found = person_weights(owned, runs)
    assert found[:10].sum() <= 0.01
    weights = np.repeat([0.01, 1.0], [10, 1])
    ratio = weights / weights.sum()
    assert ratio[:10].sum() > 9 * 0.01


def test_owners_that_share_their_first_word_stay_apart() -> None:
    owners = np.array([[5, 1], [5, 2], [5, 1], [5, 2], [5, 3]], np.uint64)
    found = person_weights(Owned(owners, np.ones(5, np.bool_)), [(5, 1.0)])
    assert found.tolist() == [0.5, 0.5, 0.5, 0.5, 1.0]


@pytest.mark.parametrize(("runs", "bits"), [([(3, 1.0)], 2), ([(2, 1.0)], 3), ([(3, 1.0)], 4)])
def test_another_number_of_slots_is_refused(runs: Runs, bits: int) -> None:
    with pytest.raises(InvalidValueError, match="owners must be as many as slots"):
        person_weights(Owned(np.ones((3, 2), np.uint64), np.ones(bits, np.bool_)), runs)


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_a_weight_outside_0_and_1_is_refused(weight: float) -> None:
    with pytest.raises(InvalidValueError, match="a slot weight must be from 0 to 1"):
        person_weights(Owned(np.ones((1, 2), np.uint64), np.ones(1, np.bool_)), [(1, weight)])


# --- on records


def some(n: int, owners: Sequence[int] | None = None) -> Records:
    words = None
    if owners is not None:
        words = np.array([[each, each] for each in owners], np.uint64)
    return Records(np.ones((n, 2)), np.ones(n, np.intp), np.ones(n, np.bool_), owners=words)


def test_a_slot_of_weight_0_is_zeroed_and_unusable() -> None:
    found = with_weights(some(3, [1, 2, 3]), np.array([0.5, 0.0, 1.0]))
    assert found.usable.tolist() == [True, False, True]
    assert found.X.tolist() == [[1, 1], [0, 0], [1, 1]]
    assert found.y.tolist() == [1, 0, 1]
    assert found.owners is None


class Stored:
    """A piece that is not in memory."""

    def __init__(self, records: Records) -> None:
        self.records, self.n, self.place = records, records.n, None

    def ahead(self) -> None:
        pass

    def load(self) -> Records:
        return self.records


@pytest.mark.parametrize("kind", [Stored, lambda records: records])
def test_a_persons_slots_lie_in_many_pieces(kind: Any) -> None:
    pieces = [kind(some(2)), kind(some(1)), kind(some(3))]
    owners = np.array([[1, 1], [2, 2], [1, 1], [1, 1], [3, 3], [1, 1]], np.uint64)
    owned = Owned(owners, np.array([True, True, True, True, False, True]))
    half, one = SlotWeight(Span(0, 4), Fraction(1, 2)), SlotWeight(Span(4, 6), Fraction(1))
    marked = with_persons(pieces, owned, [half, one])
    found = [piece.load().person_weights for piece in marked]
    assert [each.tolist() for each in found if each is not None] == [
        [0.125, 0.5],
        [0.125],
        [0.125, 0.0, 0.625],
    ]
    for piece in marked:
        if isinstance(piece, PersonPiece):
            assert piece.weights.size == piece.n


def test_factors_stand_in_for_slot_weights() -> None:
    half, one = SlotWeight(Span(0, 2), Fraction(1, 2)), SlotWeight(Span(2, 3), Fraction(1))
    owned = Owned(np.ones((3, 2), np.uint64), np.ones(3, np.bool_))
    [piece] = with_persons([some(3)], owned, [half, one], {0.5: 0.375, 1.0: 1.0})
    assert piece.load().person_weights.tolist() == [0.125, 0.125, 0.75]  # type: ignore[union-attr]
    [piece] = with_persons([some(3)], owned, [half, one], {0.5: 0.0, 1.0: 1.0})
    assert piece.load().usable.tolist() == [False, False, True]


def test_pieces_of_another_size_are_refused() -> None:
    owned = Owned(np.ones((3, 2), np.uint64), np.ones(3, np.bool_))
    with pytest.raises(InvalidValueError, match="owners must be as many as slots"):
        with_persons([some(2)], owned)


def test_in_a_step_a_persons_slots_count_equally() -> None:
    found = once(some(4, [1, 1, 2, 3]), np.array([True, True, True, False]))
    assert found.person_weights is not None
    assert found.person_weights.tolist() == [0.5, 0.5, 1.0, 0.0]
    with pytest.raises(InvalidValueError, match="owners must be on the records of persons"):
        once(some(4), np.ones(4, np.bool_))


@given(st.integers(0, 6), st.integers(1, 6), st.integers(0, 8), st.integers(1, 6))
def test_the_step_in_progress_is_laid_over_the_published_ones(
    start: int, size: int, step_start: int, step_size: int
) -> None:
    span, step = Span(start, start + size), Span(step_start, step_start + step_size)
    owned = Owned(np.ones((size, 2), np.uint64), np.zeros(size, np.bool_))
    bits = np.arange(step_size) % 2 == 0
    found = owned.with_step(span, AdmittedStep(step, bits)).admitted
    expected = [slot in step and (slot - step.start) % 2 == 0 for slot in range(*span)]
    assert found.tolist() == expected
    assert not owned.admitted.any()


def test_half_a_million_slots_take_little_time() -> None:
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**63, size=(131_072, 2), dtype=np.uint64)
    owned = Owned(words[rng.integers(0, len(words), 524_288)], np.ones(524_288, np.bool_))
    runs = [(65_536, 0.8 ** (7 - age)) for age in range(8)]
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        person_weights(owned, runs)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 1.0  # 0.1 s on an idle core
