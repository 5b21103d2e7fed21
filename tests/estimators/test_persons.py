"""Estimators that protect persons: their ids in, refusals, routing, interruptions."""

import pickle
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from tidegate import ApproxDP, PureDP
from tidegate.checks import FewAdmittedWarning, InvalidValueError, StoppedError
from tidegate.estimators import (
    ContinualClassifier,
    FadingClassifier,
    GrowingClassifier,
    PrivateClassifier,
    PrivateHistogram,
    PrivateMean,
    SlidingWindowClassifier,
    TwoStreamClassifier,
)
from tidegate.learn.learner import Trainer
from tidegate.privacy import Ledger
from tidegate.run.held import AdmittedSteps
from tidegate.run.memory_run import MemoryRun
from tidegate.schedule import Cumulative, Fading, Independent, SlidingWindow, Span

N = 1200
COMMON: dict[str, Any] = {"classes": [0, 1], "norm": 3.0, "not_private_seed": 7}
GAUSSIAN, PURE = ApproxDP(4.0, 1e-3), PureDP(4.0)


def data(n: int = N) -> tuple[Any, Any, list[str]]:
    """Records that are easily told apart; a person has one in each of three places."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 2)), rng.integers(2, size=n)
    X[:, 0] += 3 * y - 1.5
    return X, y, [f"person {number % (n // 3)}" for number in range(n)]


def made(**more: Any) -> dict[str, Any]:
    given = {"contributions": 3, "typical": 2, **more}
    gaussian = {"budget": GAUSSIAN, **COMMON, **given}
    return {
        "continual": ContinualClassifier(block=400, step=200, **gaussian),
        "fading": FadingClassifier(step=200, **gaussian),
        "growing": GrowingClassifier(block=400, step=200, **gaussian),
        "private": PrivateClassifier(**gaussian),
        "private, pure": PrivateClassifier(**{**gaussian, "budget": PURE}),
        "sliding": SlidingWindowClassifier(window=600, step=200, **gaussian),
        "two streams": TwoStreamClassifier(source=Cumulative(block=400), step=200, **gaussian),
        "mean": PrivateMean(
            budget=PURE, schedule=SlidingWindow(window=600, step=200), norm=3.0,
            not_private_seed=7, **given,
        ),
        "histogram": PrivateHistogram(
            budget=GAUSSIAN, schedule=Fading(step=200), categories=[0, 1],
            not_private_seed=7, **given,
        ),
    }  # fmt: skip


def inputs(name: str) -> tuple[Any, Any, list[str]]:
    X, y, ids = data()
    return (y if name == "histogram" else X), y, ids


@pytest.mark.parametrize("name", made())
def test_every_estimator_protects_persons(name: str) -> None:
    X, y, ids = inputs(name)
    clf = made()[name].fit(X, y, persons=ids)
    assert clf.releases_
    assert np.isfinite(clf.releases_[-1].weights).all()
    assert clf.quarantined_ == 0


@pytest.mark.parametrize("name", [name for name in made() if not name.startswith("private")])
def test_batches_make_no_difference(name: str) -> None:
    X, y, ids = inputs(name)
    whole, parts = made()[name], made()[name]
    if name == "two streams":
        whole.partial_fit(X, y, persons=ids, stream="source")
        for part in (slice(0, 7), slice(7, 800), slice(800, N)):
            parts.partial_fit(X[part], y[part], persons=ids[part], stream="source")
    else:
        whole.fit(X, y, persons=ids)
        for part in (slice(0, 7), slice(7, 800), slice(800, N)):
            parts.partial_fit(X[part], y[part], persons=ids[part])
    assert len(whole.releases_) == len(parts.releases_)
    for one, other in zip(whole.releases_, parts.releases_, strict=True):
        np.testing.assert_array_equal(one.weights, other.weights)


def test_ids_may_have_any_type_and_names_do_not_matter() -> None:
    X, y, _ = data()
    numbers = np.arange(N) % 400
    for ids in (numbers, numbers.astype(str), pa.array(numbers), [f"x{n}" for n in numbers]):
        clf = made()["fading"].fit(X, y, persons=ids)
        expected = made()["fading"].fit(X, y, persons=numbers.tolist())
        np.testing.assert_array_equal(clf.releases_[-1].weights, expected.releases_[-1].weights)


def test_a_person_with_all_records_counts_less_than_many_persons() -> None:
    """Two in three records are one person's, who says the opposite."""
    X, y, _ = data()
    one = np.arange(N) % 3 > 0
    lied = np.where(one, 1 - y, y)
    ids = np.where(one, 0, np.arange(N))
    kept = {"contributions": 1, "typical": 1, "budget": ApproxDP(20.0, 1e-3), "survey": 0}
    protected = PrivateClassifier(**{**COMMON, **kept}).fit(X, lied, persons=ids)
    assert protected.score(X, y) > 0.9
    plain = PrivateClassifier(budget=ApproxDP(20.0, 1e-3), survey=0, **COMMON).fit(X, lied)
    assert plain.score(X, y) < 0.1


