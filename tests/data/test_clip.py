"""Clipping keeps the exact norm of what is stored within the bound."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from tidegate.checks import InvalidValueError
from tidegate.data.rows import CHUNK, clip_in_place, clipped_and_finite, row_norms
from tidegate.features import clip_rows

norms = st.floats(2**-64, 2**64, exclude_min=True, exclude_max=True) | st.floats(0.5, 2)


@st.composite
def finite_batches(draw: st.DrawFn) -> Any:
    """Any finite floats, from subnormal to the largest, alone or next to each other."""
    dtype: Any = draw(st.sampled_from([np.float32, np.float64]))
    width: Any = 8 * np.dtype(dtype).itemsize
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 30)))
    anything = st.floats(allow_nan=False, allow_infinity=False, width=width)
    batch = draw(arrays(dtype, shape, elements=anything | st.floats(-1, 1, width=width)))
    return csr_array(batch) if draw(st.booleans()) else batch


def squared_norms(rows: Any) -> list[Fraction]:
    dense = rows.toarray() if issparse(rows) else rows
    return [sum((Fraction(float(x)) ** 2 for x in row), Fraction(0)) for row in dense]


def margin(rows: Any) -> Fraction:
    return Fraction(2 * rows.shape[1] + 16, 2**53) + Fraction(float(np.finfo(rows.dtype).eps))


@given(batch=finite_batches(), norm=norms)
def test_the_exact_norm_keeps_the_bound(batch: Any, norm: float) -> None:
    clipped = clip_rows(batch, norm)
    assert clipped.dtype == batch.dtype
    assert all(square <= Fraction(norm) ** 2 for square in squared_norms(clipped))


@given(batch=finite_batches(), norm=norms)
def test_clipping_twice_is_clipping_once(batch: Any, norm: float) -> None:
    once = clip_rows(batch, norm)
    assert (once != clip_rows(once, norm)).sum() == 0


@given(batch=finite_batches(), norm=norms)
def test_only_rows_near_or_outside_the_sphere_move_and_not_too_far(batch: Any, norm: float) -> None:
    clipped = clip_rows(batch, norm)
    slack = margin(batch)
    changed = (batch != clipped).sum(axis=1)
    rows = zip(squared_norms(batch), squared_norms(clipped), changed, strict=True)
    for before, after, moved in rows:
        if before <= (Fraction(norm) * (1 - 2 * slack)) ** 2:
            assert not moved
        if before > Fraction(norm) ** 2:
            assert after >= (Fraction(norm) * (1 - 3 * slack)) ** 2


@given(batch=finite_batches(), norm=norms)
def test_directions_stay(batch: Any, norm: float) -> None:
    before = np.asarray(batch.toarray() if issparse(batch) else batch)
    after = clip_rows(before, norm)
    assert (np.sign(after) * np.sign(before) >= 0).all()
    for x, z in zip(before.astype(np.float64), after.astype(np.float64), strict=True):
        if np.abs(x).max() > 0:
            unit_x, unit_z = x / np.abs(x).max(), z / np.abs(z).max()
            np.testing.assert_allclose(unit_z, unit_x, atol=4 * float(margin(before)), rtol=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_near_the_sphere_where_the_plain_way_fails(dtype: Any) -> None:
    """Dividing by the computed norm leaves many rows outside; two thousand of ours are inside.

    That the plain way keeps all 2000 rows within the bound has probability below 1e-6 if each
    leaves the ball with probability 1/100 (measured: about 1/2), since 0.99^2000 < 1e-8.
    """
    batch = np.random.default_rng().normal(size=(2000, 20)).astype(dtype)
    plain = batch / np.linalg.norm(batch, axis=1, keepdims=True)
    assert any(square > 1 for square in squared_norms(plain))
    assert all(square <= 1 for square in squared_norms(clip_rows(batch, 1.0)))
    assert all(square <= 1 for square in squared_norms(clip_rows(plain, 1.0)))


@pytest.mark.parametrize("columns", [5000, 100_000])
def test_many_columns(columns: int) -> None:
    batch = np.full((1, columns), 3.0, dtype=np.float32)
    for rows in (batch, csr_array(batch)):
        clipped = clip_rows(rows, 1.0)
        assert 1 - 8e-7 < squared_norms(clipped)[0] <= 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_largest_and_the_smallest_floats(dtype: Any) -> None:
    kind = np.finfo(dtype)
    batch = np.array(
        [[kind.max] * 3, [-kind.max, kind.tiny, 0], [kind.smallest_subnormal] * 3, [0] * 3]
    )
    clipped = clip_rows(batch.astype(dtype), 1.0)
    expected = [[3.0**-0.5] * 3, [-1.0, 0.0, 0.0]]
    np.testing.assert_allclose(clipped[:2], expected, rtol=1e-6, atol=1e-30)
    assert np.array_equal(clipped[2:], batch[2:])


def naive_clip(row: NDArray[Any], norm: float) -> NDArray[Any]:
    length = float(np.sqrt(np.sum(row.astype(np.float64) ** 2)))
    return row * min(1.0, norm / length) if length else row


@given(batch=arrays(np.float64, (3, 7), elements=st.floats(-1e3, 1e3)), norm=st.floats(0.01, 1e4))
def test_agrees_with_the_naive_way_up_to_rounding(batch: NDArray[Any], norm: float) -> None:
    expected = [naive_clip(row, norm) for row in batch]
    np.testing.assert_allclose(clip_rows(batch, norm), expected, rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("norm", [0.0, -1.0, float("nan"), float("inf"), 1e-30, True])
def test_a_wrong_norm_is_refused(norm: float) -> None:
    with pytest.raises(InvalidValueError, match="norm must be"):
        clip_rows([[1.0]], norm)


@given(batch=finite_batches())
def test_the_computed_norm_is_as_near_as_proved(batch: Any) -> None:
    norms, powers = row_norms(batch)
    error = Fraction(1001, 1000) * (Fraction(batch.shape[1], 2) + 2) / 2**53
    for square, norm, power in zip(squared_norms(batch), norms, powers, strict=True):
        exact = square * Fraction(power) ** 2
        assert (1 - error) ** 2 * exact <= Fraction(norm) ** 2 <= (1 + error) ** 2 * exact


def halved_sum(terms: list[float]) -> float:
    """The order of additions that `row_norms` fixes, one number at a time."""
    while len(terms) > 1:
        left = (len(terms) + 1) // 2
        right = [*terms[left:], 0.0]
        terms = [a + b for a, b in zip(terms[:left], right[:left], strict=True)]
    return terms[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_order_of_additions_is_fixed_for_every_width(dtype: Any) -> None:
    entries = np.random.default_rng().normal(size=3 * 1000).astype(dtype)
    for columns in range(1, 1001):
        batch = entries[: 3 * columns].reshape(3, columns)
        norms, _ = row_norms(batch)
        assert norms[1] == math.sqrt(halved_sum([x * x for x in map(float, batch[1])]))
        assert norms[2] == row_norms(batch[2:])[0][0]


@pytest.mark.parametrize("columns", [1, 2, 31, 784, 1000, CHUNK + 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_is_clipped_alike_wherever_the_chunks_are_cut(columns: int, dtype: Any) -> None:
    """Rows of all sizes, so that those of another power of two stand among the rest."""
    rng = np.random.default_rng()
    count = 2 * (CHUNK // columns) + 3
    exponents = np.where(rng.random((count, 1)) < 0.1, rng.integers(-1000, 1000, (count, 1)), 0)
    with np.errstate(over="ignore", under="ignore"):
        sized = np.ldexp(rng.normal(size=(count, columns)) / columns**0.5, exponents).astype(dtype)
    whole = clip_rows(sized, 1.0)
    for chosen in (rng.permutation(count), slice(1, None), slice(None, None, -2), [count // 2]):
        for batch in (sized[chosen], np.asfortranarray(sized[chosen])):
            np.testing.assert_array_equal(clip_rows(batch, 1.0), whole[chosen])


@given(
    batch=arrays(np.float64, (4, 5), elements=st.floats()),
    kind=st.sampled_from([np.asarray, csr_array]),
)
def test_finite_rows_are_named_and_no_record_raises_or_is_shared(batch: Any, kind: Any) -> None:
    rows = kind(batch)
    with np.errstate(all="raise"):
        clipped, finite = clipped_and_finite(rows, 1.0)
    assert np.array_equal(finite, np.isfinite(batch).all(axis=1))
    dense = clipped if isinstance(clipped, np.ndarray) else clipped.toarray()
    assert np.array_equal(finite, np.isfinite(dense).all(axis=1))
    before, after = (x.data if issparse(x) else x for x in (rows, clipped))
    assert not np.shares_memory(before, after)


@given(batch=finite_batches(), norm=norms)
def test_clipping_in_place_is_the_same_bit_for_bit(batch: Any, norm: float) -> None:
    rows = batch.copy()
    clip_in_place(rows, norm)
    clipped: Any = clip_rows(batch, norm)
    one, other = (x.toarray() if issparse(x) else x for x in (rows, clipped))
    assert np.array_equal(one, other, equal_nan=True)


@pytest.mark.parametrize("outside", [1, 10, 40])
@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_clipping_few_or_many_rows_in_place(outside: int, kind: Any) -> None:
    batch = np.random.default_rng(0).normal(size=(40, 5)) / 10
    batch[:outside] *= 100
    batch[2] *= 1e200
    rows = kind(batch)
    clip_in_place(rows, 1.0)
    clipped: Any = clip_rows(kind(batch), 1.0)
    one, other = (x.toarray() if issparse(x) else x for x in (rows, clipped))
    assert np.array_equal(one, other)
