"""Records that are learnt from again, or prepared by a step that learns: a warning says so."""

import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

import tidegate
from tidegate import (
    ApproxDP,
    FadingClassifier,
    PrivateClassifier,
    PrivateMean,
    SpentAgainWarning,
    UnprotectedInputWarning,
)
from tidegate.checks import InvalidValueError
from tidegate.estimators import spending
from tidegate.schedule import Independent

BUDGET = ApproxDP(1.0, 1e-6)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stream of another test is remembered."""
    monkeypatch.setattr(spending, "_streams", type(spending._streams)(maxlen=spending.MAX_STREAMS))


def records(n: int = 300, seed: int = 0) -> tuple[Any, Any]:
    X = np.random.default_rng(seed).normal(size=(n, 3)) * 2 + 1
    return X, (X[:, 0] > 1).astype(int)


def private(**more: Any) -> PrivateClassifier:
    return PrivateClassifier(budget=BUDGET, classes=[0, 1], norm=20.0, **more)


def fading(**more: Any) -> FadingClassifier:
    return FadingClassifier(budget=BUDGET, classes=[0, 1], norm=20.0, step=100, **more)


@pytest.fixture
def silent() -> Iterator[None]:
    """No warning at all."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.usefixtures("silent")
def test_what_spends_once_is_silent() -> None:
    X, y = records()
    clf = fading()
    for start in range(0, 300, 50):
        clf.partial_fit(X[start : start + 50], y[start : start + 50])
    private().fit(*records(seed=1))
    PrivateMean(budget=BUDGET, schedule=Independent(step=300), norm=5.0).fit(records(seed=2)[0])
    private(not_private_seed=1).fit(X, y).fit(X, y)  # a study: nothing is promised
    clf.predict(X)


@pytest.mark.parametrize("make", [private, fading])
def test_a_second_fit_says_so_and_points_to_the_caller(make: Any) -> None:
    X, y = records()
    clf = make().fit(X, y)
    with pytest.warns(SpentAgainWarning, match="fit was called again .* Use partial_fit") as seen:
        clf.fit(*records(seed=1))
    assert len(seen) == 1
    assert seen[0].filename == __file__
    assert "\n" not in str(seen[0].message)


def test_every_warning_points_to_the_caller() -> None:
    X, y = records()
    private().fit(X, y)
    standardised = (X - X.mean(0)) / X.std(0)
    for again in (
        lambda: private().fit(X, y),
        lambda: fading().partial_fit(X, y),
        lambda: private().fit(standardised, y),
        lambda: fading().partial_fit(standardised, y),
    ):
        with pytest.warns((SpentAgainWarning, UnprotectedInputWarning)) as seen:
            again()
        assert {each.filename for each in seen} == {__file__}
    with pytest.warns(SpentAgainWarning):
        exec("fit(X, y)", {"fit": private().fit, "X": X, "y": y})  # a module without a name


def test_a_grid_search_says_so() -> None:
    X, y = records()
    with pytest.warns(SpentAgainWarning, match="GridSearchCV and cross_val_score do so"):
        GridSearchCV(private(), {"norm": [10.0, 20.0]}, cv=3).fit(X, y)


def test_a_cross_validation_says_so() -> None:
    with pytest.warns(SpentAgainWarning, match="learnt from"):
        cross_val_score(private(), *records(), cv=3)


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, sparse.csr_array, np.float32, list])
def test_another_model_of_the_same_records_says_so(kind: Any) -> None:
    """Also one of another kind, of other settings, of part of the records, or of a batch."""
    X, y = records()
    given_X: Any = kind(X) if kind is not list else [list(row) for row in X]
    private().fit(given_X, y)
    half = given_X[100:] if kind is not pd.DataFrame else given_X.iloc[100:]
    with pytest.warns(SpentAgainWarning, match="FadingClassifier was given records"):
        fading(regularization=0.5).partial_fit(half, y[100:])


def test_texts_are_known_again() -> None:
    X = pd.DataFrame({"a": [f"name {i}" for i in range(200)], "b": [np.nan, 1.0] * 100})
    assert spending.row_hashes(X).size == 200
    assert np.array_equal(spending.row_hashes(X), spending.row_hashes(X.sample(frac=1.0)))


def test_a_copied_stream_that_goes_on_says_so() -> None:
    X, y = records(600)
    one = fading().partial_fit(X[:300], y[:300])
    other = pickle.loads(pickle.dumps(one))
    one.partial_fit(X[300:], y[300:])
    with pytest.warns(SpentAgainWarning):
        other.partial_fit(X[300:], y[300:])