def test_a_mean_of_persons_is_not_shrunk() -> None:
    """With `typical` slots for each person the mean is that of the persons."""
    X = np.tile([0.5, -0.5], (4000, 1))
    mean = PrivateMean(
        budget=PureDP(4.0), schedule=Independent(step=4000), norm=1.0,
        contributions=1, typical=4, not_private_seed=7,
    )  # fmt: skip
    mean.fit(X, persons=np.arange(4000) % 1000)
    np.testing.assert_allclose(mean.mean_, [0.5, -0.5], atol=0.05)
    histogram = PrivateHistogram(
        budget=PureDP(4.0), schedule=Independent(step=4000), categories=["a", "b"],
        contributions=1, typical=4, not_private_seed=7,
    )  # fmt: skip
    histogram.fit(["a", "a", "a", "b"] * 1000, persons=np.arange(4000) // 4)
    np.testing.assert_allclose(histogram.histogram_, [0.75, 0.25], atol=0.05)


def test_records_of_nobody_keep_their_slot_and_are_not_used() -> None:
    X, y, ids = data()
    mixed: list[Any] = list(ids)
    mixed[3:6] = [None, "", 1.5]
    clf = made()["fading"].fit(X, y, persons=mixed)
    assert clf.quarantined_ == 3
    assert len(clf.releases_) == N // 200


@pytest.mark.parametrize("name", [name for name in made() if not name.startswith("private")])
def test_a_first_step_that_is_mostly_nobodys_stops_unpaid(name: str) -> None:
    X, y, ids = inputs(name)
    mixed: list[Any] = list(ids)
    mixed[:201] = [None] * 201  # more than half of a first step of 200 or 400
    clf = made()[name]
    for _ in range(2):
        with pytest.raises(StoppedError, match=r"have no usable person id.*check persons"):
            clf.partial_fit(X, y, persons=mixed, **_stream(name))
    assert clf.releases_ == []
    clf.fit(X, y, persons=ids)


def _stream(name: str) -> dict[str, str]:
    return {"stream": "source"} if name == "two streams" else {}


# --- refusals


def refused(text: str, act: Any) -> None:
    with pytest.raises(InvalidValueError, match=text) as error:
        act()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", made())
def test_missing_persons_are_refused(name: str) -> None:
    X, y, _ = inputs(name)
    clf = made()[name]
    refused(
        "persons are missing: because contributions is set, give persons=", lambda: clf.fit(X, y)
    )
    assert not hasattr(clf, "releases_")


@pytest.mark.parametrize("name", made())
def test_persons_are_refused_where_records_are_protected(name: str) -> None:
    X, y, ids = inputs(name)
    clf = made(contributions=None, typical=1)[name]
    refused("persons are given, but the estimator protects records: set contributions",
            lambda: clf.fit(X, y, persons=ids))  # fmt: skip


@pytest.mark.parametrize(
    ("persons", "text"),
    [
        (["a"], "persons must be 1200 ids, one for each record, got 1"),
        (["a"] * (N + 1), "persons must be 1200 ids, one for each record, got 1201"),
        (np.zeros(N), "persons must be text or whole numbers, got an array of float64"),
        (np.zeros(N, bool), "persons must be text or whole numbers, got an array of bool"),
        (
            pd.Series([*range(N - 1), None]),
            "got an array of float64: if some are missing, use pandas' Int64, or a list with None",
        ),
        (pa.array([0.5] * N), "persons must be text or whole numbers, got an array of double"),
        (np.zeros((N, 1), int), "persons must be one-dimensional"),
        ("a" * N, "persons must be one-dimensional"),
        ({i: i for i in range(N)}, "persons must be one-dimensional"),
    ],
)
def test_bad_persons_are_refused_whole(persons: Any, text: str) -> None:
    X, y, ids = data()
    clf = made()["fading"].fit(X, y, persons=ids)
    before = len(clf.releases_), clf._begun.run.steps.count("records")
    refused(text, lambda: clf.partial_fit(X, y, persons=persons))
    assert (len(clf.releases_), clf._begun.run.steps.count("records")) == before


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"contributions": 0}, "contributions must be a whole number from 1"),
        ({"contributions": 1.5}, "contributions must be a whole number from 1"),
        ({"typical": 0}, "typical must be a number from 1"),
        ({"period": 0}, "period must be a whole number from 1"),
        ({"contributions": None, "typical": 2}, "typical is set, but contributions is not"),
        ({"contributions": None, "typical": 1, "period": 2}, "period is set, but contributions"),
    ],
)
def test_bad_settings_are_refused(more: dict[str, Any], text: str) -> None:
    X, y, ids = data()
    refused(text, lambda: made(**more)["fading"].fit(X, y, persons=ids))


