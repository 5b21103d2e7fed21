import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.data.records import Records
from tidegate.learn.private_accuracy import correct, deviation, private_accuracy
from tidegate.privacy.budget import Allowance
from tidegate.privacy.noise import NotPrivateBits


def records(seed: int, n: int, classes: int) -> Records:
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-2, 2, size=(n, 3))
    return Records(rows, rng.integers(classes, size=n), rng.random(n) < 0.8)


@given(st.integers(0, 2**32), st.integers(1, 30), st.sampled_from([2, 4]), st.data())
def test_a_record_moves_the_count_by_at_most_one(
    seed: int, n: int, classes: int, data: st.DataObject
) -> None:
    weights = np.random.default_rng(seed + 1).normal(size=(3,) if classes == 2 else (3, classes))
    one, other = records(seed, n, classes), records(seed, n, classes)
    slot = data.draw(st.integers(0, n - 1))
    other.X[slot] = data.draw(st.sampled_from([-1, 0, 5]))
    other.y[slot] = data.draw(st.integers(0, classes - 1))
    other.usable[slot] = data.draw(st.booleans())
    assert abs(correct(weights, one, norm=9.0) - correct(weights, other, norm=9.0)) <= 1


def test_unusable_slots_are_wrong_and_all_slots_count() -> None:
    data = Records(np.ones((10, 1)), np.ones(10, np.intp), np.arange(10) < 4)
    accuracy = private_accuracy(
        np.ones(1), data, norm=1.0, allowance=Allowance("mu", 1e9), bits=NotPrivateBits(1)
    )
    assert accuracy == pytest.approx(0.4, abs=1e-6)


@pytest.mark.parametrize("unit", ["epsilon", "mu"])
def test_its_uncertainty_is_what_it_says(unit: str) -> None:
    """Sample deviation of 4000 draws; within 1/6 of the claim but for a chance far below 1e-6.

    The relative deviation of a sample deviation is sqrt((kurtosis - 1)/(4 n)), at most
    sqrt(5/16000) = 1.8 % (Laplace): 1/6 is nine times that.
    """
    allowance = Allowance("epsilon" if unit == "epsilon" else "mu", 0.5)
    data = Records(np.ones((10, 1)), np.ones(10, np.intp), np.ones(10, bool))
    bits = NotPrivateBits(5)
    drawn = [
        private_accuracy(np.ones(1), data, norm=1.0, allowance=allowance, bits=bits)
        for _ in range(4000)
    ]
    assert np.std(drawn) == pytest.approx(deviation(10, allowance), rel=1 / 6)
