"""The certificate, the guarantee behind it and the sensitivity it buys."""

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import optimize, sparse

from tests.learn.problems import losses, objective, options_of, records, seeds, usable, value
from tidegate.checks import InvalidValueError
from tidegate.features import clip_rows
from tidegate.learn import Huber, HuberError, Logistic, Loss, Softmax, Squared, minimize
from tidegate.learn import solver as module
from tidegate.learn.minimum import _matrix, _norm
from tidegate.learn.objective import Bounds, Objective, Weights
from tidegate.learn.solver import (
    accelerated_passes,
    certified_minimum,
    condition_of,
    worst_case_passes,
)

regularizations = st.sampled_from([1e-6, 1e-3, 0.1, 10.0, 1e6])


class Counted(Objective):
    passes = 0

    def gradient(self, w: Weights, *, draft: bool = False) -> Weights:
        self.passes += 1
        return super().gradient(w, draft=draft)


@given(losses, st.tuples(st.integers(1, 12), st.integers(1, 4)), seeds, regularizations)
def test_certificate_holds_in_exact_arithmetic(
    loss: Loss, size: tuple[int, int], seed: int, lam: float
) -> None:
    n, d = size
    X, y = records(loss, n, d, seed)
    center = 30.0 * (seed % 2) * np.random.default_rng(seed).normal(size=loss.shape(d))
    mask = np.random.default_rng(seed).integers(2, size=n)
    tolerance = 1e-8 * max(1.0, lam)
    found = minimize(
        loss,
        X,
        y,
        regularization=lam,
        center=center,
        tolerance=tolerance,
        norm=1.0,
        weights=mask,
        **options_of(loss),
    )
    assert found.weights.shape == loss.shape(d)
    assert found.weights.dtype == np.float64
    exact = exact_gradient_norm(loss, (X, y, mask), lam, center, found.weights)
    assert exact <= found.gradient_norm <= tolerance


def exact_gradient_norm(
    loss: Loss, data: tuple[Any, Any, Any], lam: float, center: Any, w: Any
) -> Any:
    """The gradient by its definition, record by record, in 60 digits."""
    X, y, mask = data
    with mpmath.workdps(60):
        exact = np.vectorize(mpmath.mpf, otypes=[object])
        w, center = (exact(a.reshape(X.shape[1], -1)) for a in (w, center))
        total = 2 * mpmath.mpf(lam) * (w - center)
        for x, label, weight in zip(exact(X), y, mask, strict=True):
            pull = exact_residual(loss, list(x @ w), label)
            total = total + int(weight) * np.outer(x, pull) / X.shape[0]
        return mpmath.sqrt(sum(v * v for v in total.flat))


def exact_residual(loss: Loss, a: list[Any], label: int) -> list[Any]:
    sign = 2 * int(label) - 1
    if isinstance(loss, Logistic):
        return [-sign / (1 + mpmath.exp(sign * a[0]))]
    if isinstance(loss, Huber):
        h = mpmath.mpf(loss.h)
        return [-sign * min(max((1 + h - sign * a[0]) / (2 * h), 0), 1)]
    if isinstance(loss, HuberError):
        return [min(max(a[0] - mpmath.mpf(int(label)) / 2**24, -loss.h), loss.h)]
    top = [mpmath.exp(v) for v in a]
    return [v / sum(top) - (k == label) for k, v in enumerate(top)]


@given(losses, seeds, st.sampled_from([1e-3, 0.1]))
def test_agrees_with_scipy(loss: Loss, seed: int, lam: float) -> None:
    F = objective(loss, 40, 3, seed, regularization=lam)
    shape = F.center.shape
    peer = optimize.minimize(
        lambda w: value(F, w.reshape(shape)),
        np.zeros(F.center.size),
        jac=lambda w: F.gradient(w.reshape(shape)).reshape(-1),
        method="BFGS",
        options={"gtol": 1e-7},
    )
    distance = np.linalg.norm(certified_minimum(F, 1e-10).weights.reshape(-1) - peer.x)
    assert distance <= (1e-10 + np.linalg.norm(peer.jac)) / (2 * lam) + 1e-12


