"""Ranges and norms that are far too wide are named, from noisy moments alone."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.data.columns import Category, Number
from tidegate.data.maps import Columns
from tidegate.learn.feature_summary import never_present, norm_advice, range_advice, summarize
from tidegate.learn.preparation import Moments

SLOTS = 100_000


def moments(rows: Any, norm: float, noise: float, seed: int = 0) -> Moments:
    """What surveys of these rows release, with noise of this deviation in a mean."""
    rng, n = np.random.default_rng(seed), len(rows)
    units = np.asarray(rows, np.float64) / norm
    sums, squares = units.mean(axis=0) * SLOTS, (units**2).mean(axis=0) * SLOTS
    length = float((units**2).sum() / n * SLOTS)
    size = noise * SLOTS
    noisy = [*(sums + rng.normal(0, size, sums.size))]
    noisy += [*(squares + rng.normal(0, math.sqrt(2) * size, sums.size))]
    noisy += [SLOTS / 2, SLOTS / 2, 0.0, length + rng.normal(0, size), float(SLOTS), size**2]
    return Moments(classes=2, cells=np.array(noisy))


def advice(high: float, noise: float, *, log: bool = False, seed: int = 0) -> list[Any]:
    """Advice on a column of numbers around 130, of deviation 15."""
    columns = Columns(
        [Category("ward", values=["a", "b"]), Number("pressure", low=0, high=high, log=log)]
    )
    values = np.random.default_rng(1).normal(130, 15, 5000)
    rows = columns.transform({"ward": ["a", "b"] * 2500, "pressure": values})
    found = summarize(moments(rows, columns.norm, noise, seed), norm=columns.norm)
    return list(range_advice(columns.checked, found))


def test_a_range_that_is_ten_times_too_wide_is_named() -> None:
    (found,) = advice(1500, 1e-6)
    assert (found.column, found.hidden) == ("pressure", False)
    assert 10 < found.times < 20
    assert found.used.low == pytest.approx(130 - 45, abs=8)
    assert found.used.high == pytest.approx(130 + 45, abs=8)
    assert "0 to 1,500 is at least" in found.text
    assert "\n" not in found.text
    assert advice(200, 1e-6) == []
    assert advice(1e6, 1e-6, log=True)[0].times > 3


def test_noise_that_hides_a_spread_is_named_as_such() -> None:
    (found,) = advice(1500, 0.01)
    assert found.hidden
    assert found.times < 3
    assert "noise hides its spread" in found.text


@given(st.integers(0, 2**32 - 1), st.floats(1e-6, 0.3))
def test_a_range_that_fits_is_never_called_too_wide(seed: int, noise: float) -> None:
    """Whatever the noise is; five deviations are exceeded once in three million draws."""
    assert all(each.times < 3 for each in advice(200, noise, seed=seed))


@pytest.mark.parametrize(("norm", "named"), [(3.0, False), (10.0, True), (300.0, True)])
def test_a_norm_that_is_too_large_is_named(norm: float, named: bool) -> None:
    rows = np.random.default_rng(0).normal(size=(5000, 2)) / 2
    found = norm_advice(moments(rows, norm, 1e-6), norm=norm)
    assert (found is not None) == named
    if found is not None:
        assert 0.95 < found.enough / (3 * math.sqrt(0.5)) < 1.5  # an upper bound
        assert f"records.norm = {norm:g} is at least" in found.text
    hidden = norm_advice(moments(rows, 1000.0, 0.1), norm=1000.0)
    assert hidden is not None
    assert hidden.hidden
    assert "noise hides how long records are" in hidden.text


def gaps(share: float, noise: float, seed: int = 0) -> list[Any]:
    """Which of three columns are never present, if a share of the numbers is missing."""
    columns = Columns(
        [
            Category("ward", values=["a", "b"]),
            Number("pressure", low=0, high=200),
            Number("age", low=0, high=110),
        ]
    )
    n = 5000
    missing = np.arange(n) < share * n
    table = {
        "ward": ["a", "b"] * (n // 2),
        "pressure": np.where(missing, np.nan, 130.0),
        "age": np.full(n, 50.0),
    }
    found = summarize(
        moments(columns.transform(table), columns.norm, noise, seed), norm=columns.norm
    )
    named = list(never_present(columns.checked, found))
    empty = {each.column for each in named}
    assert empty.isdisjoint(each.column for each in range_advice(columns.checked, found))
    return named


def test_a_column_that_is_never_present_is_named() -> None:
    (found,) = gaps(1.0, 1e-3)
    assert found.column == "pressure"
    assert found.gaps == pytest.approx(1, abs=6 * found.deviation)
    assert "pressure: never present, as far as the noise tells (" in found.text
    assert "\n" not in found.text
    assert gaps(1.0, 0.2) == [], "noise hides it"


@given(st.integers(0, 2**32 - 1), st.floats(1e-6, 0.3), st.floats(0, 0.25))
def test_a_column_that_is_often_present_is_never_called_empty(
    seed: int, noise: float, share: float
) -> None:
    """The noise would have to be off by more than six deviations."""
    assert gaps(share, noise, seed) == []
