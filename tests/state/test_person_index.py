"""The index of persons, against a dictionary."""

from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidegate.state import person_index
from tidegate.state.person_index import PersonIndex

keys = st.integers(0, 60) | st.integers(2**32 - 5, 2**32 + 5) | st.integers(0, 2**48 - 1)
batches = st.lists(st.dictionaries(keys, st.integers(1, 2**64 - 1), max_size=40), max_size=12)


@given(batches, st.integers(1, 9), st.integers(1, 50))
def test_it_is_a_dictionary(some: list[dict[int, int]], block: int, few: int) -> None:
    with patch.multiple(person_index, BLOCK=block, MIN_NEWEST=few):
        index, model = PersonIndex(), dict[int, int]()
        for batch in some:
            model |= batch
            firsts = sorted(batch)
            states = [batch[first] for first in firsts]
            index.put(np.array(firsts, np.uint64), np.array(states, np.uint64))
            assert len(index) == len(model)
        wanted = sorted({*range(61), *model})
        found = index.get(np.array(wanted, np.uint64)).tolist()
        assert found == [model.get(each, 0) for each in wanted]


@given(batches, st.integers(0, 2**32))
def test_whoever_was_not_there_for_long_is_forgotten(
    some: list[dict[int, int]], before: int
) -> None:
    index, model = PersonIndex(), dict[int, int]()
    for batch in some:
        model |= batch
        firsts = sorted(batch)
        index.put(
            np.array(firsts, np.uint64), np.array([batch[each] for each in firsts], np.uint64)
        )
    index.drop(before)
    kept = {first: state for first, state in model.items() if (state >> 32) - 1 >= before}
    assert len(index) == len(kept)
    assert index.get(np.array(sorted(model), np.uint64)).tolist() == [
        kept.get(each, 0) for each in sorted(model)
    ]