@pytest.mark.parametrize("rows", [np.asarray, lambda X: X.astype(np.float32), sparse.csr_array])
def test_every_storage_gives_the_same_model(rows: Any) -> None:
    X, y = records(Softmax(5), 300, 8, 0)
    X = X.astype(np.float32).astype(np.float64)
    first = minimize("softmax", X, y, regularization=0.01, tolerance=1e-10)
    other = minimize("softmax", rows(X), y, regularization=0.01, tolerance=1e-10)
    assert np.linalg.norm(first.weights - other.weights) <= 1e-10 / 0.01
    again = minimize("softmax", rows(X), y, regularization=0.01, tolerance=1e-10)
    np.testing.assert_array_equal(other.weights, again.weights)


def test_two_class_softmax_is_logistic() -> None:
    X, y = records(Logistic(), 50, 4, 1)
    two = minimize("softmax", X, y, regularization=0.1, tolerance=1e-11).weights
    # w1 = -w0 = v/2 makes the regulariser lambda/2 ||v||²
    one = minimize("logistic", X, y, regularization=0.05, tolerance=1e-11).weights
    np.testing.assert_allclose(two[:, 1] - two[:, 0], one, atol=1e-9)


def ill_conditioned(kind: type[Objective]) -> Any:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 6)) * 10.0 ** -np.arange(6)
    X /= np.linalg.norm(X, axis=1).max() * (1 + 1e-9)
    whole = usable(X, rng.integers(2, size=60))
    return kind(whole, Logistic(), regularization=2e-3, norm=1.0)


def test_accelerated_fallback_finishes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FAST_PASSES", 0)
    F = ill_conditioned(Counted)
    assert certified_minimum(F, 1e-11).gradient_norm <= 1e-11
    condition = condition_of(F.loss, F.norm, F.regularization)
    assert F.passes <= 2 + accelerated_passes(condition, fall=2 / 1e-11)


def test_plain_fallback_finishes_within_its_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FAST_PASSES", 0)
    monkeypatch.setattr(module, "_accelerated", lambda *_: None)
    for tolerance in (1e-3, 1e-11):
        F = ill_conditioned(Counted)
        assert certified_minimum(F, tolerance).gradient_norm <= tolerance
        assert F.passes <= worst_case_passes(F, tolerance)


def test_least_tolerance_is_reached_even_by_plain_descent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FAST_PASSES", 0)
    monkeypatch.setattr(module, "_accelerated", lambda *_: None)
    F = ill_conditioned(Counted)
    with pytest.raises(InvalidValueError, match="tolerance must be at least") as refused:
        certified_minimum(F, 1e-20)
    assert F.passes == 0  # refused before any record is read
    least = 1.01 * float(str(refused.value).split("at least ")[1].split()[0])
    assert certified_minimum(F, least).gradient_norm <= least


def test_broken_precondition_fails_closed() -> None:
    X, y = records(Logistic(), 1100, 2, 0)
    X[1] = np.nan
    with pytest.raises(RuntimeError, match="a record is not finite"):
        minimize(Logistic(), X, y, regularization=0.1, norm=1.0)


@given(losses, st.integers(1, 20), st.integers(1, 4), seeds, st.sampled_from([0.01, 1.0]))
def test_one_record_moves_the_minimiser_by_at_most_its_sensitivity(
    loss: Loss, n: int, d: int, seed: int, lam: float
) -> None:
    X, y = records(loss, n, d, seed)
    other, labels = records(loss, n, d, seed + 1)
    X2, y2, mask = X.copy(), y.copy(), np.ones(n)
    at = seed % n
    X2[at], y2[at], mask[at] = other[at], labels[at], seed % 3 > 0
    tau = 1e-9
    options: Any = {"regularization": lam, "tolerance": tau, "norm": 1.0, **options_of(loss)}
    fits = [
        minimize(loss, A, b, weights=m, **options).weights
        for A, b, m in ((X, y, None), (X2, y2, mask))
    ]
    moved = np.linalg.norm(fits[0] - fits[1])
    assert moved <= loss.lipschitz(1) / (lam * n) + tau / lam


