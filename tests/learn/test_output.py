import math
from fractions import Fraction
from typing import Literal

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tidegate.checks import InvalidValueError
from tidegate.data.records import Records
from tidegate.learn import Huber, Logistic, Loss, OutputPerturbation, Softmax, minimize
from tidegate.learn.learner import Task, Terms, Weights
from tidegate.learn.objective import rounding_bound
from tidegate.learn.output import MAX_PASSES
from tidegate.learn.solver import accelerated_passes, condition_of
from tidegate.privacy.budget import Allowance
from tidegate.privacy.noise import NotPrivateBits

losses = st.sampled_from([Logistic(), Softmax(3), Huber(0.5)])


def task(loss: Loss, regularization: float = 0.1, norm: float = 1.0) -> Task:
    return Task(loss=loss, norm=norm, regularization=regularization)


@given(losses, st.floats(0.5, 4), st.floats(1e-4, 10), st.integers(1, 10**6))
def test_sensitivity_is_the_textbook_one_plus_the_tolerance(
    loss: Loss, norm: float, regularization: float, n: int
) -> None:
    learner, problem = OutputPerturbation(), task(loss, regularization, norm)
    sensitivity = Fraction(learner.sensitivity(problem, n, d=5))
    tolerance = Fraction(learner.tolerance(problem, n, d=5))
    bound = loss.lipschitz_at_minimum(norm, center_norm=0.0, regularization=regularization)
    assert sensitivity >= (Fraction(bound) / n + tolerance) / Fraction(regularization)
    assert float(sensitivity) == pytest.approx(
        bound / (regularization * n) * (1 + 2.0**-10), rel=1e-3
    )
    before = learner.sensitivity(problem, n, d=5, rules=1)
    assert before == pytest.approx(
        loss.lipschitz(norm) / (regularization * n) * (1 + 2.0**-10), rel=1e-3
    )


@given(losses, st.floats(0.01, 5), st.sampled_from(["epsilon", "mu"]))
def test_noise_is_scaled_by_what_the_fit_may_cost(
    loss: Loss, amount: float, unit: Literal["epsilon", "mu"]
) -> None:
    terms = Terms(allowance=Allowance(unit, amount))
    settings = OutputPerturbation().settings(task(loss), terms, n=100, d=3)
    exact = Fraction(settings["sensitivity"]) / Fraction(amount)
    assert exact <= Fraction(settings["noise_scale"]) <= exact * (1 + Fraction(1, 2**50))


def records(seed: int, n: int, classes: int) -> Records:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X /= 1.01 * np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    return Records(X, rng.integers(classes, size=n), rng.random(n) < 0.9)


@pytest.mark.parametrize("prior", [None, "one"])
@pytest.mark.parametrize("loss", [Logistic(), Softmax(3), Huber(0.5)])
def test_with_next_to_no_noise_it_is_the_minimiser(loss: Loss, prior: str | None) -> None:
    data = records(1, 200, max(2, loss.outputs))
    center: Weights | None = np.full(loss.shape(3), 0.3) if prior else None
    terms = Terms(allowance=Allowance("mu", 1e9), prior=center)
    found = OutputPerturbation().fit(task(loss), terms, data, NotPrivateBits(1))
    best = minimize(
        loss,
        np.where(data.usable[:, None], data.X, 0),
        data.y,
        regularization=0.1,
        center=center,
        weights=data.usable,
        norm=1.0,
        tolerance=1e-10,
    )
    reach = OutputPerturbation().tolerance(task(loss), 200, 3) / (2 * 0.1)
    assert np.linalg.norm(found - best.weights) <= reach + 1e-6


@given(losses, st.integers(10, 10**6), st.sampled_from(["epsilon", "mu"]))
def test_left_to_the_learner_a_margin_gets_noise_of_at_most_an_eighth(
    loss: Loss, n: int, unit: Literal["epsilon", "mu"]
) -> None:
    open_task = Task(loss=loss, norm=2.0, regularization=None)
    spread = 1.0 if unit == "mu" else math.sqrt(math.prod(loss.shape(5)) + 1)
    noise = []
    for rules in (1, 2):
        terms = Terms(allowance=Allowance(unit, 0.3), rules=rules)
        settings = OutputPerturbation().settings(open_task, terms, n=n, d=5)
        noise.append(2.0 * settings["noise_scale"] * spread)
    assert noise[0] == pytest.approx(1 / 8, rel=2e-3)
    assert noise[0] / 2 <= noise[1] <= noise[0]


def test_the_worst_case_of_known_settings() -> None:
    learner, one = OutputPerturbation(), Allowance("mu", 1.0)
    assert learner.passes(task(Logistic(), 1e-6, 30.0), 50) == pytest.approx(3.72e6, rel=0.01)
    default = learner.pull(Task(loss=Logistic(), norm=1.0, regularization=None), 10**8, 1, one)
    assert default == pytest.approx(8e-8)
    assert learner.passes(task(Logistic(), default), 10**8) == pytest.approx(0.776e6, rel=0.01)
    learner.check_size(task(Logistic(), default), 10**8)


