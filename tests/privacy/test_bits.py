"""Sources of bits are fair, never repeat, and say whether they are private."""

import numpy as np
import pytest
from scipy.stats import chi2

from tidegate.checks import InvalidValueError
from tidegate.privacy.noise import Bits, NotPrivateBits, SystemBits

FALSE_ALARM = 1e-6


@pytest.mark.parametrize("bits", [SystemBits(), NotPrivateBits(1)])
def test_words_are_as_many_as_asked_for(bits: Bits) -> None:
    for count in (0, 1, 1000):
        words = bits.words(count)
        assert words.shape == (count,)
        assert words.dtype == np.uint64


@pytest.mark.parametrize("bits", [SystemBits(), NotPrivateBits(1)])
def test_every_bit_of_a_word_is_fair(bits: Bits) -> None:
    # Each of 64 counts is binomial(n, 1/2): their standardised squares sum to chi-square(64).
    n = 20_000
    octets = bits.words(n).view(np.uint8).reshape(n, 8)
    ones = np.unpackbits(octets, axis=1).sum(axis=0)
    assert ((ones - n / 2) ** 2 / (n / 4)).sum() < chi2.isf(FALSE_ALARM, 64)


def test_no_word_comes_twice() -> None:
    # 2e4 words of 64 bits collide with probability about 1e-11.
    for bits in (SystemBits(), NotPrivateBits(1)):
        drawn = np.concatenate([bits.words(10_000), bits.words(10_000)])
        assert np.unique(drawn).size == drawn.size


def test_a_seed_repeats_and_says_that_it_is_not_private() -> None:
    first, second = NotPrivateBits(5), NotPrivateBits(5)
    split = np.concatenate([first.words(3), first.words(4)])
    assert np.array_equal(split, second.words(7))
    assert not first.private
    assert SystemBits().private


@pytest.mark.parametrize("seed", [-1, 1.5, None, True])
def test_a_bad_seed_is_refused(seed: object) -> None:
    with pytest.raises(InvalidValueError, match="seed must be a whole number"):
        NotPrivateBits(seed)  # type: ignore[arg-type]
