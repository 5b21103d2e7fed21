"""The measures of compared models are those of other libraries, for classes and for numbers."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import (
    balanced_accuracy_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from tidegate.compare.labelled import UNUSABLE, Labelled, LabelledStream
from tidegate.compare.method import Linear, Transformed
from tidegate.compare.yardstick import ByClass, ByError, yardstick_of
from tidegate.data.predicted import BITS, Target
from tidegate.learn.transform import Transform
from tidegate.release.model import Model

ONES = Linear(np.ones(1))

# --- classes


@pytest.mark.parametrize("sparse_rows", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_log_loss_is_that_of_the_released_probabilities(sparse_rows: bool, classes: int) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.uniform(-0.5, 0.5, (50, 4)), rng.integers(classes, size=50)
    y[:classes] = range(classes)
    weights = rng.normal(size=4 if classes == 2 else (4, classes))
    model = Model(weights=weights, classes=np.arange(classes), norm=1.0)
    expected = log_loss(y, model.predict_proba(X))
    by_class = ByClass(classes)
    some = Labelled(X=sparse.csr_array(X) if sparse_rows else X, y=y)
    assert by_class.measured(Linear(weights), some)["log_loss"] == pytest.approx(expected)
    more = Labelled(X=np.vstack([X, np.zeros((5, 4))]), y=np.append(y, [UNUSABLE] * 5))
    assert by_class.measured(Linear(weights), more)["log_loss"] == pytest.approx(expected)
    assert np.isnan(by_class.measured(Linear(weights), more[50:])["log_loss"])


def test_a_model_that_is_sure_and_wrong_has_a_finite_loss() -> None:
    wrong = Labelled(X=np.ones((1, 1)), y=np.array([0]))
    assert ByClass(2).measured(Linear(np.array([1e6])), wrong)["log_loss"] == pytest.approx(
        math.log(1000)
    )


def test_measures_are_those_of_the_test_records() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 2))
    y = (X[:, 0] + rng.normal(size=500) > 0.5).astype(np.intp)
    y[:20] = UNUSABLE
    weights = np.array([1.0, 0.2])
    found = ByClass(2).measured(Linear(weights), Labelled(X=X, y=y))
    assert found["accuracy"] == Labelled(X=X, y=y).score(Linear(weights))
    X, y = X[20:], y[20:]
    assert found["auc"] == pytest.approx(roc_auc_score(y, X @ weights))
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, X @ weights > 0))
    assert found["majority"] == pytest.approx(max(y.mean(), 1 - y.mean()))
    assert found["bias"] == pytest.approx((1 / (1 + np.exp(-X @ weights))).mean() - y.mean())


def test_a_column_for_each_of_two_classes_measures_the_same() -> None:
    rng = np.random.default_rng(4)
    y = rng.choice([UNUSABLE, 0, 1], size=200)
    test = Labelled(X=rng.normal(size=(200, 3)), y=y)
    columns = rng.normal(size=(3, 2))
    by_class = ByClass(2)
    assert by_class.measured(Linear(columns), test) == pytest.approx(
        by_class.measured(Linear(columns[:, 1] - columns[:, 0]), test)
    )


def test_margins_without_probabilities_are_not_read_as_such() -> None:
    test = Labelled(X=np.array([[1.0], [-1.0], [2.0]]), y=np.array([1, 0, 0]))
    plain, without = (ByClass(2).measured(ONES, test, probabilities=p) for p in (True, False))
    assert np.isnan([without["log_loss"], without["bias"]]).all()
    rest = plain.keys() - {"log_loss", "bias"}
    assert {name: without[name] for name in rest} == {name: plain[name] for name in rest}


def test_a_transformed_model_is_tested_with_its_transform() -> None:
    rng = np.random.default_rng(3)
    test = Labelled(X=rng.normal(size=(50, 2)), y=rng.integers(2, size=50))
    transform = Transform.of(np.array([0.5, -0.5]), np.array([2.0, 0.25]))
    model = Transformed(np.array([1.0, -1.0, 3.0]), transform)
    margins = transform.rows(test.X) @ model.weights
    assert test.margins(model).tolist() == np.asarray(margins).tolist()
    assert test.score(model) == np.mean((margins > 0) == test.y)


# --- numbers

NUMBERS = st.lists(st.tuples(*[st.floats(-1.5, 1.5)] * 2), min_size=2, max_size=20)
ENDS = st.tuples(st.floats(-1e4, 1e4), st.floats(1e-2, 1e4)).map(lambda e: (e[0], e[0] + e[1]))


@given(pairs=NUMBERS, ends=ENDS, unusable=st.integers(0, 3))
def test_errors_are_those_of_clipped_predictions(
    pairs: list[tuple[float, float]], ends: tuple[float, float], unusable: int
) -> None:
    """Also for a prediction or a target outside of the range, and beside unusable records."""
    target = Target(*ends)
    margins, raw = np.array(pairs).T
    codes, _ = target.codes(target.middle + target.half * raw)
    y = np.append(codes, [UNUSABLE] * unusable)
    test = Labelled(X=np.append(margins, [9.0] * unusable)[:, None], y=y)
    found = ByError(target).measured(ONES, test)
    truths, predictions = target.values(codes), target.predictions(margins)
    near: Any = {"rel": 1e-6, "abs": 1e-6 * target.half}
    assert found["rmse"] == pytest.approx(root_mean_squared_error(truths, predictions), **near)
    assert found["mae"] == pytest.approx(mean_absolute_error(truths, predictions), **near)
    assert found["mean_error"] == pytest.approx(np.mean(predictions - truths), **near)
    constant = np.full(len(truths), truths.mean())
    assert found["constant_rmse"] == pytest.approx(
        root_mean_squared_error(truths, constant), **near
    )
    assert found["constant_mae"] == pytest.approx(mean_absolute_error(truths, constant), **near)
    if found["constant_rmse"] > 1e-3 * target.half:
        assert found["r2"] == pytest.approx(r2_score(truths, predictions), rel=1e-6, abs=1e-6)


def test_no_target_is_taken_for_an_unusable_record() -> None:
    codes, usable = Target(0, 1).codes(np.linspace(-1, 2, 100))
    assert usable.all()
    assert Labelled(X=np.zeros((100, 1)), y=codes).usable.all()
    assert Labelled(X=np.zeros((1, 1)), y=np.array([-1])).usable.all()


def test_where_nothing_is_defined_nothing_is_shown() -> None:
    by_error = ByError(Target(0, 60))
    none = by_error.measured(ONES, Labelled(X=np.zeros((2, 1)), y=np.array([UNUSABLE] * 2)))
    assert all(map(math.isnan, none.values()))
    same = by_error.measured(ONES, Labelled(X=np.zeros((2, 1)), y=np.array([2**BITS] * 2)))
    assert math.isnan(same["r2"])
    assert (same["rmse"], same["constant_rmse"]) == (30.0, 0.0)


@pytest.mark.parametrize(("width", "digits"), [(2.0, 5), (240.0, 4), (1e-6, 12)])
def test_json_keeps_the_digits_of_a_narrow_range(width: float, digits: int) -> None:
    assert ByError(Target(0, width)).digits == digits


def test_a_stream_is_measured_by_what_it_predicts() -> None:
    records = Labelled(X=np.zeros((1, 1)), y=np.zeros(1, int))
    stream = LabelledStream(records=records, classes=3, norm=1.0, test=lambda _: records)
    assert yardstick_of(stream) == ByClass(3)
    numbers = LabelledStream(
        records=records, classes=0, norm=1.0, test=lambda _: records, target=Target(0, 1)
    )
    assert yardstick_of(numbers) == ByError(Target(0, 1))
