"""The transform and the moments that it comes from."""

import math
import pickle
from contextlib import suppress
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tidegate.checks import InvalidValueError
from tidegate.data.records import Records
from tidegate.data.rows import (
    ENTRY_BITS,
    LARGEST_ENTRY,
    LARGEST_MIX,
    MOST_MIXED,
    mixed,
    on_mix_lattice,
)
from tidegate.features import clip_rows
from tidegate.learn import Softmax
from tidegate.learn.learner import Task
from tidegate.learn.preparation import Moments, mixing, shrunk
from tidegate.learn.survey import Survey, survey
from tidegate.learn.transform import Transform
from tidegate.privacy.budget import Allowance
from tidegate.privacy.noise import NotPrivateBits
from tidegate.state.damage import UNREADABLE

Floats = NDArray[np.float64]
seeds = st.integers(0, 2**32)
EXACT = Allowance("mu", 1e9)


def transform(seed: int, d: int, *, centred: bool = True) -> Transform:
    """A random transform; half of the centred ones mix features."""
    rng = np.random.default_rng(seed)
    center, scale = rng.normal(size=d) * centred, rng.uniform(0.1, 9, size=d)
    if not (centred and seed % 2 and 1 < d <= MOST_MIXED):
        return Transform.of(center, scale)
    turned = rng.normal(size=(d, d)) / d
    return Transform.of(center, scale, np.eye(d) / 2 + turned @ turned.T)


def squared_norm(row: Any) -> Fraction:
    return sum((Fraction(float(x)) ** 2 for x in row), Fraction(0))


@given(seeds, st.integers(1, 20), st.sampled_from([np.float32, np.float64]), st.booleans())
def test_the_exact_norm_of_every_row_is_bounded(
    seed: int, d: int, dtype: Any, sparse: bool
) -> None:
    X: Any = np.random.default_rng(seed).normal(size=(9, d)).astype(dtype)
    rows: Any = transform(seed, d, centred=not sparse).rows(csr_array(X) if sparse else X)
    dense = rows.toarray() if sparse else rows
    assert dense.dtype == dtype
    assert dense.shape == (9, d + 1)
    assert (dense[:, -1] == Transform.CONSTANT).all()
    assert max(map(squared_norm, dense)) <= Fraction(Transform.NORM) ** 2


def test_the_constants() -> None:
    assert float(np.float32(Transform.CONSTANT)) == Transform.CONSTANT
    assert Fraction(Transform.CONSTANT) <= Fraction(15, 100)
    below = math.nextafter(Transform.NORM, 0)
    assert Fraction(below) ** 2 < Fraction(10225, 10000) <= Fraction(Transform.NORM) ** 2


@given(seeds, st.integers(1, 300))
def test_a_row_does_not_depend_on_other_rows(seed: int, d: int) -> None:
    X = np.random.default_rng(seed).normal(size=(50, d))
    found = transform(seed, d)
    alone = np.vstack([np.asarray(found.rows(X[[i]])) for i in range(50)])
    assert np.array_equal(alone, np.asarray(found.rows(X)))


@given(seeds, st.integers(1, 12))
def test_sparse_rows_are_those_of_dense_ones(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(9, d)) * (rng.random((9, d)) < 0.3)
    found = transform(seed, d, centred=False)
    rows: Any = found.rows(csr_array(X))
    assert rows.has_canonical_format
    np.testing.assert_allclose(rows.toarray(), np.asarray(found.rows(X)), rtol=1e-12)


@given(seeds, st.booleans())
def test_unusable_slots_are_zero_and_the_rest_is_kept(seed: int, sparse: bool) -> None:
    rng = np.random.default_rng(seed)
    usable = rng.random(20) < 0.7
    X: Any = rng.normal(size=(20, 3)) * usable[:, None]
    rows = csr_array(X) if sparse else X
    before = Records(rows, rng.integers(2, size=20), usable, rng.random(20))
    found = pickle.loads(pickle.dumps(transform(seed, 3, centred=not sparse).records))(before)
    dense = found.X.toarray() if sparse else found.X
    assert not dense[~usable].any()
    assert (dense[usable, -1] == Transform.CONSTANT).all()
    for name in ("y", "usable", "slot_weights"):
        assert np.array_equal(getattr(found, name), getattr(before, name))


