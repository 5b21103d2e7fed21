"""Weights in the units of the features: they predict what the release predicts, by name."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from tests.estimators.estimators import CLASSIFIERS, REGRESSORS, classifier, regressor
from tidegate import ApproxDP, FadingClassifier, PrivateClassifier, PrivateRegressor
from tidegate.data.predicted import Target
from tidegate.features import (
    AppendIntercept,
    Category,
    Columns,
    HashedText,
    NormClip,
    Number,
    RandomFourier,
)
from tidegate.learn.transform import UNTRANSFORMED, Transform
from tidegate.release import Model, RegressionModel
from tidegate.release.coefficients import Coefficients

BUDGET = ApproxDP(1.0, 1e-6)


def unclipped(model: Any, X: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which rows no bound on the norm changes, computed naively."""
    value = [each.value for each in [model.features] if isinstance(each, AppendIntercept)]
    rows = np.column_stack([X, *[np.full(len(X), each) for each in value]])
    whole: NDArray[np.bool_] = np.linalg.norm(rows, axis=1) < model.norm * (1 - 1e-6)
    if model.transform is not None:
        whole &= inside(model.transform, rows)
    return whole


def inside(transform: Transform, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which rows a transform does not clip."""
    scaled = (rows - transform.center) * transform.scale
    moved = scaled @ transform.mix if transform.mix.size else scaled
    found: NDArray[np.bool_] = np.linalg.norm(moved, axis=1) < 1 - 1e-6
    return found


@st.composite
def models(draw: st.DrawFn) -> tuple[Any, NDArray[np.float64]]:
    """A model with any weights, and rows of which some are clipped."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    d, K = draw(st.integers(1, 6)), draw(st.sampled_from([1, 3]))
    features = draw(st.sampled_from([None, AppendIntercept(0.5), AppendIntercept(2.0)]))
    width = d + (features is not None)
    surveyed = draw(st.booleans())
    transform = None
    if surveyed:
        scale = 10.0 ** rng.uniform(-3, 1, width)
        transform = Transform.of(rng.normal(size=width) * draw(st.sampled_from([0, 1, 30])), scale)
    size = rng.normal(size=(width + surveyed, K) if K > 1 else width + surveyed)
    norm = draw(st.sampled_from([0.5, 5.0, 1000.0]))
    X = rng.normal(size=(50, d)) * 10.0 ** rng.uniform(-3, 1, (50, 1))
    if transform is not None:
        X = X / transform.scale[:d] + transform.center[:d]
    common: dict[str, Any] = {
        "weights": size,
        "norm": norm,
        "features": features,
        "transform": transform,
    }
    if K == 1 and draw(st.booleans()):
        return RegressionModel(target=Target(-1e4, 1e4), **common), X
    return Model(classes=np.arange(max(K, 2)), **common), X


@given(models())
def test_they_predict_what_the_model_predicts(drawn: tuple[Any, NDArray[np.float64]]) -> None:
    model, X = drawn
    X = X[unclipped(model, X)]
    assume(len(X))
    margins = X @ model.coefficients.weights.T + model.coefficients.intercepts
    size = 1 + np.abs(X) @ np.abs(model.coefficients.weights.T)
    size = size + np.abs(model.coefficients.intercepts)
    if model.transform is not None:  # a large centre cancels
        size = size + np.abs(model.transform.center) @ np.abs(model.transform.scale)
    if isinstance(model, RegressionModel):
        assert model.coef_.shape == (X.shape[1],)
        assert isinstance(model.intercept_, float)
        predicted = np.clip(X @ model.coef_ + model.intercept_, -1e4, 1e4)
        assert (np.abs(predicted - model.predict(X)) <= 1e-3 * size[:, 0]).all()
        return
    found = model.decision_function(X).reshape(len(X), -1)
    assert model.coef_.shape == (found.shape[1], X.shape[1])
    assert model.intercept_.shape == (found.shape[1],)
    assert (np.abs(margins - found) <= 1e-6 * size).all()


@pytest.mark.parametrize("budget", [None, ApproxDP(1000.0, 1e-6)], ids=["plain", "surveyed"])
@pytest.mark.parametrize("kind", [*CLASSIFIERS, *REGRESSORS])
def test_every_estimator_has_them(kind: type, budget: Any) -> None:
    more = {} if budget is None else {"budget": budget}
    make = classifier if kind in CLASSIFIERS else regressor
    estimator = make(kind, **more)
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.uniform(-1, 1, size=(40, 3)), columns=["a", "b", "c"])
    y = (X.a > 0).astype(int) if kind in CLASSIFIERS else 3 * X.a
    for name in ("coef_", "intercept_"):
        assert not hasattr(estimator, name)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        estimator.weights_by_name()
    estimator.fit(X, y)
    rows, model = X.to_numpy(), estimator._named_model()
    rows = rows[unclipped(model, rows)]
    assert len(rows) > 5
    table = pd.DataFrame(rows, columns=list(X))
    by_name = estimator.weights_by_name()
    if kind in CLASSIFIERS:
        margins = rows @ estimator.coef_[0] + estimator.intercept_[0]
        assert np.allclose(margins, estimator.decision_function(table), rtol=1e-6, atol=1e-6)
        assert estimator.coef_.shape == (1, 3)
        assert by_name == dict(zip(X, estimator.coef_[0], strict=True))
    else:
        predicted = (rows @ estimator.coef_ + estimator.intercept_).clip(-10, 10)
        assert np.allclose(predicted, estimator.predict(table), rtol=1e-6, atol=1e-5)
        assert estimator.coef_.shape == (3,)
        assert by_name == dict(zip(X, estimator.coef_, strict=True))
    again = pickle.loads(pickle.dumps(estimator))
    assert again.weights_by_name() == by_name
    assert list(again.weights_by_name()) == list(by_name)
    assert not hasattr(clone(estimator), "coef_")


