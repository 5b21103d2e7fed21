"""Refits: what each costs adds up to the budget, and they learn."""

import sys
from dataclasses import replace
from fractions import Fraction
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.blobs import blobs
from tidegate import ApproxDP, PureDP
from tidegate.checks import InvalidValueError
from tidegate.compare.contenders import Method
from tidegate.compare.results import measure
from tidegate.learn import GradientPerturbation, Logistic, OutputPerturbation
from tidegate_lab.methods.diffprivlib import Diffprivlib
from tidegate_lab.methods.nonprivate import NonPrivate
from tidegate_lab.methods.refit import NaiveSplitting, WindowRefit, split
from tidegate_lab.methods.times import Times

BUDGET = ApproxDP(1.0, 1e-6)
ALL = Times(first=200, step=100)
WINDOW = Times(first=200, step=50, window=200)
GRADIENT = GradientPerturbation()

needs_diffprivlib = pytest.mark.skipif(
    find_spec("diffprivlib") is None, reason="needs diffprivlib (pip install diffprivlib)"
)


@given(epsilon=st.floats(1e-3, 10), delta=st.floats(1e-9, 1e-2), releases=st.integers(1, 10_000))
def test_simple_parts_add_up_to_the_whole_and_never_to_more(
    epsilon: float, delta: float, releases: int
) -> None:
    part = split(PureDP(epsilon), releases)
    assert 1 - 2.0**-52 <= releases * Fraction(part.epsilon) / Fraction(epsilon) <= 1
    if releases < 100:  # beyond, Gaussian noise may have no scale
        both = split(ApproxDP(epsilon, delta, weak_delta=True), releases)
        assert both.epsilon == part.epsilon
        assert 1 - 2.0**-52 <= releases * Fraction(both.delta) / Fraction(delta) <= 1


def amount(method: NaiveSplitting, releases: int) -> float:
    """What a record pays for each of the releases, in epsilon or mu."""
    plan = method.plan(records=8, releases=releases)
    return plan.budget.of_share(plan.forever)


@given(releases=st.integers(1, 1000))
def test_exact_parts_add_up_to_the_whole_and_are_never_less_than_simple_ones(
    releases: int,
) -> None:
    for budget in (BUDGET, PureDP(1.0)):
        naive = NaiveSplitting(budget=budget, times=ALL, learner=GRADIENT)
        power = 2 if budget.unit == "mu" else 1
        spent = releases * Fraction(amount(naive, releases)) ** power
        whole = Fraction(budget.of_share(Fraction(1))) ** power
        assert 1 - 2.0**-50 <= spent / whole <= 1
        if releases < 100:
            simple = NaiveSplitting(budget=budget, times=ALL, learner=GRADIENT, simple=True)
            assert amount(simple, releases) <= amount(naive, releases)


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(1, 5), st.integers(50, 80))
def test_no_record_is_in_more_windows_than_it_pays_for(steps: int, step: int, n: int) -> None:
    times = Times(first=steps * step, step=step, window=steps * step)
    refit = WindowRefit(budget=PureDP(1.0), times=times, learner=GRADIENT)
    spans = times.spans(n)
    most = max(sum(record in span for span in spans) for record in range(0, n, step))
    assert most * refit.plan(steps * step, len(spans)).forever <= 1
    assert most <= steps


def test_windows_are_whole_steps() -> None:
    for times in (ALL, Times(first=200, step=150, window=200)):
        with pytest.raises(InvalidValueError, match="a multiple of the step"):
            WindowRefit(budget=BUDGET, times=times, learner=GRADIENT)
    with pytest.raises(InvalidValueError, match="window"):
        Times(first=100, step=50, window=200)


RICH = ApproxDP(100.0, 1e-6)
METHODS: list[Method] = [
    NaiveSplitting(budget=RICH, times=ALL, learner=GRADIENT),
    NaiveSplitting(budget=PureDP(1000.0), times=WINDOW, learner=OutputPerturbation()),
    WindowRefit(budget=RICH, times=WINDOW, learner=GRADIENT),
    NonPrivate(times=ALL),
    NonPrivate(times=WINDOW),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_each_learns_what_is_easy(method: Method) -> None:
    curve = measure(method, blobs(n=450, classes=3), range(2))
    assert curve.at == tuple(range(200, 451, 50 if curve.at[1] == 250 else 100))
    assert curve.runs.min() > 0.9
    assert curve.private == (method.name != "not private")


def test_a_binary_stream_may_have_a_loss_of_its_own() -> None:
    stream = replace(blobs(n=400), loss=Logistic())
    for _, model in NonPrivate(times=ALL).models(stream, 0):
        assert model.weights.shape == (2,)
        assert stream.test(0).score(model) == 1.0


@needs_diffprivlib
def test_diffprivlib_learns_with_a_huge_budget() -> None:
    for classes in (2, 3):
        method = Diffprivlib(budget=PureDP(1e6), times=ALL, regularization=1e-3)
        curve = measure(method, blobs(classes=classes), range(1))
        assert curve.at == (200, 300, 400)
        assert curve.runs.min() > 0.9
        assert np.isnan(curve.measures["log_loss"]).all()  # it has no probabilities


@needs_diffprivlib
def test_a_class_that_did_not_occur_is_no_error_for_diffprivlib() -> None:
    stream = blobs(n=200, classes=3)
    np.minimum(stream.records.y, 1, out=stream.records.y)
    method = Diffprivlib(budget=PureDP(1e6), times=ALL)
    ((_, model),) = method.models(stream, 0)
    assert model.weights.shape == (2, 3)


def test_without_diffprivlib_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "diffprivlib.models", None)
    with pytest.raises(InvalidValueError, match="pip install"):
        next(Diffprivlib(budget=PureDP(1.0), times=ALL).models(blobs(), 0))
