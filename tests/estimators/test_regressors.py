"""Regressors: what they predict, what they refuse, and that they keep persons and slots."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import sparse

from tests.estimators.estimators import NUMBER_STREAMS, REGRESSORS, regressor, same, weights
from tidegate import (
    ApproxDP,
    FadingRegressor,
    GrowingRegressor,
    PrivateRegressor,
    PureDP,
    SlidingWindowRegressor,
    TwoStreamRegressor,
)
from tidegate.checks import InvalidValueError
from tidegate.estimators.base_estimator import StreamEstimator
from tidegate.features import AppendIntercept
from tidegate.learn import GradientPerturbation, OutputPerturbation
from tidegate.learn.loss import HuberError, SquaredError
from tidegate.release import RegressionModel

Floats = NDArray[np.float64]


def numbers(records: int = 40, seed: int = 0) -> tuple[Floats, Floats]:
    """A plane with little noise, in three features."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(records, 3))
    return X, 2 * X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=records)


def task_of(estimator: StreamEstimator) -> Any:
    return estimator._begun.run.settings.task


@pytest.mark.parametrize("kind", REGRESSORS)
def test_a_plane_is_learnt(kind: type) -> None:
    X, y = numbers(400)
    model = regressor(kind, target=(-4, 4), norm=2.0, budget=ApproxDP(1000, 1e-3))
    model.fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.predict(X).shape == (400,)
    assert not hasattr(model, "decision_function")


@pytest.mark.parametrize("kind", REGRESSORS)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_predictions_are_those_of_the_release(kind: type, container: Any) -> None:
    X, y = numbers()
    model = regressor(kind).fit(container(X), y)
    release = model.releases_[-1]
    again = RegressionModel(
        weights=release.weights, transform=release.transform, target=model.target_, norm=10.0
    )
    np.testing.assert_allclose(model.predict(container(X)), again.predict(X), rtol=1e-9)
    inside = (again.predict(X) >= -10) & (again.predict(X) <= 10)
    assert inside.all()


def test_predictions_are_in_the_unit_of_the_target() -> None:
    """Another unit of the target changes nothing but the unit of the predictions."""
    X, y = numbers()
    one = regressor(PrivateRegressor, target=(-4, 4)).fit(X, y)
    other = regressor(PrivateRegressor, target=(-1996, 2004)).fit(X, 500 * y + 4)
    assert same(one, other)
    np.testing.assert_allclose(other.predict(X), 500 * one.predict(X) + 4, rtol=1e-9)


def test_the_mean_is_known_at_once() -> None:
    """A survey tells where most targets lie, so a first model need not find that out."""
    X, _ = numbers(2000)
    y = np.full(2000, 90.0)
    model = PrivateRegressor(
        budget=ApproxDP(1, 1e-6), target=(0, 100), norm=2.0, not_private_seed=3
    ).fit(X, y)
    assert np.abs(model.predict(X) - 90).max() < 10


@pytest.mark.parametrize(
    ("budget", "loss", "chosen"),
    [
        (PureDP(1), "auto", HuberError),
        (ApproxDP(1, 1e-6), "auto", SquaredError),
        (ApproxDP(1, 1e-6), "huber", HuberError),
    ],
)
def test_the_loss_follows_the_budget(budget: Any, loss: str, chosen: type) -> None:
    X, y = numbers()
    model = PrivateRegressor(budget=budget, target=(-4, 4), norm=2.0, loss=loss).fit(X, y)
    assert type(task_of(model).loss) is chosen


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"loss": "logistic"}, "loss must be one of auto, squared, huber for a target"),
        ({"target": (1, 1)}, "target must be a range"),
        ({"target": (2, 1)}, "target must be a range"),
        ({"target": 5}, "target must be two numbers"),
        ({"target": (0, np.inf)}, "the target's high must be a number"),
        ({"target": ("a", 1)}, "the target's low must be a number"),
        ({"target": None}, "target must be two numbers"),
        ({"budget": PureDP(1), "loss": "squared"}, "loss must be one with bounded gradients"),
        ({"loss": "squared", "learner": OutputPerturbation()}, "loss must be one with bounded"),
        ({"budget": PureDP(1), "learner": GradientPerturbation()}, "budget must be ApproxDP"),
    ],
)
@pytest.mark.parametrize("kind", [PrivateRegressor, FadingRegressor, TwoStreamRegressor])
def test_bad_parameters_are_refused_before_any_record(
    kind: type, changed: dict[str, Any], message: str
) -> None:
    model = regressor(kind, **{"budget": ApproxDP(1, 1e-6), **changed})
    with pytest.raises(InvalidValueError, match=message) as refused:
        model.fit(object(), [0.0])
    assert "\n" not in str(refused.value)
    assert not hasattr(model, "releases_")