def test_the_weight_of_a_class_points_to_it() -> None:
    """As scikit-learn has it: what speaks for the second of two classes is positive."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(4000, 2))
    y = np.where(X[:, 0] > 0, "yes", "no")
    two = PrivateClassifier(
        budget=ApproxDP(8.0, 1e-6), classes=["no", "yes"], norm=2.0, not_private_seed=1
    ).fit(X, y)
    assert two.coef_[0, 0] > abs(two.coef_[0, 1])
    assert list(two.weights_by_name()) == ["feature 0", "feature 1"]
    three = PrivateClassifier(
        budget=ApproxDP(8.0, 1e-6), classes=["no", "yes", "never"], norm=2.0, not_private_seed=1
    ).fit(X, y)
    assert three.coef_.shape == (3, 2)
    assert three.coef_[1, 0] > 0 > three.coef_[0, 0]
    assert three.weights_by_name()["feature 0"] == dict(
        zip(["no", "yes", "never"], three.coef_[:, 0], strict=True)
    )


def test_they_undo_the_units_of_columns() -> None:
    """A column in thousandths has a thousandth of the weight, and the same predictions."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2)) + 5
    y = (X[:, 0] > 5).astype(int)
    clf = FadingClassifier(
        budget=ApproxDP(8.0, 1e-6), step=1000, classes=[0, 1], norm=12.0, not_private_seed=1
    ).fit(X, y)
    boundary = -clf.intercept_[0] / clf.coef_[0].sum()
    assert clf.decision_function(np.full((1, 2), boundary)) == pytest.approx(0, abs=1e-6)
    assert clf.releases_[-1].transform is not None
    assert not np.allclose(clf.coef_[0], clf.releases_[-1].weights[:2])


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"age": rng.uniform(0, 80, 300), "sex": rng.choice(["f", "m"], 300)})


def test_columns_have_names_and_number_columns_units() -> None:
    X = frame()
    columns = Columns([Number("age", low=0, high=80), Category("sex", values=["f", "m"])])
    clf = PrivateClassifier(
        budget=BUDGET, classes=[False, True], features=columns, not_private_seed=1
    ).fit(X, X.age > 40)
    named = clf.weights_by_name()
    assert set(named) == {"age", "age missing", "sex=f", "sex=m", "sex other", "sex missing"}
    rows = columns.transform(X)
    margins = rows @ clf.coef_[0] + clf.intercept_[0]
    near = np.abs(margins - clf.decision_function(X)) < 1e-5
    assert near[unclipped_rows(clf, rows)].all()
    assert clf._named_model().coefficients.units == (40.0, *[None] * 5)
    raw = PrivateRegressor(budget=BUDGET, target=(0, 1), norm=90.0).fit(X[["age"]], X.age / 80)
    assert raw._named_model().coefficients.units == (1.0,)


def unclipped_rows(clf: Any, rows: Any) -> NDArray[np.bool_]:
    """Which features the transform of the newest release does not clip."""
    return inside(clf.releases_[-1].transform, rows)


def test_features_are_named_as_their_map_names_them_or_numbered() -> None:
    X = frame()
    y = (X.age > 40).astype(int)

    def names(features: Any, X: Any = X) -> list[str]:
        clf = PrivateClassifier(
            budget=BUDGET, classes=[0, 1], norm=90.0, features=features, not_private_seed=1
        )
        fitted = clf.fit(X, y)
        assert fitted.coef_.shape == (1, len(fitted.weights_by_name()))
        return sorted(fitted.weights_by_name())

    powers = PolynomialFeatures(2, include_bias=False)
    assert names(powers, X[["age"]]) == ["age", "age^2"]
    assert names(make_pipeline(NormClip(80.0), AppendIntercept(2.0)), X[["age"]]) == ["age"]
    assert names(RandomFourier(n_components=4), X[["age"]])[0] == "randomfourier0"
    assert names(HashedText(n_features=8), X.sex.tolist())[0] == "hashedtext0"
    assert names(None, X[["age"]].to_numpy()) == ["feature 0"]
    assert names(None, sparse.csr_array(X[["age"]].to_numpy())) == ["feature 0"]
    twice = Columns([Number("a", low=0, high=1), Category("a missing", values=["x"])])
    found = Coefficients.of(np.arange(5.0), UNTRANSFORMED, twice, None)
    assert len(set(found.names)) == 5


def test_a_column_may_be_named_like_the_gaps_of_another() -> None:
    columns = Columns([Number("a", low=0, high=1), Number("a missing", low=0, high=1)])
    found = Coefficients.of(np.arange(4.0), UNTRANSFORMED, columns, None)
    assert found.names == (
        "a",
        "a missing (feature 1)",
        "a missing (feature 2)",
        "a missing missing",
    )