def test_it_is_said_once_for_each_stream() -> None:
    X, y = records()
    private().fit(X, y)
    clf = fading()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for start in range(0, 300, 50):
            clf.partial_fit(X[start : start + 50], y[start : start + 50])
    assert [each.category for each in seen] == [SpentAgainWarning]


def test_if_warnings_are_errors_nothing_is_spent() -> None:
    X, y = records()
    clf = private().fit(X, y)
    before = clf.releases_
    with warnings.catch_warnings():
        warnings.simplefilter("error", SpentAgainWarning)
        with pytest.raises(SpentAgainWarning):
            clf.fit(X, y)
        assert clf.releases_ is before
        with pytest.raises(SpentAgainWarning):
            clone(clf).fit(X, y)
        warnings.simplefilter("ignore", SpentAgainWarning)
        assert clf.fit(X, y).releases_ is not before


@pytest.mark.usefixtures("silent")
def test_rows_that_occur_often_identify_nobody() -> None:
    """Two hospitals have the same eight kinds of rows, not the same records."""
    for seed in (0, 1):
        X = np.random.default_rng(seed).integers(2, size=(300, 3)).astype(float)
        private().fit(X, X[:, 0].astype(int))


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(60, 3000), st.integers(0, 100), st.integers(1, 40))
def test_overlap_is_found_and_never_made_up(seed: int, n: int, percent: int, d: int) -> None:
    """Of any share of at least one in five records; never of other records."""
    rng = np.random.default_rng(seed)
    ours, theirs = rng.normal(size=(n, d)), rng.normal(size=(n, d))
    shared = n * percent // 100
    theirs[:shared] = ours[rng.permutation(n)[:shared]]
    sketch = spending.Sketch()
    for part in np.array_split(ours, 3):
        sketch.add(spending.row_hashes(part))
    found = spending.overlap(spending.row_hashes(theirs[rng.permutation(n)]), sketch)
    if percent == 0:
        assert not found
    if percent >= 40:
        assert found


def test_the_sketch_stays_in_the_process() -> None:
    X, y = records()
    clf = private().fit(X, y)
    hashes = {int(each) for each in spending.row_hashes(X)}
    stored = pickle.dumps(clf)
    assert not any(each.to_bytes(8, "little") in stored for each in hashes)
    assert all(len(each.hashes) <= spending.SKETCH for each in spending._streams)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_a_scaler_that_learns_says_so(kind: Any) -> None:
    X, y = records()
    with pytest.warns(UnprotectedInputWarning, match="as StandardScaler does: .* Leave the scaler"):
        make_pipeline(StandardScaler(), private()).fit(X.astype(kind), y)
    frame = Pipeline([("scale", StandardScaler()), ("model", private())]).set_output(
        transform="pandas"
    )
    with pytest.warns(UnprotectedInputWarning):
        frame.fit(pd.DataFrame(records(seed=5)[0], columns=["a", "b", "c"]), y)


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(4, 2000), st.integers(1, 5), st.booleans())
def test_only_exact_standardisation_counts(seed: int, n: int, d: int, single: bool) -> None:
    rng = np.random.default_rng(seed)
    X: Any = rng.normal(size=(n, d)).astype("f4" if single else "f8")
    assert not spending.standardised(X * 1.01 + 0.01)
    X[:, 0] = rng.pareto(1.5, n)
    assert spending.standardised(StandardScaler().fit_transform(X))
    for other in (X.astype(int), X.tolist()[0], "text", None, np.zeros((5, 2)), X[:3]):
        assert not spending.standardised(other)


def test_check_pipeline_names_the_step_that_learns() -> None:
    table = make_column_transformer((MinMaxScaler(), [0]), remainder="passthrough")
    for step in (StandardScaler(), MinMaxScaler(), PCA(2), table):
        pipeline = Pipeline([("safe", Normalizer()), ("mine", step), ("model", private())])
        with pytest.raises(InvalidValueError, match=r"step mine learns from records: [^\n]*$"):
            tidegate.check_pipeline(pipeline)
    tidegate.check_pipeline(make_pipeline(Normalizer(), "passthrough", private()))
    with pytest.raises(InvalidValueError, match="pipeline must be a Pipeline"):
        tidegate.check_pipeline(private())
