"""The transformer that exported releases centre and scale records with."""

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse
from sklearn.base import clone

from tidegate.checks import InvalidValueError
from tidegate.features import CenterScale
from tidegate.learn.transform import Transform

CENTER, SCALE = np.array([0.5, -0.25, 0.0]), np.array([0.5, 2.0, 1.0])


def rows(n: int = 50) -> Any:
    return np.random.default_rng(3).normal(size=(n, 3))


def test_it_is_the_transform_of_a_release() -> None:
    transform = Transform.of(CENTER, SCALE)
    (same,) = transform.feature_maps()
    assert np.array_equal(same.transform(rows()), transform.rows(rows()))


def test_it_learns_nothing_and_can_be_cloned() -> None:
    made = CenterScale(center=CENTER, scale=SCALE)
    before = made.transform(rows())
    assert np.array_equal(clone(made).fit(rows()).transform(rows()), before)
    assert made.fit(rows()).get_feature_names_out().tolist() == ["x0", "x1", "x2", "constant"]


def test_sparse_records_stay_sparse_unless_they_are_centred() -> None:
    made, scaled = CenterScale(center=CENTER, scale=SCALE), CenterScale([0, 0, 0], SCALE)
    X = csr_array(rows())
    assert not issparse(made.transform(X))
    assert issparse(scaled.transform(X))
    for each in (made, scaled):
        found: Any = each.transform(X)
        dense = found.toarray() if issparse(found) else found
        np.testing.assert_allclose(dense, each.transform(rows()), rtol=1e-12)


@pytest.mark.parametrize("mix", [None, np.eye(3)])
def test_a_record_that_is_not_finite_becomes_nan_alone(mix: Any) -> None:
    X = rows()
    X[4, 1] = np.inf
    found = np.asarray(CenterScale(CENTER, SCALE, mix=mix).transform(X))
    assert np.isnan(found[4]).all()
    assert np.isfinite(np.delete(found, 4, axis=0)).all()


@pytest.mark.parametrize(
    ("center", "scale"),
    [
        (CENTER, SCALE[:2]),
        (CENTER, SCALE - 0.5),
        (CENTER * np.nan, SCALE),
        (CENTER[:, None], SCALE[:, None]),
    ],
)
def test_numbers_that_do_not_fit_are_refused(center: Any, scale: Any) -> None:
    with pytest.raises(InvalidValueError, match="one finite number for each column"):
        CenterScale(center, scale).transform(rows())


def test_other_columns_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="X must be of 3 columns, got 4"):
        CenterScale(CENTER, SCALE).transform(np.zeros((1, 4)))
