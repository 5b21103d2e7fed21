"""Transformers of scikit-learn as feature maps: each record by itself, and nothing learnt."""

import pickle
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas
import pyarrow
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from tidegate.checks import InvalidValueError
from tidegate.data.feature_map import built_map, described_map
from tidegate.data.maps.composed import ComposedMap, record_map
from tidegate.data.maps.one_record import OneByOne
from tidegate.features import AppendIntercept, HashedText, NormClip, RandomFourier

CARRIERS = ["AA", "UA", "B6"]


def one_hot() -> OneHotEncoder:
    return OneHotEncoder(categories=[CARRIERS], handle_unknown="ignore")


def hours(frame: Any) -> Any:
    return np.column_stack([frame["when"].dt.hour, frame["when"].dt.month])


def union() -> FeatureUnion:
    """Something of every kind, of two columns of numbers."""
    filled = SimpleImputer(strategy="constant", fill_value=0.0)
    return FeatureUnion(
        [
            ("log", FunctionTransformer(np.log1p)),
            ("powers", make_pipeline(filled, PolynomialFeatures(2))),
            ("long", Binarizer(threshold=500.0)),
            ("unit", Normalizer()),
            ("gap", MissingIndicator(features="all")),
            ("kernel", RandomFourier(n_components=3)),
            ("nothing", "drop"),
            ("numbers", "passthrough"),
        ],
        transformer_weights={"long": 0.5},
    )


def words() -> FeatureUnion:
    return make_union(HashedText(n_features=8), HashingVectorizer(n_features=8))


MAPS: dict[str, tuple[Any, Any]] = {
    "numbers": (union(), ["distance", "seats"]),
    "words": (words(), "title"),
    "times": (FunctionTransformer(hours), ["when"]),
}
"""Maps of some columns of `flights`."""

every = pytest.mark.parametrize("name", MAPS)


def flights(count: int = 12) -> Any:
    rng = np.random.default_rng(5)
    start = pandas.Timestamp("2024-01-01")
    return pandas.DataFrame(
        {
            "distance": rng.uniform(1, 3000, count),
            "carrier": rng.choice([*CARRIERS, "XX"], count),
            "seats": rng.integers(1, 300, count),
            "rank": rng.choice(["low", "high", "other"], count),
            "title": rng.choice(["the tide is out", "the gate", ""], count),
            "when": start + pandas.to_timedelta(rng.integers(0, 10**7, count), unit="s"),
        }
    )


def dense(rows: Any) -> NDArray[Any]:
    return np.asarray(rows.toarray() if issparse(rows) else rows)


def same(left: Any, right: Any) -> bool:
    return np.array_equal(dense(left), dense(right), equal_nan=True)


def mapped(features: Any, X: Any) -> NDArray[Any]:
    made = record_map(features)
    assert made is not None
    return dense(made.transform(X))


