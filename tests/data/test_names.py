"""Names of columns in and out of every map, and frames as output, as scikit-learn has them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_global_output_transform_pandas,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
)

from tests.data.maps import NUMBER_MAPS
from tidegate.features import (
    AppendIntercept,
    CenterScale,
    Columns,
    Flag,
    HashedText,
    NormClip,
    Number,
    RandomFourier,
    RandomProjection,
    RecordMap,
)

CHECKS = [
    check_dataframe_column_names_consistency,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_global_output_transform_pandas,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
]
FRAME = pandas.DataFrame(np.eye(3), columns=["a", "b", "c"], index=[7, 8, 9])
every_map = pytest.mark.parametrize("feature_map", NUMBER_MAPS, ids=repr)


@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")  # on purpose
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@every_map
def test_checks_of_scikit_learn(
    feature_map: RecordMap, check: Callable[[str, BaseEstimator], None]
) -> None:
    check(type(feature_map).__name__, clone(feature_map))


@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")  # on purpose
@pytest.mark.parametrize("check", CHECKS[1:4], ids=lambda check: check.__name__)
def test_checks_of_pipelines(check: Callable[[str, BaseEstimator], None]) -> None:
    check("Pipeline", make_pipeline(AppendIntercept(), RandomProjection(n_components=4)))


@pytest.mark.parametrize(
    ("feature_map", "names"),
    [
        (AppendIntercept(), ["a", "b", "c", "intercept"]),
        (NormClip(), ["a", "b", "c"]),
        (CenterScale([0.0] * 3, [1.0] * 3), ["a", "b", "c", "constant"]),
        (RandomProjection(n_components=2), ["randomprojection0", "randomprojection1"]),
        (RandomFourier(n_components=1), ["randomfourier0", "randomfourier1"]),
        (make_pipeline(NormClip(), AppendIntercept()), ["a", "b", "c", "intercept"]),
        (
            make_pipeline(RandomFourier(n_components=1), AppendIntercept()),
            ["randomfourier0", "randomfourier1", "intercept"],
        ),
    ],
    ids=repr,
)
def test_names_in_and_out(feature_map: Any, names: list[str]) -> None:
    fitted = feature_map.fit(FRAME)
    assert list(fitted.feature_names_in_) == ["a", "b", "c"]
    assert fitted.n_features_in_ == 3
    assert list(fitted.get_feature_names_out()) == names
    plain = fitted.transform(FRAME)
    framed = clone(feature_map).set_output(transform="pandas").fit(FRAME).transform(FRAME)
    assert list(framed.columns) == names
    assert list(framed.index) == [7, 8, 9]
    assert np.array_equal(framed.to_numpy(), plain)
    again = feature_map.set_output(transform="default").transform(FRAME)
    assert isinstance(again, np.ndarray)


@every_map
def test_a_map_that_was_not_fitted_takes_any_columns_without_a_warning(
    feature_map: RecordMap,
) -> None:
    fresh = clone(feature_map)
    assert np.array_equal(fresh.transform(FRAME), fresh.transform(FRAME.to_numpy()))


@every_map
def test_other_columns_than_in_fit_are_refused(feature_map: RecordMap) -> None:
    fitted = clone(feature_map).fit(FRAME)
    for other in (["b", "a", "c"], ["a", "b"]):
        with pytest.raises(ValueError, match="The feature names should match"):
            fitted.transform(FRAME[other])


def test_sparse_rows_are_no_frame() -> None:
    """As scikit-learn says it of its own: a clear error, which names the way out."""
    for feature_map, batch in (
        (AppendIntercept(), csr_array(np.eye(3))),
        (HashedText(n_features=8), ["tide"]),
    ):
        feature_map.set_output(transform="pandas")
        with pytest.raises(ValueError, match=r"set_output\(transform='default'\)"):
            feature_map.fit_transform(batch)


def test_names_of_columns_with_kinds() -> None:
    columns = Columns([Number("a", low=0, high=1), Flag("c")]).set_output(transform="pandas")
    framed = columns.fit(FRAME).transform(FRAME)
    assert list(framed.columns) == list(columns.get_feature_names_out())
    assert list(framed.index) == [7, 8, 9]
    assert list(columns.feature_names_in_) == ["a", "c"]


def test_names_of_hashed_text() -> None:
    names = HashedText(n_features=2).fit(["tide"]).get_feature_names_out()
    assert list(names) == ["hashedtext0", "hashedtext1"]
