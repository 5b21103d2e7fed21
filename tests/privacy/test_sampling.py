from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from tidegate.checks import InvalidValueError
from tidegate.privacy.noise import NotPrivateBits, SystemBits, Words
from tidegate.privacy.sampling import below, draw

FALSE_ALARM = 1e-6


@given(st.integers(0, 2**32), st.data())
def test_a_sample_is_a_set_of_slots(seed: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 500))
    sample = data.draw(st.integers(1, size))
    slots = draw(sample, size, NotPrivateBits(seed))
    assert slots.size == sample
    assert np.unique(slots).size == sample
    assert 0 <= slots.min() <= slots.max() < size
    assert (np.diff(slots) > 0).all()


def test_every_subset_is_as_likely_as_any_other() -> None:
    """Chi-square over all subsets of 3 of 6, false-alarm rate 1e-6, with fresh bits."""
    counts = dict.fromkeys(combinations(range(6), 3), 0)
    draws = 8000
    for _ in range(draws):
        counts[tuple(int(slot) for slot in draw(3, 6, SystemBits()))] += 1  # type: ignore[index]
    expected = draws / comb(6, 3)
    statistic = sum((count - expected) ** 2 / expected for count in counts.values())
    assert statistic < chi2.isf(FALSE_ALARM, comb(6, 3) - 1)


class Given:
    """Returns chosen words."""

    private = False

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> Words:
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, np.uint64)


def test_words_beyond_the_last_whole_multiple_are_not_used() -> None:
    """2^64 = 1 mod 3: the largest word would make 0 more likely than 1 and 2."""
    assert below(3, Given(2**64 - 1, 5)) == 2
    assert below(3, Given(2**64 - 2, 5)) == 2


@pytest.mark.parametrize(("sample", "size"), [(0, 5), (6, 5), (1, 0), (-1, 5)])
def test_impossible_samples_are_refused(sample: int, size: int) -> None:
    with pytest.raises(InvalidValueError):
        draw(sample, size, SystemBits())