@given(seeds, st.integers(1, 9), st.sampled_from([None, 3]))
def test_carried_weights_have_the_same_margins(seed: int, d: int, classes: int | None) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(9, d)) / 1000  # short enough not to be clipped
    shape = (d + 1,) if classes is None else (d + 1, classes)
    weights = rng.normal(size=shape)
    spread = rng.uniform(0.1, 1, size=(2, d)) / np.sqrt(d)
    moved = rng.uniform(-0.1, 0.1, size=(2, d))
    mixes = [transform(seed + i, d).mix for i in (0, seed // 2 % 2)]
    old, new = (Transform.of(*numbers) for numbers in zip(moved, spread, mixes, strict=True))
    carried = new.carried(weights, old)
    assert carried.shape == weights.shape
    margins, before = np.asarray(new.rows(X)) @ carried, np.asarray(old.rows(X)) @ weights
    lost = most_truncated(old, weights) + most_truncated(new, carried)
    np.testing.assert_allclose(margins, before, atol=1e-9 + lost)
    effects, intercepts = new.undone(carried)
    raw = (X @ effects + intercepts).reshape(margins.shape)
    np.testing.assert_allclose(raw, margins, atol=1e-9 + lost)


def most_truncated(found: Transform, weights: Floats) -> float:
    """How much the lattice on which rows are mixed can change a margin."""
    if not found.mix.size:
        return 0.0
    return float(2.0**-ENTRY_BITS * np.abs(found.mix @ weights[:-1]).sum(axis=0).max())


def test_a_transform_to_itself_changes_nothing_but_roundings() -> None:
    found, weights = transform(1, 5), np.arange(6.0)
    np.testing.assert_allclose(found.carried(weights, found), weights, atol=1e-12)
    plain = Transform(center=found.center, scale=found.scale)
    np.testing.assert_allclose(plain.carried(weights, plain), weights, rtol=1e-15)


@given(seeds, st.integers(1, 20))
def test_cards_restore_every_bit(seed: int, d: int) -> None:
    found = transform(seed, d)
    again = Transform.of_card(found.on_card())
    assert again.center.tobytes() == found.center.tobytes()
    assert again.scale.tobytes() == found.scale.tobytes()
    assert again.mix.tobytes() == found.mix.tobytes()


def test_a_center_of_zeros_takes_no_place_on_a_card() -> None:
    wide = Transform.of(np.zeros(2**18), np.ones(2**18))
    assert wide.on_card()["center"] is None
    assert not Transform.of_card(wide.on_card()).center.any()
    signed = Transform.of(np.array([-0.0, 0.0]), np.ones(2))
    assert Transform.of_card(signed.on_card()).center.tobytes() == signed.center.tobytes()
    stated = {**wide.on_card(), "center": transform(1, 2).on_card()["center"]}
    with pytest.raises(InvalidValueError, match="got damage"):
        Transform.of_card(stated)


@given(seeds, st.integers(1, 300), st.sampled_from([np.float32, np.float64]), st.floats(0.1, 9))
def test_rows_are_those_of_clip_rows(seed: int, d: int, dtype: Any, size: float) -> None:
    """Bit for bit, also rows that are not finite, however many of them are clipped."""
    rng = np.random.default_rng(seed)
    X = (size * rng.normal(size=(40, d)) / np.sqrt(d)).astype(dtype)
    X[rng.random(40) < 0.1] = np.nan
    found = transform(seed, d)
    moved = (X.astype(np.float64) - found.center.astype(np.float64)) * found.scale.astype(float)
    if found.mix.size:
        moved = mixed(moved, found.mix)
    naive = np.column_stack([clip_rows(moved.astype(dtype), 1.0), np.full(40, found.CONSTANT)])
    assert np.array_equal(found.rows(X), naive.astype(dtype), equal_nan=True)


@given(seeds, st.integers(1, MOST_MIXED), st.booleans())
def test_mixing_is_exact(seed: int, d: int, largest: bool) -> None:
    """Also where all entries are as large as they may be, and of one sign."""
    rng = np.random.default_rng(seed)
    rows, matrix = rng.normal(size=(3, d)) * 9, rng.normal(size=(d, d))
    if largest:
        rows, matrix = np.full((3, d), 2 * LARGEST_ENTRY), np.abs(matrix)
        rows[1] -= rng.random(d) * LARGEST_ENTRY * 1.5
    matrix *= LARGEST_MIX / np.sqrt((matrix * matrix).sum(axis=0)) * 0.99
    mix = on_mix_lattice(matrix).astype(np.float32)
    Transform(center=np.zeros(d, np.float32), scale=np.ones(d, np.float32), mix=mix)
    kept = [[Fraction(int(min(max(x, -32), 32) * 2**28), 2**28) for x in row] for row in rows]
    columns = [[Fraction(float(x)) for x in column] for column in mix.T]
    found = mixed(rows, mix)
    for row, sums in zip(kept, found, strict=True):
        for column, value in zip(columns, sums, strict=True):
            exact = sum((x * m for x, m in zip(row, column, strict=True)), Fraction(0))
            assert Fraction(float(value)) == exact


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_no_rows_have_the_form_of_transformed_rows(kind: Any) -> None:
    empty = kind(np.zeros((1, 3), np.float32))[:0]
    form: Any = transform(1, 3, centred=False).rows(empty)
    assert (form.shape, form.dtype, type(form)) == ((0, 4), np.float32, type(empty))


@pytest.mark.parametrize(
    "damage",
    [
        {"constant": 0.2},
        {"norm": 1.0},
        {"center": "###"},
        {"center": "AAAA"},
        {"scale": ""},
        {"scale": None},
        {"center": 3},
        {"more": 1},
        {"scale": "AADAfwAAgD8="},
        {"scale": "AACAvwAAgD8="},
        {"scale": "AACAPw=="},
        {"mix": "AACAPw=="},
        {"mix": None},
        {"mix": "AADAfwAAgD8AAIA/AACAPw=="},  # not a number
        {"mix": "zczMPQAAgD8AAIA/AACAPw=="},  # not on the lattice
        {"mix": "AADIQgAAgD8AAIA/AACAPw=="},  # too large: 100
    ],
)
def test_a_damaged_card_is_refused(damage: dict[str, Any]) -> None:
    card = Transform.of(np.ones(2), np.ones(2)).on_card()
    with pytest.raises(InvalidValueError, match=r"^transform must be one that a release states"):
        Transform.of_card(card | damage)


@pytest.mark.parametrize("kind", [np.array, csr_array])
def test_no_rows_get_a_constant_column_too(kind: Any) -> None:
    """The form of a stream, which says how wide rows are, has none."""
    form = transform(1, 3, centred=False).rows(kind(np.empty((0, 3), np.float32)))
    assert (form.shape, form.dtype, type(form)) == ((0, 4), np.float32, type(kind(np.eye(2))))


def test_sparse_rows_are_refused_by_what_needs_dense_ones() -> None:
    mix = Transform.of(np.zeros(2), np.ones(2), np.eye(2))
    for found in (mix, transform(2, 2)):
        assert found.needs_dense_rows
        with pytest.raises(InvalidValueError, match="sparse"):
            found.rows(csr_array((1, 2)))
    assert not transform(2, 2, centred=False).needs_dense_rows


def test_rows_that_do_not_fit_are_refused() -> None:
    found = transform(1, 3)
    with pytest.raises(InvalidValueError, match="3 columns"):
        found.rows(np.zeros((1, 4)))
    with pytest.raises(InvalidValueError, match="sparse"):
        found.rows(csr_array((1, 3)))


def test_a_centred_task() -> None:
    task = Task(loss=Softmax(3), norm=7.0, regularization=0.5)
    centred = task.centred()
    assert (task.surveyed, centred.surveyed) == (False, True)
    assert (centred.norm, centred.loss, centred.regularization) == (Transform.NORM, task.loss, 0.5)


# --- moments


def surveyed(X: Any, y: Any, *, norm: float, allowance: Allowance = EXACT, seed: int = 1) -> Survey:
    usable = np.ones(len(y), np.bool_)
    records = Records(X, np.asarray(y), usable)
    bits = NotPrivateBits(seed)
    return survey(records, norm=norm, classes=2, allowance=allowance, bits=bits)


def naive(X: Floats, norm: float) -> tuple[Floats, Floats]:
    """Center and scale by the formulas, for moments that are known exactly."""
    units = X / norm
    center, d = units.mean(axis=0), X.shape[1]
    spread = np.clip((units**2).sum(axis=1).mean() - (center**2).sum(), 0.05, 1)
    variances = np.maximum(units.var(axis=0), 0.1 * spread / d)
    half_way = variances**-0.25
    return center * norm, half_way / math.sqrt((half_way**2 * variances).sum()) / norm


@given(seeds, st.integers(1, 8), st.sampled_from([0.5, 1.0, 40.0]))
def test_without_noise_the_transform_is_that_of_the_formulas(
    seed: int, d: int, norm: float
) -> None:
    rng = np.random.default_rng(seed)
    raw = rng.normal(size=(500, d)) * rng.uniform(0.1, 2, size=d) + rng.normal(size=d)
    X = np.asarray(clip_rows(raw * norm / 2, norm))
    moments = Moments.before_first(d, 2).after(surveyed(X, np.zeros(500, np.intp), norm=norm))
    found = moments.transform(norm=norm, sparse=False)
    center, scale = naive(X, norm)
    np.testing.assert_allclose(found.center, center, atol=1e-4 * norm)
    np.testing.assert_allclose(found.scale, scale, rtol=1e-3)


def test_rows_have_a_mean_square_of_about_one_before_clipping() -> None:
    rng = np.random.default_rng(3)
    X = np.asarray(clip_rows(rng.normal(size=(2000, 5)) * [1, 2, 3, 4, 5] + 3, 30.0))
    moments = Moments.before_first(5, 2).after(surveyed(X, np.zeros(2000, np.intp), norm=30.0))
    found = moments.transform(norm=30.0, sparse=False)
    units = (X - found.center) * found.scale
    assert (units**2).sum(axis=1).mean() == pytest.approx(1, rel=0.01)


def test_sparse_rows_are_scaled_by_their_second_moments() -> None:
    rng = np.random.default_rng(3)
    X = rng.random(size=(400, 3)) * [0.1, 0.2, 0.3]
    moments = Moments.before_first(3, 2).after(
        surveyed(csr_array(X), np.zeros(400, np.intp), norm=1.0)
    )
    found = moments.transform(norm=1.0, sparse=True)
    half_way = np.mean(X**2, axis=0) ** -0.25
    assert not found.center.any()
    np.testing.assert_allclose(found.scale / found.scale[0], half_way / half_way[0], rtol=0.05)


def test_noise_switches_centre_and_scales_off() -> None:
    """With noise far above the records, what is left is one scale for all features."""
    X = np.asarray(clip_rows(np.random.default_rng(3).normal(size=(64, 400)), 1.0))
    seen = surveyed(X, np.zeros(64, np.intp), norm=1.0, allowance=Allowance("mu", 1e-3))
    found = Moments.before_first(400, 2).after(seen).transform(norm=1.0, sparse=False)
    assert np.abs(found.center).max() < 1
    np.testing.assert_allclose(found.scale, found.scale.mean(), rtol=0.2)


def test_before_the_first_survey_rows_are_divided_by_the_norm() -> None:
    moments = Moments.before_first(3, 2)
    found = moments.transform(norm=4.0, sparse=False)
    assert found.scale.tolist() == [0.25] * 3
    assert (moments.class_shares, moments.unusable_share) == ((0.5, 0.5), 0.0)


@given(st.lists(seeds, min_size=1, max_size=6))
def test_moments_are_forgetting_sums_and_are_restored_by_their_cells(drawn: list[int]) -> None:
    moments, expected, slots, noise = Moments.before_first(2, 2), np.zeros(8), 0.0, 0.0
    for seed in drawn:
        rng = np.random.default_rng(seed)
        X = np.asarray(clip_rows(rng.normal(size=(30, 2)), 1.0))
        seen = surveyed(X, rng.integers(2, size=30), norm=1.0, allowance=Allowance("mu", 0.3))
        expected = Moments.KEEP * expected + seen.cells
        slots = Moments.KEEP * slots + 30
        noise = Moments.KEEP**2 * noise + seen.deviations.sums**2
        moments = moments.after(seen)
    np.testing.assert_allclose(moments.cells, [*expected, slots, noise], rtol=1e-12)
    pairs = np.frombuffer(moments.pairs.tobytes())
    again = Moments(classes=2, cells=np.frombuffer(moments.cells.tobytes()), pairs=pairs)
    one, other = (each.transform(norm=1.0, sparse=False) for each in (moments, again))
    assert one.on_card() == other.on_card()
    assert sum(again.class_shares) == pytest.approx(1)
    assert 0 <= again.unusable_share <= 1


def test_means_are_over_usable_slots_where_many_are_not() -> None:
    X = np.full((1000, 2), 0.4)
    usable = np.arange(1000) < 600
    records = Records(X * usable[:, None], np.zeros(1000, np.intp), usable)
    seen = survey(records, norm=1.0, classes=2, allowance=EXACT, bits=NotPrivateBits(1))
    moments = Moments.before_first(2, 2).after(seen)
    assert moments.unusable_share == pytest.approx(0.4)
    assert moments.class_shares[0] == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(moments.transform(norm=1.0, sparse=False).center, 0.4, atol=1e-4)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("huge", [1e308, -1e308, math.inf, -math.inf, math.nan, 1e154, 1e-308])
def test_numbers_that_somebody_has_changed_are_an_error_at_most(huge: float) -> None:
    """`verify` catches these errors; a warning would be a line that it does not expect."""
    for place in range(9):
        cells, pairs = np.ones(10), np.ones(1)
        cells[place] = huge
        changed = Moments(classes=2, cells=cells, pairs=pairs if place else huge * pairs)
        with suppress(*UNREADABLE):
            changed.transform(norm=1.0, sparse=False)


def test_another_kind_of_survey_is_refused() -> None:
    seen = surveyed(np.zeros((3, 2)), np.zeros(3, np.intp), norm=1.0)
    for features, classes in ((3, 2), (2, 3)):
        with pytest.raises(InvalidValueError, match="survey"):
            Moments.before_first(features, classes).after(seen)
    with pytest.raises(InvalidValueError, match="cells"):
        Moments(classes=2, cells=np.zeros(7))


def test_the_mean_is_shrunk_by_its_noise() -> None:
    assert shrunk(np.array([3.0, 4.0]), 1.0).tolist() == [3.0, 4.0]
    assert shrunk(np.full(4, 0.1), 1.0).tolist() == [0.0] * 4


def correlated(n: int, d: int) -> Floats:
    rng = np.random.default_rng(7)
    X = 0.05 * (3 * rng.normal(size=(n, 1)) + rng.normal(size=(n, d)))
    return np.asarray(clip_rows(X, 1.0))


@pytest.mark.parametrize("largest", [1, 3, 5])
def test_features_are_uncorrelated_where_surveys_see_them_clearly(largest: int) -> None:
    X = correlated(4000, 6) * ([largest, 1, 1, 1, 1, 1] / np.full(6, largest))
    moments = Moments.before_first(6, 2).after(surveyed(X, np.zeros(4000, np.intp), norm=1.0))
    found = moments.transform(norm=1.0, sparse=False)
    before = np.asarray(np.corrcoef(X.T))[np.triu_indices(6, 1)]
    scaled = (X - found.center) * found.scale
    moved = mixed(scaled, found.mix)
    after = np.asarray(np.corrcoef(moved.T))[np.triu_indices(6, 1)]
    assert before.min() > 0.8
    assert np.abs(after).max() < 0.35  # what is added to small variances leaves a part
    assert (moved**2).sum(axis=1).mean() == pytest.approx(1, rel=0.1)
    np.testing.assert_allclose(moved.std(axis=0), scaled.std(axis=0), rtol=0.1)


@given(seeds, st.integers(2, MOST_MIXED), st.floats(-4, 4), st.booleans())
def test_no_noisy_sums_give_a_matrix_that_cannot_mix(
    seed: int, d: int, size: float, alike: bool
) -> None:
    """However large the noise is, and however little the features vary."""
    rng = np.random.default_rng(seed)
    variances = np.exp(rng.normal(size=d) * 3)
    variances /= variances.sum()
    both = np.sqrt(np.outer(variances, variances)[np.triu_indices(d, 1)])
    drawn = np.ones(both.size) if alike else rng.standard_t(2, size=both.size)
    found = mixing(variances, 10.0**size * both * drawn, 10.0 ** rng.uniform(-6, 4) * both)
    made = Transform.of(np.zeros(d), np.ones(d), found)
    weights = rng.normal(size=d + 1)
    assert np.allclose(made.carried(weights, made), weights, atol=1e-6)


def test_uncorrelated_features_are_not_mixed_whatever_their_variances() -> None:
    rng = np.random.default_rng(5)
    X = np.asarray(clip_rows(rng.normal(size=(4000, 4)) * [0.3, 0.1, 0.05, 0.02], 1.0))
    moments = Moments.before_first(4, 2).after(surveyed(X, np.zeros(4000, np.intp), norm=1.0))
    found = moments.transform(norm=1.0, sparse=False)
    np.testing.assert_allclose(found.mix, np.eye(4), atol=0.05)


def test_where_noise_hides_products_features_are_hardly_mixed() -> None:
    X = correlated(64, 6)
    few = Allowance("mu", 1e-3)
    seen = surveyed(X, np.zeros(64, np.intp), norm=1.0, allowance=few)
    found = Moments.before_first(6, 2).after(seen).transform(norm=1.0, sparse=False)
    np.testing.assert_allclose(found.mix, np.eye(6), atol=0.2)


@pytest.mark.parametrize("size", [1e-300, 1e80, 1e155, 1e300])
def test_no_budget_is_too_small_or_too_large_for_a_matrix(size: float) -> None:
    found = mixing(np.array([0.7, 0.3]), np.array([size]), np.array([size]))
    np.testing.assert_allclose(found, np.eye(2), atol=0.01)


def test_the_noise_of_correlations_is_as_large_as_is_said() -> None:
    """Of independent features with a large mean, half of the noise comes from their means."""
    rng, few = np.random.default_rng(2), Allowance("mu", 0.02)
    X = np.asarray(clip_rows(0.69 + 0.05 * rng.normal(size=(4000, 2)), 1.0))
    noisy, said = [], []
    for seed in range(400):
        records = Records(X, np.zeros(4000, np.intp), np.ones(4000, np.bool_))
        seen = survey(records, norm=1.0, classes=2, allowance=few, bits=NotPrivateBits(seed))
        with patch("tidegate.learn.preparation.mixing", side_effect=mixing) as asked:
            Moments.before_first(2, 2).after(seen).transform(norm=1.0, sparse=False)
        variances, covariances, noise = asked.call_args.args
        both = np.sqrt(variances[0] * variances[1])
        noisy.append(covariances[0] / both)
        said.append(noise[0] / both)
    ratio = float(np.mean(np.square(noisy) / np.square(said)))
    # 400 squares of nearly normal numbers: their mean is within 0.35 of 1 but for 1 in a million.
    assert ratio == pytest.approx(1, abs=0.35 + 0.1)


@pytest.mark.parametrize("unusable", [0.0, 0.2])
def test_streams_whose_first_surveys_had_no_products_start_uncorrelated(unusable: float) -> None:
    rng = np.random.default_rng(1)
    usable = rng.random(400) >= unusable
    X = (correlated(400, 3) + 0.3) * usable[:, None]
    records = Records(X, np.zeros(400, np.intp), usable)
    seen = [
        survey(records, norm=1.0, classes=2, allowance=EXACT, bits=NotPrivateBits(1), rules=rules)
        for rules in (2, 3)
    ]
    moments = Moments.before_first(3, 2).after(seen[0])
    assert moments.pairs.size == 0
    one, other = np.triu_indices(3, 1)
    products = seen[0].sums[one] * seen[0].sums[other] / np.count_nonzero(usable)
    expected = seen[1].pairs + Moments.KEEP * products
    np.testing.assert_allclose(moments.after(seen[1]).pairs, expected, rtol=1e-6)