SECRET = 31337.25
TARGETS: list[tuple[Any, float | None]] = [
    (2, 2.0),
    (2.5, 2.5),
    (True, 1.0),
    (np.float32(0.5), 0.5),
    ("2.5", 2.5),
    (SECRET, 10.0),
    (-1e300, -10.0),
    (10**400, None),
    (float("inf"), None),
    (float("nan"), None),
    (None, None),
    ("late", None),
    ([1.0], None),
    (1 + 2j, None),
    ({}, None),
]


@pytest.mark.parametrize(("given", "number"), TARGETS, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("kind", [SlidingWindowRegressor, GrowingRegressor])
def test_a_target_that_cannot_be_used_keeps_its_slot(
    kind: type, given: Any, number: float | None
) -> None:
    """Whatever a target is, the other slots stay as they are."""
    X, y = numbers(8)
    targets: list[Any] = y.tolist()
    targets[3] = given
    model = regressor(kind).partial_fit(X.tolist(), targets)
    assert model.quarantined_ == (number is None)
    if number is None:
        X[3] = np.nan
    else:
        y[3] = number
    assert same(regressor(kind).partial_fit(X, y), model)


def test_a_dtype_that_one_target_can_cause_refuses_no_batch() -> None:
    X, _ = numbers(4)
    unusable = [
        (np.array([0, 0, 0, 1j]), 1),
        (np.zeros(4, "M8[ns]"), 4),
        (np.zeros(4, "m8[s]"), 4),
        (np.array([0, "x", True, 1.5]), 1),
    ]
    for y, count in unusable:
        assert regressor(PrivateRegressor).fit(X, y).quarantined_ == count
    with pytest.raises(InvalidValueError, match=r"y must be as long as X \(4\), got 3"):
        regressor(PrivateRegressor).fit(X, np.zeros(3))
    with pytest.raises(InvalidValueError, match="y should be a 1d array"):
        regressor(PrivateRegressor).fit(X, np.zeros((4, 2)))


@pytest.mark.parametrize("form", [list, tuple, np.array, pa.array, lambda y: np.array(y, object)])
def test_the_form_of_targets_makes_no_difference(form: Any) -> None:
    X, y = numbers(12)
    expected = regressor(SlidingWindowRegressor).partial_fit(X, y)
    assert same(regressor(SlidingWindowRegressor).partial_fit(X, form(y.tolist())), expected)


@pytest.mark.parametrize("kind", NUMBER_STREAMS)
@pytest.mark.parametrize("budget", [PureDP(1.0), ApproxDP(1.0, 1e-6)])
def test_the_split_into_batches_makes_no_difference(kind: type, budget: Any) -> None:
    X, y = numbers(41)
    whole, cut = (regressor(kind, budget=budget, regularization=None) for _ in range(2))
    where = {"stream": "source"} if kind is TwoStreamRegressor else {}
    whole.partial_fit(X, y, **where)
    for part in (slice(0, 3), slice(3, 21), slice(21, 41)):
        cut.partial_fit(X[part], y[part], **where)
    assert len(weights(whole)) > 1
    assert same(whole, cut)


@pytest.mark.parametrize("kind", REGRESSORS)
@pytest.mark.parametrize("budget", [PureDP(4.0), ApproxDP(4.0, 1e-3)])
def test_persons_are_protected(kind: type, budget: Any) -> None:
    X, y = numbers(60)
    given: dict[str, Any] = {"contributions": 3, "budget": budget, "regularization": None}
    model = regressor(kind, **given).fit(X, y, persons=[n % 20 for n in range(60)])
    assert model.releases_
    assert np.isfinite(model.releases_[-1].weights).all()
    with pytest.raises(InvalidValueError, match="persons are missing"):
        regressor(kind, **given).fit(X, y)


def test_pure_budgets_learn_with_an_intercept() -> None:
    X, y = numbers(20_000)
    model = PrivateRegressor(
        budget=PureDP(1.0),
        target=(-4, 14),
        norm=2.0,
        features=AppendIntercept(),
        not_private_seed=5,
    ).fit(X, y + 5)
    assert model.score(X, y + 5) > 0.5
