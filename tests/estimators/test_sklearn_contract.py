"""scikit-learn's own checks of an estimator, on every face; copies and saved states."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from tests.estimators.estimators import (
    CLASSIFIERS,
    NUMBER_STREAMS,
    REGRESSORS,
    STREAMS,
    SURVEYED,
    StreamEstimator,
    all_faces,
    batch_for,
    classifier,
    private_histogram,
    private_mean,
    regressor,
    same,
    surveyed,
    weights,
)
from tidegate import (
    FadingRegressor,
    GrowingRegressor,
    PrivateClassifier,
    PrivateRegressor,
    SlidingWindowClassifier,
    SlidingWindowRegressor,
    TwoStreamClassifier,
    TwoStreamRegressor,
)
from tidegate.checks import InvalidValueError
from tidegate.features import AppendIntercept, HashedText, NormClip, RandomFourier

SLOT_RULE = {
    "check_complex_data": "one complex entry makes an array complex: its record is unusable, and "
    "no other",
    "check_estimators_nan_inf": "a record that is not finite keeps its slot without weight: "
    "raising would tell about it",
    "check_dtype_object": "an entry that is no number makes its record unusable; numbers in an "
    "array of objects are read, as test_bad_input shows",
}
LABELS_OFF_THE_DATA = {
    "check_classifiers_train": "fits 2 and 3 classes with one setting: the classes would have to "
    "be read off the records",
    "check_classifiers_classes": "wants the classes to be those that occur among the records",
    "check_classifiers_regression_target": "wants labels that are no classes to raise: such a "
    "record keeps its slot",
    "check_supervised_y_no_nan": "as above, for a label that is not finite",
}
TOO_NOISY = {
    "check_classifiers_one_label": "wants ten records to be learnt; at epsilon 1 noise decides",
}
BY_NUMBER_OF_CLASSES = {
    2: {
        "check_estimator_sparse_array": "counts 4 classes among the records",
        "check_estimator_sparse_matrix": "counts 4 classes among the records",
    },
    4: {"check_decision_proba_consistency": "wants 2 columns of probabilities from 2 labels"},
}


TARGETS = {"check_supervised_y_no_nan": "a target that is not finite keeps its slot, as above"}
TOO_NOISY_FOR_TARGETS = {
    "check_regressors_train": "wants R^2 above 0.5 from 200 records: a window has 8, and at "
    "epsilon 1 noise decides",
}
EXACT_DEFAULTS = {
    "check_parameters_default_constructible": "a Fraction is exact, and no type of NumPy",
}


def excluded(face: BaseEstimator) -> dict[str, str]:
    if hasattr(face, "target"):
        few = face.budget == SURVEYED or isinstance(face, SlidingWindowRegressor)
        exact = isinstance(face, FadingRegressor | GrowingRegressor)
        noisy = TOO_NOISY_FOR_TARGETS if few else {}
        return SLOT_RULE | TARGETS | noisy | (EXACT_DEFAULTS if exact else {})
    if not hasattr(face, "classes"):
        return SLOT_RULE
    unlucky = isinstance(face, TwoStreamClassifier)  # the seed is kind to the others
    noisy = TOO_NOISY if unlucky and face.budget == SURVEYED else {}
    return SLOT_RULE | LABELS_OFF_THE_DATA | BY_NUMBER_OF_CLASSES[len(face.classes)] | noisy


def checked() -> list[StreamEstimator]:
    two = [classifier(kind, classes=[0, 1]) for kind in CLASSIFIERS]
    two += [surveyed(kind, classes=[0, 1]) for kind in CLASSIFIERS]
    four = [make(PrivateClassifier, classes=range(4)) for make in (classifier, surveyed)]
    numbers = [*map(regressor, REGRESSORS), surveyed(PrivateRegressor), surveyed(FadingRegressor)]
    return [*two, *four, *numbers, private_mean()]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(checked(), expected_failed_checks=excluded)  # type: ignore[untyped-decorator]
def test_checks(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    check(estimator)


@pytest.mark.filterwarnings("ignore:Can't test estimator")
def test_checks_of_the_histogram() -> None:
    """The few checks that do not want an array of numbers."""
    check_estimator(private_histogram())


@pytest.mark.parametrize("face", all_faces(), ids=lambda face: type(face).__name__)
def test_parameters(face: StreamEstimator) -> None:
    names = set(face.get_params(deep=False))
    assert {"budget", "not_private_seed"} <= names
    twin = clone(face)
    assert twin is not face
    assert {name: repr(value) for name, value in twin.get_params(deep=False).items()} == {
        name: repr(value) for name, value in face.get_params(deep=False).items()
    }
    assert twin.set_params(not_private_seed=9) is twin
    assert (twin.not_private_seed, face.not_private_seed) == (9, 7)
    with pytest.raises(ValueError, match="Invalid parameter"):
        face.set_params(colour="red")


@pytest.mark.parametrize("face", all_faces(), ids=lambda face: type(face).__name__)
def test_a_clone_starts_anew(face: StreamEstimator) -> None:
    face.fit(*batch_for(face))
    assert not hasattr(clone(face), "releases_")
    assert same(clone(face).fit(*batch_for(face)), face)


def halves(face: StreamEstimator) -> list[tuple[Any, ...]]:
    X, y = batch_for(face, records=41)
    return [(X[:17], None if y is None else y[:17]), (X[17:], None if y is None else y[17:])]


COPIES: dict[str, Callable[[StreamEstimator], StreamEstimator]] = {
    "pickle": lambda face: pickle.loads(pickle.dumps(face)),
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("kind", COPIES)
@pytest.mark.parametrize(
    "face",
    [
        *map(classifier, STREAMS),
        *map(regressor, NUMBER_STREAMS),
        *map(surveyed, [*STREAMS, *NUMBER_STREAMS]),
        private_mean(),
        private_histogram(),
    ],
    ids=lambda face: type(face).__name__,
)
def test_a_copy_in_mid_stream_goes_on_like_the_original(face: StreamEstimator, kind: str) -> None:
    """17 records leave a step half full: what is held, the ledger and the bits go along."""
    face = clone(face)
    first, second = halves(face)
    if isinstance(face, TwoStreamClassifier | TwoStreamRegressor):
        face.partial_fit(*first, stream="source")
    twin = COPIES[kind](face.partial_fit(*first))
    before = weights(face)
    twin.partial_fit(*second)
    assert all(a is b for a, b in zip(weights(face), before, strict=True))  # nothing is shared
    assert same(face.partial_fit(*second), twin)
    assert len(weights(face)) > len(before)
    if hasattr(face, "ledger_"):
        assert list(face.ledger_.runs()) == list(twin.ledger_.runs())


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_a_saved_state_holds_no_forgotten_record(container: Callable[[Any], Any]) -> None:
    face = classifier(SlidingWindowClassifier)
    X, y = batch_for(face)
    X[0] = 1.2345678  # long out of the window
    X[-1] = 2.3456789
    saved = pickle.dumps(face.partial_fit(container(X), y))
    assert np.float64(1.2345678).tobytes() not in saved
    assert np.float64(2.3456789).tobytes() in saved


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_maps_as_features(kind: type) -> None:
    """The map may be a pipeline; predicting goes through it as well."""
    features = make_pipeline(
        RandomFourier(n_components=20, gamma=0.1, seed=3), AppendIntercept(0.5)
    )
    face = classifier(kind, features=features)
    X, y = batch_for(face, records=200)
    face.fit(X, y)
    assert face.n_features_in_ == 3
    assert face.releases_[-1].weights.shape == (41,)
    assert face.predict_proba(X[:5]).shape == (5, 2)
    by_hand = classifier(kind).fit(features.transform(X), y)
    assert all(np.array_equal(a, b) for a, b in zip(weights(face), weights(by_hand), strict=True))


def test_text_as_features() -> None:
    texts = ["the tide is in", "the gate is shut", None, "tide and tide again"] * 50
    labels = ["sea", "land", "sea", "sea"] * 50
    features = make_pipeline(HashedText(n_features=64, characters=None), AppendIntercept())
    face = classifier(SlidingWindowClassifier, classes=["land", "sea"], features=features, norm=2.0)
    face.partial_fit(texts, labels)
    assert face.quarantined_ == 50
    assert list(face.predict(["the tide is in", "the gate is shut"])) == ["sea", "land"]
    assert not hasattr(face, "n_features_in_")


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_at_the_end_of_a_pipeline(kind: type) -> None:
    X, y = batch_for(None, records=200)
    piped = make_pipeline(AppendIntercept(0.5), NormClip(norm=10.0), classifier(kind))
    assert piped.fit(X, y).score(X, y) >= 0.5
    direct = classifier(kind).fit(piped[:-1].transform(X), y)
    assert same(piped[-1], direct)


def test_in_cross_validation() -> None:
    X, y = batch_for(None, records=200)
    scores = cross_val_score(classifier(PrivateClassifier), X, y, cv=4)
    assert scores.min() > 0.8


LABELS = [[1, 0], ["b", "a"], [True, False], [1.5, -1.0], [1, "a"], [b"x", "y"], [None, 3]]


@pytest.mark.parametrize("classes", LABELS, ids=str)
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_predicts_the_labels_it_was_given(kind: type, classes: list[Any]) -> None:
    """In place of the excluded checks: labels of any type, in the order of the parameter."""
    X, codes = batch_for(None, records=200)
    face = classifier(kind, classes=classes).fit(X, [classes[code] for code in codes])
    assert face.quarantined_ == 0
    assert face.classes_.tolist() == classes
    plain = classifier(kind, classes=[0, 1]).fit(X, codes)
    assert face.predict(X).tolist() == [classes[code] for code in plain.predict(X)]


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("count", [2, 3])
def test_probabilities_follow_the_margins(kind: type, count: int) -> None:
    rng = np.random.default_rng(5)
    y = rng.integers(count, size=120)
    X = rng.normal(size=(120, 4)) + 3 * np.eye(4)[y]
    face = classifier(kind, classes=range(count)).fit(X, y)
    margins, probabilities = face.decision_function(X), face.predict_proba(X)
    assert margins.shape == ((120,) if count == 2 else (120, count))
    assert probabilities.shape == (120, count)
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert np.array_equal(face.classes_[probabilities.argmax(axis=1)], face.predict(X))
    assert face.score(X, y) == np.mean(face.predict(X) == y)


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"norm": 1e6}, "norm"),
        ({"classes": ["a", "b"]}, "classes"),
        ({"window": 40}, "window"),
        ({"features__value": 3.0}, "features__value"),
        ({"features": None}, "features__value"),
    ],
)
def test_parameters_set_later_are_refused_until_the_next_fit(
    changed: dict[str, Any], name: str
) -> None:
    """Else records would be clipped to one norm and noised for another."""
    X, y = batch_for(None)
    features = AppendIntercept(0.5)
    face = classifier(SlidingWindowClassifier, features=features)
    undisturbed = clone(face).partial_fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])
    face.partial_fit(X[:20], y[:20])
    before = face.get_params()
    face.set_params(**changed)
    with pytest.raises(InvalidValueError, match=f"^{name} has changed since the stream began: "):
        face.partial_fit(X[20:], y[20:])
    face.set_params(features=before["features"]).set_params(**before)
    assert same(face.partial_fit(X[20:], y[20:]), undisturbed)
    assert np.array_equal(face.predict(X), undisturbed.predict(X))
    face.set_params(window=40).fit(X, y)
    assert [len(weights(face)), face.releases_[0].fit.at] == [1, 40]


def test_equal_parameters_go_on_after_a_copy() -> None:
    X, y = batch_for(None)
    face = classifier(SlidingWindowClassifier, features=AppendIntercept(0.5), classes=np.arange(2))
    face.partial_fit(X[:20], y[:20])
    for copied in (face, pickle.loads(pickle.dumps(face)), copy.deepcopy(face)):
        copied.set_params(features=AppendIntercept(0.5), classes=np.arange(2))
        assert len(copied.partial_fit(X[20:], y[20:]).releases_) > 0


def test_what_is_missing_for_a_model_is_told() -> None:
    X, y = batch_for(None)
    sliding = classifier(SlidingWindowClassifier)
    for face in (sliding, classifier(PrivateClassifier)):
        with pytest.raises(NotFittedError, match="call fit with records first"):
            face.predict(X)
    sliding.partial_fit(X[:3], y[:3])
    with pytest.raises(NotFittedError, match=r": \d+ more records have to arrive before"):
        sliding.predict(X)


def test_a_score_of_records_without_labels_is_refused() -> None:
    X, y = batch_for(None)
    face = classifier(PrivateClassifier).fit(X, y)
    with pytest.raises(InvalidValueError, match="y contains NaN"):
        face.score(X, np.where(y == 0, np.nan, y))