def test_more_that_does_not_go_together_is_refused() -> None:
    X, y, ids = data()
    sampled = SlidingWindowClassifier(
        budget=GAUSSIAN, window=600, step=200, sample=100, contributions=2, **COMMON
    )
    refused("sample must be left out where persons are protected",
            lambda: sampled.fit(X, y, persons=ids))  # fmt: skip
    refused("period must be None for two streams",
            lambda: made(period=3)["two streams"].fit(X, y, persons=ids))  # fmt: skip
    own = FadingClassifier(budget=ApproxDP(1.0, 1e-6, contributions=4), step=200, **COMMON)
    refused("set contributions=4 on the estimator", lambda: own.fit(X, y))


def test_a_learner_that_knows_no_persons_is_refused() -> None:
    class Foreign:
        def check(self, task: Any, unit: str) -> None: ...

        def check_size(self, task: Any, largest: Any) -> None: ...

        def fit(self, task: Any, terms: Any, records: Any, bits: Any) -> Any: ...

    X, y, ids = data()
    clf = FadingClassifier(budget=GAUSSIAN, step=200, learner=Foreign(), contributions=2, **COMMON)  # type: ignore[arg-type]
    refused("learner must be one with person_factors", lambda: clf.fit(X, y, persons=ids))


# --- scikit-learn


@pytest.fixture
def routing() -> Any:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_persons_are_routed_through_a_pipeline() -> None:
    X, y, ids = data()
    clf = made()["fading"].set_fit_request(persons=True).set_partial_fit_request(persons=True)
    pipeline = make_pipeline(FunctionTransformer(), clf).fit(X, y, persons=ids)
    direct = made()["fading"].fit(X, y, persons=ids)
    np.testing.assert_array_equal(pipeline[-1].releases_[-1].weights, direct.releases_[-1].weights)
    request = clf.get_metadata_routing()
    assert request.fit.requests["persons"] is True
    assert request.partial_fit.requests["persons"] is True


def test_a_clone_has_the_settings_and_a_copy_goes_on() -> None:
    X, y, ids = data()
    clf = made(period=4)["fading"]
    assert clone(clf).get_params() == clf.get_params()
    clf.partial_fit(X[:700], y[:700], persons=ids[:700])
    copy = pickle.loads(pickle.dumps(clf))
    for each in (clf, copy):
        each.partial_fit(X[700:], y[700:], persons=ids[700:])
    np.testing.assert_array_equal(clf.releases_[-1].weights, copy.releases_[-1].weights)


def test_nothing_shown_tells_of_persons() -> None:
    X, y, ids = data()
    clf = made()["fading"].fit(X, y, persons=ids)
    key = clf._begun.key
    assert key is not None
    for text in (repr(clf), repr(clf._begun), repr(clf.releases_[-1])):
        assert "person 1" not in text
        assert repr(key) not in text


# --- interruptions


class InterruptError(BaseException):
    """Somebody presses a key."""