@pytest.mark.parametrize("loss", [Logistic(), Huber(), Softmax(3), HuberError(h=0.25)])
def test_sensitivity_is_attained(loss: Loss) -> None:
    """Two records both badly wrong at the center, and all but opposite: each pulls with G."""
    n, lam, label = 1000, 0.1, 0
    center = np.zeros(loss.shape(2))
    center[0] = (0, 4e4, 0) if isinstance(loss, Softmax) else 4e4
    fits = []
    for side in (1, -1):
        X = np.zeros((n, 2))
        X[17] = (1e-3, side * (1 - 1e-6))
        options: Any = {"regularization": lam, "center": center, "norm": 1.0, "tolerance": 1e-6}
        fits.append(minimize(loss, X, np.full(n, label), **options, **options_of(loss)).weights)
    bound = loss.lipschitz(1) / (lam * n)
    assert 0.99 * bound < np.linalg.norm(fits[0] - fits[1]) <= bound + 1e-6 / lam


@given(st.integers(1, 2000), st.integers(1, 5), seeds, st.sampled_from([1e-6, 1.0, 1e6]))
@settings(max_examples=50)
def test_squared_is_its_closed_form(n: int, d: int, seed: int, lam: float) -> None:
    X, _ = records(Logistic(), n, d, seed)
    mask = np.random.default_rng(seed).integers(2, size=n)
    center = np.full(d, 0.5)
    loss = Squared(point=(0.25,) * d)
    found = minimize(
        loss, X, regularization=lam, center=center, weights=mask, tolerance=1e-6, norm=1.0
    )
    mean = np.where(mask[:, None], X, 0.25).mean(axis=0)
    np.testing.assert_allclose(found.weights, (mean + lam * center) / (1 + lam), atol=1e-13)
    residual = 2 * (found.weights - mean) + 2 * lam * (found.weights - center)
    assert np.linalg.norm(residual) <= 2 * found.gradient_norm
    with pytest.raises(InvalidValueError, match="tolerance"):
        minimize("squared", X, regularization=lam, tolerance=1e-30)


def test_squared_sensitivity_is_attained() -> None:
    X, Z = np.zeros((10, 2)), np.zeros((10, 2))
    X[3], Z[3] = (1, 0), (0, 1)
    a, b = (minimize("squared", A, regularization=0.5).weights for A in (X, Z))
    assert np.linalg.norm(a - b) == pytest.approx(Squared().sensitivity(2**0.5, 10, 0.5))


def test_no_usable_record_gives_the_center() -> None:
    X, y = records(Softmax(3), 5, 2, 0)
    center = np.arange(6.0).reshape(2, 3)
    found = minimize(
        Softmax(3), 0 * X, y, regularization=1, center=center, weights=np.zeros(5), norm=1.0
    )
    np.testing.assert_array_equal(found.weights, center)


def test_labels() -> None:
    X = np.eye(3)
    named = minimize("softmax", X, ["b", "a", "c"], regularization=1).weights
    coded = minimize(Softmax(3), X, [1, 0, 2], regularization=1).weights
    np.testing.assert_array_equal(named, coded)
    assert minimize("softmax", X, [1, 0, 2], regularization=1, classes=7).weights.shape == (3, 7)
    up, down = (minimize("huber", X, [s] * 3, regularization=1).weights for s in (1, -1))
    np.testing.assert_allclose(up, -down)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "hinge"}, "loss must be one of"),
        ({"X": np.zeros(3)}, "X must be a matrix"),
        ({"X": np.full((3, 2), np.inf)}, "X must be finite"),
        ({"X": np.full((3, 2), np.nan)}, "X must be finite"),
        ({"y": None}, "y must be given"),
        ({"y": [0, 1]}, "y must be of shape"),
        ({"y": [0, 1, 2]}, "classes must be two"),
        ({"y": [0, 1, 2], "classes": 2}, "y must be made of the classes alone"),
        ({"loss": Softmax(2), "y": [0, 1, -1]}, "y must be made of the classes alone"),
        ({"center": np.zeros(3)}, "center must be finite and of shape"),
        ({"weights": [0, 1, 2]}, "weights must be 3 numbers"),
        ({"regularization": 0}, "regularization must be"),
        ({"tolerance": 1e-18}, "tolerance must be at least"),
        ({"norm": -1.0}, "norm must be"),
    ],
)
def test_mistakes_are_refused(options: dict[str, Any], message: str) -> None:
    problem: dict[str, Any] = {"loss": "logistic", "X": np.eye(3)[:, :2], "y": [0, 1, 1]}
    with pytest.raises(InvalidValueError, match=message):
        minimize(**{"regularization": 0.1, **problem, **options})


