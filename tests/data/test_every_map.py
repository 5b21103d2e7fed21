"""The laws of all feature maps: each record by itself, nothing learned, nothing raised."""

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, csr_matrix, issparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from tests.data.maps import NUMBER_MAPS
from tidegate.checks import InvalidValueError
from tidegate.data.maps import MAPS
from tidegate.features import EncodedImage, HashedText, NormClip, RecordMap, Scattering

every_number_map = pytest.mark.parametrize("feature_map", NUMBER_MAPS, ids=repr)


def test_every_map_of_numbers_is_here() -> None:
    """A new one that is not would pass all laws by not being asked."""
    numbers = {each for each in MAPS.values() if not (each.takes_text or each.takes_columns)}
    assert {type(each) for each in NUMBER_MAPS} == numbers - {EncodedImage}  # see test_encoders


def marks(feature_map: RecordMap, columns: int) -> list[pytest.MarkDecorator]:
    """Scattering thousands of columns takes half a minute."""
    return [pytest.mark.slow] * (columns > 1000 and isinstance(feature_map, Scattering))


@st.composite
def batches(draw: st.DrawFn) -> NDArray[Any]:
    """Batches of any finite or non-finite floats, few and many columns, both memory orders."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    shape = draw(st.tuples(st.integers(1, 9), st.integers(1, 40)))
    usual = st.floats(-4, 4, width=32)
    odd = st.floats(width=32 if dtype is np.float32 else 64)
    batch = draw(arrays(dtype, shape, elements=usual | odd, fill=usual))
    return np.asfortranarray(batch) if draw(st.booleans()) else batch


def dense(features: Any) -> NDArray[Any]:
    return np.asarray(features.toarray() if issparse(features) else features)


def same(left: Any, right: Any) -> bool:
    """Equal bit for bit, the sign of zero included; any not-a-number is as good as another."""
    return normal_bytes(left) == normal_bytes(right)


def normal_bytes(features: Any) -> bytes:
    values = dense(features)
    return np.where(np.isnan(values), np.nan, values).astype(values.dtype).tobytes()


@every_number_map
@given(data=st.data())
def test_a_record_is_mapped_alike_in_every_batch(feature_map: RecordMap, data: Any) -> None:
    batch = data.draw(batches())
    if data.draw(st.booleans()):
        batch = csr_array(batch)
    chosen = data.draw(st.lists(st.integers(0, batch.shape[0] - 1), min_size=1, max_size=12))
    whole = feature_map.transform(batch)
    assert same(whole[chosen], feature_map.transform(batch[chosen]))
    assert all(same(whole[[i]], feature_map.transform(batch[[i]])) for i in set(chosen))


@pytest.mark.parametrize(
    ("feature_map", "columns"),
    [
        pytest.param(each, columns, marks=marks(each, columns), id=f"{each!r}-{columns}")
        for each in NUMBER_MAPS
        for columns in (1, 784, 9001)
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_record_is_mapped_alike_in_large_batches(
    feature_map: RecordMap, columns: int, dtype: Any
) -> None:
    """Sizes at which a plain matrix product does depend on the batch."""
    batch = np.random.default_rng().normal(size=(70, columns)).astype(dtype)
    whole = feature_map.transform(batch)
    for chosen in (slice(1), slice(3, 8), slice(None, None, -1), slice(69, 70), slice(1, 66)):
        assert same(whole[chosen], feature_map.transform(batch[chosen]))
        assert same(whole[chosen], feature_map.transform(np.asfortranarray(batch)[chosen]))


@every_number_map
@given(batch=batches())
def test_a_record_is_lost_where_it_is_not_finite_and_only_there(
    feature_map: RecordMap, batch: NDArray[Any]
) -> None:
    finite = np.isfinite(batch).all(axis=1)
    features = dense(feature_map.transform(batch))
    assert features.shape[0] == batch.shape[0]
    assert np.isnan(features[~finite]).all()
    near_overflow = np.abs(batch).max(axis=1, initial=0) > np.finfo(batch.dtype).max / 64
    assert np.isfinite(features[finite & ~near_overflow]).all()
    sparse = dense(feature_map.transform(csr_array(batch)))
    assert np.array_equal(np.isnan(sparse).any(axis=1), np.isnan(features).any(axis=1))


@every_number_map
@given(batch=batches())
def test_fit_keeps_the_number_of_columns_and_nothing_else(
    feature_map: RecordMap, batch: NDArray[Any]
) -> None:
    before = feature_map.transform(batch)
    fitted = clone(feature_map).fit(batch)
    assert set(vars(fitted)) - set(vars(clone(feature_map))) == {"n_features_in_"}
    assert fitted.n_features_in_ == batch.shape[1]
    assert same(before, fitted.transform(batch))
    assert same(before, pickle.loads(pickle.dumps(fitted)).transform(batch))
    assert len(fitted.get_feature_names_out()) == dense(before).shape[1]


@every_number_map
@pytest.mark.parametrize("kind", [csr_array, csr_matrix, coo_array])
def test_sparse_and_dense_records_have_the_same_features(feature_map: RecordMap, kind: Any) -> None:
    batch = np.random.default_rng().normal(size=(6, 40))
    batch[np.abs(batch) < 1] = 0
    batch[2] = 0
    expected = dense(feature_map.transform(batch))
    np.testing.assert_allclose(dense(feature_map.transform(kind(batch))), expected, rtol=1e-14)


@every_number_map
def test_duplicate_sparse_entries_count_as_their_sum(feature_map: RecordMap) -> None:
    split = csr_array((np.array([3.0, 4.0, 1.0]), np.array([1, 1, 0]), np.array([0, 3])), (1, 2))
    assert same(feature_map.transform(split), feature_map.transform(csr_array([[1.0, 7.0]])))


@every_number_map
@pytest.mark.parametrize(
    "batch",
    [
        np.array([77.0, 77.0]),
        np.full((2, 2, 2), 77.0),
        np.zeros((0, 3)),
        np.zeros((3, 0)),
    ],
    ids=lambda batch: f"{batch.dtype} {batch.shape}",
)
def test_a_batch_is_refused_for_its_shape_without_quoting_it(
    feature_map: RecordMap, batch: NDArray[Any]
) -> None:
    for method in (feature_map.transform, clone(feature_map).fit):
        with pytest.raises(ValueError, match=r"must be|minimum of 1") as refusal:
            method(batch)
        assert "secret" not in str(refusal.value)
        assert "77" not in str(refusal.value)


@every_number_map
@pytest.mark.parametrize(
    "batch",
    [
        [[1.0, 2.0], ["secret", 1.0], [3.0, True]],
        np.array([[1.0, 2.0], ["secret", 1.0], [3.0, True]], dtype=object),
    ],
    ids=["list", "objects"],
)
def test_text_in_one_record_does_not_touch_the_others(feature_map: RecordMap, batch: Any) -> None:
    features = dense(feature_map.transform(batch))
    alone = dense(feature_map.transform([[1.0, 2.0], [3.0, 1.0]]))
    assert np.isnan(features[1]).all()
    assert same(features[[0, 2]], alone)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("AppendIntercept", {"value": 0.0}),
        ("NormClip", {"norm": float("inf")}),
        ("RandomFourier", {"n_components": 7.0}),
        ("RandomFourier", {"gamma": -1.0}),
        ("RandomProjection", {"n_components": 0}),
        ("RandomProjection", {"seed": -1}),
        ("Scattering", {"width": 0}),
    ],
)
def test_wrong_parameters_are_refused_when_fitting(name: str, parameters: dict[str, Any]) -> None:
    by_name = {type(feature_map).__name__: feature_map for feature_map in NUMBER_MAPS}
    feature_map = clone(by_name[name]).set_params(**parameters)
    with pytest.raises(InvalidValueError, match=next(iter(parameters))):
        feature_map.fit([[1.0, 2.0]])


texts = st.lists(st.text() | st.none() | st.floats() | st.binary(), min_size=1, max_size=6)


@given(texts=texts, data=st.data())
def test_a_text_is_mapped_alike_in_every_batch(texts: list[object], data: Any) -> None:
    feature_map = HashedText(n_features=32)
    chosen = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=8))
    whole = feature_map.transform(texts)
    assert same(whole[chosen], feature_map.transform([texts[i] for i in chosen]))
    assert same(whole, clone(feature_map).fit(texts[:1]).transform(texts))
    assert same(whole, pickle.loads(pickle.dumps(feature_map)).transform(texts))
    lost = np.isnan(whole.toarray()).any(axis=1)
    assert lost.tolist() == [not isinstance(text, str) for text in texts]
    assert same(
        make_pipeline(feature_map, NormClip(1.0)).transform(texts)[chosen],
        NormClip(1.0).transform(whole[chosen]),
    )