@pytest.mark.parametrize("where", ["train", "survey", "add", "post"])
def test_an_interrupted_step_admits_and_charges_once(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:

    X, y, ids = data()
    expected = made(contributions=2)["fading"].fit(X, y, persons=ids)
    owner: Any
    owner, name = {
        "train": (Trainer, "train"), "survey": (MemoryRun, "survey"),
        "add": (AdmittedSteps, "add"), "post": (Ledger, "post"),
    }[where]  # fmt: skip
    real, calls = getattr(owner, name), [0]

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        calls[0] += 1
        if calls[0] == 3:
            raise InterruptError
        return result

    clf = made(contributions=2)["fading"]
    monkeypatch.setattr(owner, name, interrupted)
    with pytest.raises(InterruptError):
        clf.partial_fit(X, y, persons=ids)
    clf.partial_fit(X[:1], y[:1], persons=ids[:1])  # completes what was interrupted
    assert len(clf.releases_) == len(expected.releases_)
    assert _steps(clf) == _steps(expected)
    assert clf.ledger_.worst().share == expected.ledger_.worst().share


def _steps(clf: Any) -> list[Any]:
    """In which steps persons were admitted; keys are random."""
    ranges = clf._begun.run.steps.admitted._ranges["records"]
    return sorted(ranges.values())


def test_a_person_is_admitted_as_often_as_contributions_allow() -> None:
    X, y, _ = data()
    clf = FadingClassifier(budget=GAUSSIAN, step=200, memory=1, contributions=3, **COMMON)
    clf.fit(X, y, persons=["ann"] * N)
    assert _steps(clf) == [((0, 3),)]
    clf = FadingClassifier(budget=GAUSSIAN, step=200, memory=1, contributions=1, period=3, **COMMON)
    clf.fit(X[:1000], y[:1000], persons=["ann"] * 1000)
    assert _steps(clf) == [((3, 4),)]  # admitted in steps 0 and 3; the first is forgotten


def test_owners_are_forgotten_as_records_are() -> None:
    X, y, ids = data()
    clf = made()["fading"]
    clf.fit(X, y, persons=ids)
    run = clf._begun.run.steps
    held = run.held["records"]
    assert all(records.owners is not None for records in held.pieces(range_of(held)))
    assert min(step.start for step in run.admitted._bits["records"]) >= held.first - 200
    assert len(_steps(clf)) == N // 3  # who was admitted stays known


def range_of(held: Any) -> Any:
    return Span(held.first, held.count)


@pytest.mark.parametrize("typical", [1, 2, "5/2", 2.5, Fraction(5, 2)])
def test_typical_may_be_any_number(typical: Any) -> None:
    X, y, ids = data(600)
    assert made(typical=typical)["sliding"].fit(X, y, persons=ids).releases_


@pytest.mark.parametrize("name", made())
def test_the_share_admitted_is_known_to_the_caller_and_on_no_card(name: str) -> None:
    X, y, ids = inputs(name)
    clf = made(contributions=1)[name].fit(X, y, persons=[None, *ids[1:]])
    steps = clf.admitted_
    assert sum(each.span.size for each in steps) <= N
    assert steps[0].records == steps[0].span.size - 1
    if len(steps) == 1:  # all records of a person are in one step
        assert steps[0].share == 1.0
    else:
        assert sum(each.counted for each in steps) <= N // 3, "each person once"
        assert steps[-1].share == 0.0
    said = repr([release.about for release in clf.releases_]) + repr(clf)
    said += repr([release.card for release in clf.releases_])
    assert "admitted" not in said
    assert "counted" not in said
    again = pickle.loads(pickle.dumps(clf))
    assert again.admitted_ == steps
    assert not hasattr(clone(clf), "admitted_")


def test_records_that_are_protected_have_no_share() -> None:
    X, y, _ = data()
    clf = FadingClassifier(step=200, budget=GAUSSIAN, **COMMON).fit(X, y)
    with pytest.raises(AttributeError, match="no admitted_: it protects records"):
        _ = clf.admitted_
    with pytest.raises(AttributeError, match="no admitted_: it is not fitted yet"):
        _ = made()["fading"].admitted_


def test_few_that_count_are_warned_about_once() -> None:
    X, y, ids = data()
    clf = made(contributions=1)["fading"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.partial_fit(X[:400], y[:400], persons=ids[:400])
    with pytest.warns(
        FewAdmittedWarning, match=r"0\.0% .*contributions = 1, .* new stream"
    ) as seen:
        clf.partial_fit(X[400:600], y[400:600], persons=ids[400:600])
    assert [each.filename for each in seen] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.partial_fit(X[600:800], y[600:800], persons=ids[600:800])


def test_a_step_that_is_interrupted_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, ids = data()
    clf, whole = made()["fading"], made()["fading"].fit(X, y, persons=ids)

    def failing(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(Trainer, "train", failing)
        with pytest.raises(KeyboardInterrupt):
            clf.fit(X[:700], y[:700], persons=ids[:700])
        assert clf.admitted_ == []
    clf.partial_fit(X[700:], y[700:], persons=ids[700:])
    assert clf.admitted_ == whole.admitted_