@given(
    X=arrays(np.float64, (3, 4), elements=st.floats(-1e307, 1e307) | st.floats(-1e-307, 1e-307)),
    kind=st.sampled_from([np.asarray, sparse.csr_array]),
)
def test_the_norm_read_off_the_records_bounds_every_exact_norm(X: Any, kind: Any) -> None:
    bound = Fraction(_norm(_matrix(kind(X)), None))
    largest = max(sum((Fraction(x) ** 2 for x in row.tolist()), Fraction(0)) for row in X)
    assert largest <= bound**2
    if largest > Fraction(2) ** -2044:
        assert bound**2 <= largest * (1 + Fraction(2) ** -40)


def test_sparse_entries_of_one_place_count_as_their_sum() -> None:
    X = sparse.csr_array((np.array([3.0, 4.0]), np.array([0, 0]), np.array([0, 2])), (1, 1))
    assert 7 <= _norm(_matrix(X), None) < 7.001
    assert X.nnz == 2


@pytest.mark.parametrize("entry", [math.nan, math.inf, 1.7e308])
def test_a_norm_that_is_no_number_is_refused(entry: float) -> None:
    with pytest.raises(InvalidValueError, match="finite"):
        minimize("squared", np.full((2, 2), entry), regularization=1.0)


@given(
    seeds,
    st.sampled_from([Logistic(), Softmax(3), Huber(0.5), Huber(0.05)]),
    st.integers(0, 12),
    st.booleans(),
)
@settings(max_examples=60)
def test_the_fast_method_never_raises_however_ill_conditioned(
    seed: int, loss: Loss, exponent: int, with_prior: bool
) -> None:
    """Whether a fit fails would tell about the records: rounding must end in a hand-over."""
    rng = np.random.default_rng(seed)
    X = clip_rows(rng.normal(size=(60, 3)), 1.0)
    y = rng.integers(max(2, loss.outputs), size=60)
    center = rng.normal(size=loss.shape(3)) if with_prior else None
    F = Objective(usable(X, y), loss, regularization=10.0**-exponent, center=center, norm=1.0)
    tolerance = 1e-6
    public = {"norm": 1.0, "regularization": F.regularization, "tolerance": tolerance}
    size = 0.0 if center is None else float(np.linalg.norm(center)) * 1.001
    bound = Bounds(loss=loss, d=3, center_norm=size, **public).rounding_bound
    certificate = module._certificate(F, max(tolerance, 4 * bound))
    w, gradient = module._fast(F, certificate, F.center)
    assert np.isfinite(w).all()
    assert np.isfinite(gradient).all()


def test_an_arithmetic_error_hands_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(module, "_fast", broken)
    F = Objective(usable(np.eye(2), np.array([0, 1])), Logistic(), regularization=0.5, norm=1.0)
    assert module.certified_minimum(F, 1e-9).gradient_norm <= 1e-9


def test_a_minimum_does_not_depend_on_where_the_search_starts() -> None:
    rng = np.random.default_rng(3)
    X, y = clip_rows(rng.normal(size=(80, 3)), 1.0), rng.integers(3, size=80)
    options: dict[str, Any] = {"regularization": 0.01, "norm": 1.0, "tolerance": 1e-9}
    cold = minimize(Softmax(3), X, y, **options)
    for start in (cold.weights, rng.normal(size=(3, 3))):
        warm = minimize(Softmax(3), X, y, start=start, **options)
        assert warm.gradient_norm <= 1e-9
        assert np.linalg.norm(warm.weights - cold.weights) <= 1e-9 / 0.01  # tolerance / lambda
    with pytest.raises(InvalidValueError, match="start must be finite and of shape"):
        minimize(Softmax(3), X, y, start=np.zeros(3), **options)