@given(losses, st.floats(1e-3, 1e3), st.integers(1, 2**53), st.floats(1e-6, 1e12))
def test_left_to_the_learner_no_fit_takes_too_many_passes(
    loss: Loss, norm: float, n: int, amount: float
) -> None:
    """So a gate whose stream has no end never comes to a fit that it would have to refuse."""
    learner, open_task = OutputPerturbation(), Task(loss=loss, norm=norm, regularization=None)
    pull = learner.pull(open_task, n, 5, Allowance("mu", amount))
    assert learner.passes(task(loss, pull, norm), n) <= MAX_PASSES
    learner.check_size(open_task, None)


@given(
    loss=losses,
    norm=st.floats(1e-2, 1e2),
    regularization=st.floats(1e-6, 10),
    n=st.integers(1, 10**9),
    d=st.integers(1, 10**4),
    away=st.floats(0, 1e3),
)
@example(loss=Logistic(), norm=1.0, regularization=0.1, n=50, d=1, away=0.0)
def test_no_fit_takes_more_passes_than_it_was_accepted_for(
    *, loss: Loss, norm: float, regularization: float, n: int, d: int, away: float
) -> None:
    """Whatever its features and its prior: by the tolerance that the fit itself uses."""
    learner, problem = OutputPerturbation(), task(loss, regularization, norm)
    prior = np.array([away])
    tolerance = learner.tolerance(problem, n, d, prior)
    bound = rounding_bound(
        loss,
        d=d,
        norm=norm,
        regularization=regularization,
        center_norm=away,
        tolerance=tolerance,
    )
    assume(tolerance >= 2.5 * bound)  # else the fit is refused
    fall = loss.lipschitz(norm) / (tolerance - bound)
    passes = accelerated_passes(condition_of(loss, norm, regularization), fall)
    assert passes <= learner.passes(problem, n)


@given(losses, st.floats(1e-3, 1e3), st.floats(1e-9, 10), st.integers(1, 2**53))
def test_without_a_limit_the_worst_number_of_slots_counts(
    loss: Loss, norm: float, regularization: float, n: int
) -> None:
    """Up to a round, in which the norm of the gradient halves."""
    learner, problem = OutputPerturbation(), task(loss, regularization, norm)
    one_round = accelerated_passes(condition_of(loss, norm, regularization), fall=2)
    assert learner.passes(problem, n) <= learner.passes(problem, None) + one_round


def test_what_float64_cannot_prove_is_refused_beforehand() -> None:
    with pytest.raises(InvalidValueError, match="regularization must be at least"):
        OutputPerturbation().check_size(task(Logistic(), 1e-9, 1e3), 10)


@given(losses, st.floats(0.1, 100), st.none() | st.integers(1, 10**9))
def test_a_lambda_too_small_is_refused_with_one_that_is_not(
    loss: Loss, norm: float, largest: int | None
) -> None:
    learner = OutputPerturbation()
    with pytest.raises(InvalidValueError, match="regularization must be at least") as refused:
        learner.check_size(task(loss, 1e-12 * norm**2, norm), largest)
    assert "more than 1,000,000 passes" in str(refused.value)
    least = float(str(refused.value).split()[5])
    learner.check_size(task(loss, least, norm), largest)
    with pytest.raises(InvalidValueError, match="regularization must be at least"):
        learner.check_size(task(loss, 0.8 * least, norm), largest)


def test_a_history_too_long_for_the_slack_gets_what_float64_can_prove() -> None:
    learner, problem = OutputPerturbation(), task(Softmax(10), 0.01)
    n = 10**11
    assert learner.tolerance(problem, n, d=784) > 1.1 * 2.0**-10 * math.sqrt(2) / n
    prior = np.full((784, 10), 10.0)
    assert learner.tolerance(problem, n, 784, prior) > learner.tolerance(problem, n, 784)


@pytest.mark.parametrize("slack", [0, 1, -1, math.nan, "x"])
def test_bad_slack(slack: float) -> None:
    with pytest.raises(InvalidValueError, match="slack must be a number above 0 and below 1"):
        OutputPerturbation(slack=slack)


def test_no_pull_no_bound() -> None:
    with pytest.raises(InvalidValueError, match="regularization must be above 0 for Output"):
        OutputPerturbation().check(task(Logistic(), 0.0), "mu")


def test_numbers_of_narrow_types_are_stored_as_floats() -> None:
    """NumPy would round the Lipschitz constant of a float16 norm below the true one."""
    narrow = Task(loss=Softmax(10), norm=np.float16(1), regularization=np.float32(0.5))  # type: ignore[arg-type]
    assert type(narrow.norm) is type(narrow.regularization) is float
    assert Fraction(narrow.loss.lipschitz(narrow.norm)) ** 2 >= 2