@every
def test_it_gives_what_scikit_learn_gives(name: str) -> None:
    features, columns = MAPS[name]
    frame = flights()[columns]
    expected = dense(sklearn.base.clone(features).fit_transform(frame))
    # Normalizer sums a single row in another order than a batch, so the last bit may differ.
    np.testing.assert_allclose(mapped(features, frame), expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("features", "X"),
    [
        (make_union(PolynomialFeatures(2), Binarizer()), np.arange(6.0).reshape(3, 2) - 2),
        (FeatureUnion([("a", "passthrough"), ("b", "drop")]), np.ones((3, 2))),
        (make_pipeline(PolynomialFeatures(3), NormClip(2.0)), csr_array(np.eye(4) - 0.5)),
        (make_pipeline(HashingVectorizer(n_features=16)), ["the tide", "the gate"]),
        (make_pipeline(FeatureHasher(n_features=16)), [{"a": 1.0}, {"b": 2.0, "c": -1.0}]),
        (FunctionTransformer(), np.ones((2, 2))),
        (FunctionTransformer(np.clip, kw_args={"a_min": 0, "a_max": 2}), np.ones((2, 2))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_composites_without_names(features: Any, X: Any) -> None:
    expected = dense(sklearn.base.clone(features).fit_transform(X))
    assert same(mapped(features, X), expected)


anything = (
    st.none() | st.text(max_size=3) | st.floats() | st.integers(-5, 5) | st.booleans()
    | st.sampled_from([*CARRIERS, "low", "high", [1], {}, b"x", 10**400, pandas.NaT, pandas.NA])
)  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> Any:
    count = draw(st.integers(1, 5))
    frame = flights(count)
    for name in frame.columns:
        if draw(st.booleans()):
            usual = [*frame[name], None]
            column = draw(
                st.lists(st.sampled_from(usual) | anything, min_size=count, max_size=count)
            )
            frame[name] = pandas.Series(column, dtype=draw(st.sampled_from([None, object])))
    return frame


def fitted(name: str) -> Any:
    features, columns = MAPS[name]
    made = record_map(features)
    assert made is not None
    made.transform(flights()[columns])
    return made


@pytest.mark.thorough
@every
@settings(max_examples=30)
@given(frame=tables(), data=st.data())
def test_a_record_is_mapped_alike_in_every_batch(name: str, frame: Any, data: Any) -> None:
    """Whatever the others hold: they change dtypes, and what a transformer would refuse."""
    made, frame = fitted(name), frame[MAPS[name][1]]
    whole = dense(made.transform(frame))
    chosen = data.draw(st.lists(st.integers(0, len(frame) - 1), min_size=1, max_size=6))
    assert same(whole[chosen], made.transform(frame.iloc[chosen]))
    for i in set(chosen):
        alone = (
            pandas.DataFrame({each: [frame[each].iloc[i]] for each in frame.columns})
            if frame.ndim == 2
            else pandas.Series([frame.iloc[i]], name=frame.name)
        )
        assert same(whole[[i]], made.transform(alone))


@pytest.mark.parametrize(
    "features",
    [union(), make_pipeline(Normalizer(), PolynomialFeatures(2)), FunctionTransformer(np.log1p)],
    ids=["all", "Pipeline", "log1p"],
)
def test_a_record_is_mapped_alike_in_large_batches(features: Any) -> None:
    frame = flights(50)[["distance", "seats"]]
    made = record_map(features)
    assert made is not None
    whole = dense(made.transform(frame))
    for part in (slice(0, 1), slice(3, 20), slice(None, None, -1)):
        assert same(whole[part], made.transform(frame.iloc[part]))


def test_a_record_near_overflow_touches_no_other_and_warns_nobody() -> None:
    X = np.array([[1e200, 1.0], [2.0, 3.0]])
    for features in (PolynomialFeatures(2), FunctionTransformer(np.exp), Normalizer()):
        assert same(mapped(features, X)[1:], mapped(features, X[1:]))


@pytest.mark.parametrize(
    ("name", "column"),
    [("numbers", "distance"), ("numbers", "seats"), ("words", "title")],
)
def test_a_column_of_times_loses_its_own_records_only(name: str, column: str) -> None:
    """By itself, a record with a time has a column of times: no reason to refuse a batch."""
    mixed = flights()
    mixed[column] = mixed[column].astype(object)
    mixed.loc[3, column] = pandas.Timestamp("2024-02-29")
    alone = mixed.iloc[[3]].infer_objects()
    assert alone[column].dtype.kind == "M"
    made, columns = fitted(name), MAPS[name][1]
    assert same(made.transform(mixed[columns])[[3]], made.transform(alone[columns]))


def test_a_function_cannot_see_other_records() -> None:
    """The planted mistake: a function that centres a batch. Each record is its own mean."""
    centring = FunctionTransformer(lambda X: X - X.mean(axis=0))
    X = np.arange(6.0).reshape(3, 2)
    assert not mapped(centring, X).any()
    with patch.object(OneByOne, "rows", lambda self, X: self.part.transform(X)):
        assert mapped(centring, X).any()


class Spy(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer of the user's own that says what it was shown."""

    def __init__(self, seen: list[int]) -> None:
        self.seen = seen

    def fit(self, X: Any, y: Any = None) -> "Spy":  # noqa: ARG002
        raise AssertionError("fitted")

    def transform(self, X: Any) -> Any:
        self.seen.append(len(X))
        return np.asarray(X, float)


def test_an_own_transformer_in_a_composite_sees_one_record_at_a_time() -> None:
    made = record_map(make_union(Spy([]), PolynomialFeatures(1)))
    assert isinstance(made, ComposedMap)
    assert made.transform(np.ones((5, 2))).shape == (5, 5)
    spy = made._one_by_one.part.transformer_list[0][1].part
    assert set(spy.seen) == {1}


def test_an_own_transformer_alone_is_taken_as_it_is() -> None:
    spy = Spy([])
    assert record_map(spy) is spy
    own = make_pipeline(AppendIntercept(), NormClip())
    assert record_map(own) is own
    assert record_map(None) is None


def test_nothing_is_fitted_on_a_record() -> None:
    """What is fitted is the same after any batch of these columns."""
    one = flights(3)[["distance", "seats"]]
    other = one * 7
    left, right = record_map(union()), record_map(union())
    assert left is not None
    assert right is not None
    left.transform(one)
    right.transform(other)
    assert same(left.transform(one), right.transform(one))


LEARN: dict[str, tuple[Any, str]] = {
    "scaler": (StandardScaler(), "survey"),
    "fitted scaler": (MinMaxScaler().fit(np.eye(2)), "FrozenEstimator"),
    "categories": (OneHotEncoder(handle_unknown="ignore"), "categories="),
    "unknown raises": (OneHotEncoder(categories=[["a"]]), "handle_unknown"),
    "unknown warns": (OneHotEncoder(categories=[["a"]], handle_unknown="warn"), "handle_unknown"),
    "infrequent": (
        OneHotEncoder(categories=[["a"]], handle_unknown="ignore", min_frequency=2),
        "min_frequency",
    ),
    "ordinal": (OrdinalEncoder(), "categories="),
    "ordinal unknown": (OrdinalEncoder(categories=[["a"]]), "handle_unknown"),
    "mean": (SimpleImputer(), "constant"),
    "no value": (SimpleImputer(strategy="constant"), "fill_value"),
    "indicator": (
        SimpleImputer(strategy="constant", fill_value=0, add_indicator=True),
        "add_indicator",
    ),
    "missing": (MissingIndicator(), 'features="all"'),
    "neighbours": (KNNImputer(), "tidegate.features"),
    "bins": (KBinsDiscretizer(), "public edges"),
    "components": (PCA(), "RandomProjection"),
    "words": (TfidfVectorizer(), "HashedText"),
    "files": (HashingVectorizer(input="filename"), "content"),
    "in a pipeline": (make_pipeline(AppendIntercept(), StandardScaler()), "StandardScaler"),
    "in a union": (make_union(AppendIntercept(), StandardScaler()), "StandardScaler"),
    "in a table": (ColumnTransformer([("a", StandardScaler(), ["a"])]), "StandardScaler"),
    "in a remainder": (
        ColumnTransformer([("a", "drop", ["a"])], remainder=StandardScaler()),
        "StandardScaler",
    ),
    "deep": (
        ColumnTransformer([("a", make_pipeline(make_union(PCA()), NormClip()), ["a"])]),
        "PCA",
    ),
    "selector": (
        ColumnTransformer([("a", NormClip(), make_column_selector(dtype_include=float))]),
        "must name the columns of 'a'",
    ),
}


@pytest.mark.parametrize("name", LEARN)
def test_what_learns_is_refused_in_one_line(name: str) -> None:
    features, advice = LEARN[name]
    with pytest.raises(InvalidValueError, match=r"^features must [^\n]*$") as refusal:
        record_map(features)
    assert advice in str(refusal.value)


def test_one_that_derives_from_a_learner_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="got MyScaler"):
        record_map(type("MyScaler", (StandardScaler,), {})())


def test_one_that_derives_from_a_stateless_one_sees_one_record_at_a_time() -> None:
    class Greedy(PolynomialFeatures):  # type: ignore[misc]
        def transform(self, X: Any) -> Any:
            return X - X.mean(axis=0)

    assert not mapped(Greedy(), np.arange(6.0).reshape(3, 2)).any()


def test_a_frozen_transformer_was_fitted_on_public_records() -> None:
    scaler = StandardScaler().fit(np.arange(6.0).reshape(3, 2))
    X = np.arange(8.0).reshape(4, 2)
    assert same(mapped(FrozenEstimator(scaler), X), scaler.transform(X))
    assert same(
        mapped(make_pipeline(FrozenEstimator(scaler), AppendIntercept()), X)[:, :2],
        scaler.transform(X),
    )


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (HashingVectorizer(), "failed on a made-up record"),
        (FunctionTransformer(lambda X: X["speed"]), "failed on a made-up record"),
        (FrozenEstimator(StandardScaler()), "not fitted|failed on a made-up record"),
        (make_pipeline(Spy([]), FunctionTransformer(lambda _: 3)), "made-up record"),
    ],
    ids=["too many", "function", "not fitted", "no rows"],
)
def test_columns_that_cannot_be_mapped_are_refused_in_one_line(features: Any, message: str) -> None:
    frame = flights()[["distance", "seats"]]
    with pytest.raises(InvalidValueError, match=r"^features[^\n]*$") as refusal:
        mapped(features, frame)
    assert any(each in str(refusal.value) for each in message.split("|"))


def test_columns_of_a_table_are_described_by_columns() -> None:
    table = ColumnTransformer([("a", NormClip(), ["carrier"])])
    ranks = OrdinalEncoder(
        categories=[["low", "high"]], handle_unknown="use_encoded_value", unknown_value=-1
    )
    for part in (table, one_hot(), ranks):
        name = type(part).__name__
        for features in (part, make_pipeline(part, NormClip()), make_union(part)):
            with pytest.raises(
                InvalidValueError, match=rf"^features must [^\n]* got {name}: [^\n]*Columns"
            ):
                record_map(features)


def test_other_forms_of_a_batch() -> None:
    expected = [[0, 1], [np.nan, np.nan]]
    assert same(mapped(Binarizer(), [[-2.5, 3], ["x", 1]]), expected)
    assert same(mapped(Binarizer(), pyarrow.table({"a": [-2.5, None], "b": [3.0, 1.0]})), expected)
    with pytest.raises(InvalidValueError, match="two-dimensional"):
        mapped(Binarizer(), [[2.5, 1], [3]])


def test_wide_rows_stay_sparse() -> None:
    rows = ComposedMap(HashingVectorizer(n_features=1000)).transform(["the tide", "the gate"])
    assert issparse(rows)
    assert np.count_nonzero(dense(rows), axis=1).tolist() == [2, 2]
    assert not issparse(ComposedMap(HashingVectorizer(n_features=256)).transform(["the tide"]))


def test_an_output_that_is_set_makes_no_difference() -> None:
    frame, features = flights()[["distance", "seats"]], make_union(NormClip(), Binarizer())
    expected = mapped(features, frame)
    with sklearn.config_context(transform_output="pandas"):
        assert same(mapped(features, frame), expected)
        mapped(union(), frame)
    assert same(mapped(features.set_output(transform="pandas"), frame), expected)


@pytest.mark.parametrize(
    ("name", "column"),
    [("numbers", "distance"), ("numbers", "seats"), ("words", "title"), ("times", "when")],
)
def test_one_record_of_another_kind_in_the_first_batch_touches_no_other(
    name: str, column: str
) -> None:
    """It changes the dtype of its column, and so what made-up record is tried first."""
    features, columns = MAPS[name]
    clean, mixed = flights(), flights()
    mixed[column] = mixed[column].astype(object)
    mixed.loc[3, column] = 7 if name == "words" else "secret"
    rest = [i for i in range(len(clean)) if i != 3]
    assert same(mapped(features, clean[columns])[rest], mapped(features, mixed[columns])[rest])


def test_texts_between_the_parts_of_a_pipeline_stay() -> None:
    upper = FunctionTransformer(lambda texts: [each.upper() for each in texts])
    hashed = HashingVectorizer(n_features=64, lowercase=False)
    made = mapped(make_pipeline(upper, hashed), np.array(["the tide", 3], object))
    assert same(made[:1], mapped(hashed, ["THE TIDE"]))
    assert np.isnan(made[1]).any()


def test_a_card_describes_it_and_refuses_to_build_it() -> None:
    features = make_union(Normalizer("l1"), Binarizer())
    steps = described_map(make_pipeline(features, NormClip(2.0)))
    assert [step["kind"] for step in steps] == ["FeatureUnion", "NormClip"]
    unit = {"kind": "Normalizer", "norm": "l1"}
    assert ["normalizer", [unit]] in steps[0]["transformer_list"]
    assert described_map(record_map(features)) == steps[:1]
    with pytest.raises(InvalidValueError, match="FeatureUnion cannot be built"):
        built_map(steps)


@pytest.mark.filterwarnings("ignore:Trying to unpickle")  # of another version of scikit-learn
def test_a_map_that_an_earlier_version_pickled_still_maps() -> None:
    """Its parts named classes that are gone; a `ColumnTransformer` was allowed."""
    made = pickle.loads((Path(__file__).parent / "composed.pickle").read_bytes())
    rows = pandas.DataFrame({"a": [3.0, 4.0, -1.0], "b": [4.0, 3.0, 0.0], "c": ["UA", "XX", "AA"]})
    expected = [[0.6, 0.8, 3**0.5, 0, 1], [0.8, 0.6, 2, 0, 0], [-1, 0, np.nan, 1, 0]]
    np.testing.assert_allclose(dense(made.transform(rows)), expected)
