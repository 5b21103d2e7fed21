import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.checks import InvalidValueError
from tidegate.privacy import epsilon_for_sample

sizes = st.integers(1, 10**6)


@given(st.floats(1e-6, 20), sizes, sizes)
def test_the_amplified_epsilon_is_the_claimed_one(epsilon: float, a: int, b: int) -> None:
    sample, size = sorted((a, b))
    inner = epsilon_for_sample(epsilon, sample, size)
    assert inner >= math.nextafter(epsilon, 0)
    amplified = math.log1p(sample / size * math.expm1(inner))
    assert amplified == pytest.approx(epsilon, rel=1e-9)


@given(st.floats(1e-6, 20), sizes)
def test_a_sample_of_the_whole_span_amplifies_nothing(epsilon: float, size: int) -> None:
    assert epsilon_for_sample(epsilon, size, size) == pytest.approx(epsilon, rel=1e-15)
    assert epsilon_for_sample(epsilon, size, size) <= epsilon


def test_sampling_never_lowers_the_noise() -> None:
    """At epsilon = 1 and a tenth of the records, output perturbation needs 3.45 times more."""
    inner = epsilon_for_sample(1.0, 100, 1000)
    assert (1000 / 100) / inner == pytest.approx(3.45, abs=0.005)


def test_bad_samples() -> None:
    with pytest.raises(InvalidValueError, match="size must be a whole number from 11"):
        epsilon_for_sample(1.0, 11, 10)
    with pytest.raises(InvalidValueError, match="sample must be a whole number from 1"):
        epsilon_for_sample(1.0, 0, 10)
    with pytest.raises(InvalidValueError, match="epsilon must be a finite number above 0"):
        epsilon_for_sample(-1.0, 1, 10)


def test_an_absurd_epsilon_is_no_trouble() -> None:
    assert epsilon_for_sample(1e300, 1, 10) == pytest.approx(1e300)
