"""Estimators that survey their steps: what is interrupted, saved, carried over and refused."""

import pickle
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from scipy import sparse

from tests.estimators.estimators import CLASSIFIERS, STREAMS, batch_for, surveyed
from tidegate import ApproxDP, PureDP, SlidingWindowClassifier, TwoStreamClassifier
from tidegate.checks import InvalidValueError
from tidegate.learn.survey import survey
from tidegate.learn.transform import Transform
from tidegate.privacy import Budget
from tidegate.run.executor import FitJob
from tidegate.schedule import Cumulative


@pytest.mark.parametrize("kind", STREAMS)
def test_an_interrupted_step_is_surveyed_and_charged_once(kind: type) -> None:
    """Also if the estimator is saved and loaded between the survey and the fit."""
    X, y = batch_for(None, records=24)
    where = {"stream": "source"} if kind is TwoStreamClassifier else {}
    clf = surveyed(kind).partial_fit(X[:16], y[:16], **where)
    run = clf._begun.run
    stream = run.progress.streams[0]
    with (
        patch.object(FitJob, "train", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        clf.partial_fit(X[16:20], y[16:20], **where)
    begun = run._step
    assert begun is not None
    assert begun.surveys
    moments, step = begun.surveys[0].moments, begun.span
    seen = moments.cells.copy()
    again = pickle.loads(pickle.dumps(clf))
    with patch("tidegate.learn.preparation.survey", wraps=survey) as made:
        again.partial_fit(X[20:], y[20:], **where)
    follow = again._begun.run
    assert follow.steps.done(stream) >= step.stop
    assert made.call_count == (follow.steps.done(stream) - step.stop) // step.size
    first = next(each for each in again.releases_ if each.fit.at == step.stop)
    transform = moments.transform(norm=10.0, sparse=False)
    assert first.transform is not None
    assert first.transform.on_card() == transform.on_card()
    assert follow.ledger(stream).surveyed == follow.steps.done(stream)
    assert np.array_equal(moments.cells, seen)


def test_a_prior_is_carried_from_the_source_to_the_target() -> None:
    """The target's transform is another; rows that neither clips keep their margins."""
    X, y = batch_for(None, records=600)
    near, _ = batch_for(None, records=600, seed=1)
    clf = TwoStreamClassifier(
        budget=ApproxDP(8.0, 1e-6),
        source=Cumulative(block=300),
        step=300,
        classes=[0, 1],
        norm=6.0,
        not_private_seed=3,
    )
    clf.partial_fit(X, y, stream="source").partial_fit(0.5 * near + 1.0, y)
    source, target = (
        next(each for each in clf.releases_ if each.fit.stream == name)
        for name in ("source", "target")
    )
    assert source.transform is not None
    assert target.transform is not None
    assert source.transform.on_card() != target.transform.on_card()
    rows = 0.5 * near + 0.5
    both = [np.asarray(each.rows(rows)) for each in (source.transform, target.transform)]
    inside = np.logical_and(*(np.linalg.norm(each[:, :-1], axis=1) < 0.99 for each in both))
    assert inside.sum() > 100
    carried = target.transform.carried(source.weights, source.transform)
    before, after = both[0] @ source.weights, both[1] @ carried
    np.testing.assert_allclose(after[inside], before[inside], atol=1e-7)


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_what_cannot_be_predicted_is_refused(kind: type, container: Any) -> None:
    X, y = batch_for(None)
    clf = surveyed(kind).fit(container(X), y)
    assert clf.releases_[-1].weights.shape == (4,)
    assert clf.n_features_in_ == 3
    broken = X.copy()
    broken[1, 1] = np.nan
    with pytest.raises(InvalidValueError, match="X contains NaN, infinity or text"):
        clf.predict_proba(container(broken))
    with pytest.raises(ValueError, match="X has 2 features, but"):
        clf.predict_proba(container(X[:, :2]))
    dense, other = clf.predict_proba(X), clf.predict_proba(sparse.csr_array(X))
    assert np.array_equal(dense, other)  # both in the form of the stream


def test_a_survey_is_on_by_default_if_there_is_a_delta() -> None:
    X, y = batch_for(None)
    cases: list[tuple[Budget, float | None, bool]] = [
        (ApproxDP(1.0, 1e-6), None, True),
        (ApproxDP(1.0, 1e-6), 0, False),
        (PureDP(1.0), None, False),
        (PureDP(1.0), 0.05, True),
    ]
    for budget, share, on in cases:
        clf = SlidingWindowClassifier(
            budget=budget, window=8, step=4, classes=[0, 1], norm=10.0, survey=share,
            regularization=0.1, not_private_seed=1,
        ).fit(X, y)  # fmt: skip
        found = [each.transform for each in clf.releases_]
        assert all(isinstance(each, Transform) == on for each in found)
        assert clf.ledger_.worst().share <= 1
