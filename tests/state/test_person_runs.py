"""Runs of the ledger of persons, against sets of (owner, step)."""

import hashlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.data.records import Owners
from tidegate.state.person_rows import (
    PARTS,
    Run,
    bounds,
    merged,
    owner_bytes,
    sorted_owners,
    step_digest,
)

WORDS = st.sampled_from([0, 1, 2, 2**56 - 1, 2**56, 2**63, 2**64 - 1])
Pair = tuple[tuple[int, int], int]
pairs = st.frozensets(st.tuples(st.tuples(WORDS, WORDS), st.integers(0, 2**20)), max_size=40)
near = st.frozensets(st.tuples(st.tuples(WORDS, WORDS), st.integers(0, 6)), max_size=60)


def owners_of(some: set[tuple[int, int]]) -> Owners:
    return np.array(sorted(some), np.uint64).reshape(-1, 2)


def run_of(admitted: frozenset[Pair]) -> Run:
    steps = sorted({step for _, step in admitted})
    by_step = (owners_of({owner for owner, at in admitted if at == step}) for step in steps)
    return merged([Run.of_step(owners, step) for owners, step in zip(by_step, steps, strict=True)])


def pairs_of(run: Run) -> list[Pair]:
    which, steps = run.steps()
    found = [tuple(map(int, owner)) for owner in run.owners[which]]
    return list(zip(found, steps.tolist(), strict=True))  # type: ignore[arg-type]


@given(pairs | near)
def test_a_run_holds_the_admissions_it_was_made_of(admitted: frozenset[Pair]) -> None:
    run = run_of(admitted)
    assert pairs_of(run) == sorted(admitted)
    assert (
        np.diff(run.starts)[np.diff(np.repeat(np.arange(len(run.counts)), run.counts)) == 0] > 0
    ).all()
    again = Run.unpack(run.pack())
    assert pairs_of(again) == sorted(admitted)
    assert again.pack() == run.pack()


@given(near, st.data())
def test_any_merge_is_the_union(admitted: frozenset[Pair], data: st.DataObject) -> None:
    where = {pair: data.draw(st.integers(0, 2)) for pair in sorted(admitted)}
    some = [run_of(frozenset(p for p in admitted if where[p] == each)) for each in range(3)]
    assert merged(some).pack() == run_of(admitted).pack()


@pytest.mark.thorough
@given(pairs)
def test_parts_divide_a_run(admitted: frozenset[Pair]) -> None:
    parts = list(run_of(admitted).parts())
    assert len(parts) == PARTS
    assert [pair for part in parts for pair in pairs_of(part)] == sorted(admitted)
    for number, part in enumerate(parts):
        assert all(owner[0] * PARTS >> 64 == number for owner, _ in pairs_of(part))


@given(near, st.frozensets(WORDS))
def test_owners_are_found_by_their_first_word(
    admitted: frozenset[Pair], firsts: frozenset[int]
) -> None:
    words = np.array(sorted(firsts), np.uint64)
    found = run_of(admitted).between(words, words)
    assert pairs_of(found) == sorted(pair for pair in admitted if pair[0][0] in firsts)


@given(st.lists(st.tuples(WORDS, WORDS)))
def test_owners_are_sorted_and_different(some: list[tuple[int, int]]) -> None:
    given = np.array(some, np.uint64).reshape(-1, 2)
    assert sorted_owners(given).tolist() == [list(each) for each in sorted(set(some))]


@given(st.frozensets(st.tuples(WORDS, WORDS)))
def test_a_digest_can_be_made_part_by_part(some: frozenset[tuple[int, int]]) -> None:
    owners, digest = owners_of(set(some)), hashlib.sha256()
    for low, high in pairwise(bounds(owners)):
        digest.update(owner_bytes(owners[low:high]))
    assert digest.hexdigest() == step_digest(owners)
    if some:
        assert step_digest(owners[1:]) != step_digest(owners)


def test_nobody_is_admitted_twice_in_a_step() -> None:
    owners = np.array([[1, 2], [3, 4]], np.uint64)
    with pytest.raises(ValueError, match="twice"):
        merged([Run.of_step(owners, 5), Run.of_step(owners[:1], 5)])


def test_damaged_bytes_are_refused() -> None:
    data = Run.of_step(np.array([[1, 2], [3, 4]], np.uint64), 5).pack()
    for broken in (data[:-1], data + b"\0", b"", data[:20]):
        with pytest.raises((ValueError, IndexError)):
            Run.unpack(broken)


def test_a_run_of_one_step_takes_hardly_more_than_its_owners() -> None:
    owners = np.sort(np.random.default_rng(0).integers(0, 2**64, 2000, np.uint64)).reshape(-1, 2)
    assert len(Run.of_step(owners, 7).pack()) < 16 * 1000 + 100
