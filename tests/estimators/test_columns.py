"""Names of columns, tables with transformers of scikit-learn's, and whole cards."""

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import Binarizer, FunctionTransformer, OneHotEncoder, StandardScaler

from tests.estimators.estimators import (
    CLASSIFIERS,
    STREAMS,
    all_faces,
    batch_for,
    classifier,
    private_mean,
    same,
    state,
    surveyed,
    weights,
)
from tidegate import ApproxDP, PrivateClassifier, SlidingWindowClassifier
from tidegate.checks import InvalidValueError
from tidegate.features import AppendIntercept, Category, Columns, HashedText, NormClip, Number
from tidegate.release import seal, to_markdown

X, Y = batch_for(None, records=60)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])


class Unreadable:
    """A batch that fails the test if anything of it is read."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"{name} was read")


def numbers(frame: Any, carriers: list[str]) -> Any:
    sizes = np.clip(frame[["a", "b"]].astype(float), -1, 1)
    return np.column_stack([sizes, *(frame["carrier"] == each for each in carriers)])


def table() -> FunctionTransformer:
    return FunctionTransformer(numbers, kw_args={"carriers": ["AA", "UA"]})


def flights() -> Any:
    return FRAME.assign(carrier=np.where(Y == 1, "AA", "UA"))


@pytest.mark.parametrize("features", [None, AppendIntercept(), make_pipeline(NormClip(9.0))])
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_names_of_columns(kind: type, features: Any) -> None:
    face = classifier(kind, features=features).fit(FRAME, Y)
    assert face.n_features_in_ == 3
    assert list(face.feature_names_in_) == ["a", "b", "c"]
    assert face.releases_[-1].card["columns"] == ["a", "b", "c"]
    before = state(face)
    refused = {"same order": ["b", "a", "c"], "now missing": ["a", "b"]}
    for words, columns in refused.items():
        for method in (face.predict, face.predict_proba, face.decision_function):
            with pytest.raises(ValueError, match=f"(?s)The feature names should match.*{words}"):
                method(FRAME[columns])
        if kind in STREAMS:
            with pytest.raises(ValueError, match=f"(?s)The feature names should match.*{words}"):
                face.partial_fit(FRAME[columns], Y)
    assert repr(state(face)) == repr(before)


def test_names_of_other_tables() -> None:
    arrow = pyarrow.table({name: FRAME[name] for name in FRAME.columns})
    for face in (classifier(SlidingWindowClassifier), private_mean()):
        face.fit(arrow, Y)
        assert face.n_features_in_ == 3
        assert list(face.feature_names_in_) == ["a", "b", "c"]


def test_names_are_those_of_the_last_fit() -> None:
    face = classifier(SlidingWindowClassifier).fit(FRAME, Y)
    for batch in (X, X.tolist()):
        face.fit(FRAME, Y).fit(batch, Y)
        assert not hasattr(face, "feature_names_in_")
        assert face.n_features_in_ == 3
    face.set_params(features=HashedText(n_features=8)).fit(["tide"] * 60, Y)
    assert not hasattr(face, "n_features_in_")


@pytest.mark.parametrize("make", [classifier, surveyed])
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_table_needs_no_pipeline_by_hand(kind: type, make: Any) -> None:
    face = make(kind, features=table()).fit(flights(), Y)
    by_hand = make(kind).fit(table().fit_transform(flights()), Y)
    assert all(np.array_equal(a, b) for a, b in zip(weights(face), weights(by_hand), strict=True))
    assert face.n_features_in_ == 4
    assert list(face.feature_names_in_) == ["a", "b", "c", "carrier"]
    assert list(face.predict(flights())) == list(by_hand.predict(table().fit_transform(flights())))


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_columns_with_kinds(kind: type) -> None:
    columns = Columns([Number("a", low=-3, high=3), Category("carrier", values=["AA", "UA"])])
    face = classifier(kind, features=columns).fit(flights(), Y)
    assert list(face.feature_names_in_) == ["a", "carrier"]
    assert face.n_features_in_ == 2
    by_hand = classifier(kind).fit(columns.transform(flights()), Y)
    assert all(np.array_equal(a, b) for a, b in zip(weights(face), weights(by_hand), strict=True))
    card = face.releases_[-1].card
    assert [step["kind"] for step in card["features"]] == ["Columns"]
    model = seal(card, weights(face)[-1]).model()
    assert list(model.predict(flights())) == list(face.predict(flights()))
    for user in (model, face):
        assert list(user.predict(flights()[["carrier", "a"]])) == list(face.predict(flights()))
        with pytest.raises(InvalidValueError, match="carrier"):
            user.predict(flights()[["a"]])
    inside = make_pipeline(columns, FunctionTransformer(), NormClip(9.0))
    again = classifier(kind, features=inside).fit(flights(), Y)
    assert list(again.predict(flights())) == list(face.predict(flights()))


@pytest.mark.parametrize("kind", STREAMS)
def test_the_split_into_batches_makes_no_difference(kind: type) -> None:
    """Also if one batch has a gap or a text, which changes the dtype of its column."""
    frame = flights()
    frame["a"] = frame["a"].astype(object)
    frame.loc[50, "a"], frame.loc[51, "carrier"] = "secret", None
    whole = classifier(kind, features=table()).fit(frame[:20], Y[:20])
    parts = classifier(kind, features=table()).fit(frame[:20].astype({"a": float}), Y[:20])
    whole.partial_fit(frame[20:], Y[20:])
    for start in range(20, 60, 7):
        part = frame[start : min(start + 7, 60)].infer_objects()
        parts.partial_fit(part, Y[start : start + 7])
    assert whole.quarantined_ == 1
    assert same(whole, parts)


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("make", [StandardScaler, OneHotEncoder])
def test_what_learns_is_refused_before_a_record_is_read(kind: type, make: Any) -> None:
    for features in (
        make(),
        make_pipeline(AppendIntercept(), make()),
        ColumnTransformer([("a", make(), ["a"])]),
    ):
        face = classifier(kind, features=features)
        labels = Y if kind is PrivateClassifier else Unreadable()  # which counts them first
        if kind.__name__ == "TwoStreamClassifier":
            with pytest.raises(InvalidValueError, match="learn nothing"):
                face.partial_fit(Unreadable(), labels)
            continue
        with pytest.raises(InvalidValueError, match=r"^features must [^\n]* learn nothing [^\n]*$"):
            face.fit(Unreadable(), labels)
        assert not hasattr(face, "releases_")


def test_copies_and_parameters() -> None:
    face = classifier(SlidingWindowClassifier, features=table()).fit(flights()[:30], Y[:30])
    for other in (pickle.loads(pickle.dumps(face)), copy.deepcopy(face)):
        other.set_params(features=table()).partial_fit(flights()[30:], Y[30:])
        assert len(other.releases_) > len(face.releases_)
    face.set_params(features__kw_args={"carriers": ["AA", "B6"]})
    with pytest.raises(InvalidValueError, match="has changed since the stream began"):
        face.partial_fit(flights()[30:], Y[30:])


@pytest.mark.parametrize(
    "features",
    [
        AppendIntercept(),
        AppendIntercept().set_output(transform="pandas"),
        make_pipeline(NormClip(), AppendIntercept()).set_output(transform="pandas"),
        make_union(NormClip(), Binarizer()).set_output(transform="pandas"),
    ],
    ids=["map", "map with output", "pipeline", "union"],
)
def test_frames_as_output_make_no_difference(features: Any) -> None:
    before = features.get_params()
    plain = classifier(SlidingWindowClassifier, features=features).fit(FRAME, Y)
    with sklearn.config_context(transform_output="pandas"):
        framed = classifier(SlidingWindowClassifier, features=features).fit(FRAME, Y)
        assert list(framed.predict(FRAME)) == list(plain.predict(FRAME))
    assert same(plain, framed)
    assert str(features.get_params()) == str(before)


@pytest.mark.parametrize("face", all_faces(), ids=lambda face: type(face).__name__)
def test_cards_are_whole(face: Any) -> None:
    face.fit(*batch_for(face))
    for release in face.releases_:
        card = release.card
        assert card.items() >= release.entries().items()
        assert {"schedule", "learner", "features", "versions", "time"} <= card.keys()
        assert card == release.card
        assert card == pickle.loads(pickle.dumps(release)).card
    if "target" in card:
        assert "classes" not in card
        assert seal(card, release.weights).model().predict(X).tolist() == face.predict(X).tolist()
        return
    classes = {"PrivateMean": None, "PrivateHistogram": ["mild", "severe"]}
    assert card["classes"] == classes.get(type(face).__name__, [0, 1])
    if card["classes"] == [0, 1]:
        assert to_markdown(card).startswith("# Release")
        model = seal(card, release.weights).model()
        assert list(model.predict(X)) == list(face.predict(X))


def test_a_card_describes_a_map_of_scikit_learn() -> None:
    face = classifier(SlidingWindowClassifier, features=table()).fit(flights(), Y)
    card = face.releases_[-1].card
    assert [step["kind"] for step in card["features"]] == ["FunctionTransformer"]
    with pytest.raises(
        InvalidValueError, match="FunctionTransformer cannot be built from the card"
    ):
        seal(card, weights(face)[-1]).model()
    model = seal(card, weights(face)[-1]).model(features=table())
    assert list(model.predict(flights())) == list(face.predict(flights()))


def test_the_norm_follows_from_columns_with_kinds() -> None:
    columns = Columns([Number("age", low=0, high=80), Category("ward", values=["A", "B"])])
    face = SlidingWindowClassifier(
        budget=ApproxDP(1.0, 1e-6), window=200, step=100, classes=[0, 1], features=columns
    )
    ages = np.arange(300) % 90.0
    frame = pd.DataFrame({"ward": ["A", None, "C"] * 100, "age": ages, "other": 0})
    frame.loc[::7, "age"] = np.nan
    face.fit(frame, (ages > 40).astype(int))
    assert face.quarantined_ == 0
    assert face.releases_[-1].card["norm"] == columns.norm
    assert face.predict_proba(frame[:5]).shape == (5, 2)
    with pytest.raises(InvalidValueError, match="norm must be a number, unless features is Col"):
        face.set_params(features=None).fit(frame[["age"]], ages > 40)
