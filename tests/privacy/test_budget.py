import math
from fractions import Fraction
from typing import Any

import pytest
from dp_accounting.pld import privacy_loss_mechanism
from hypothesis import given
from hypothesis import strategies as st

from tidegate.checks import InvalidValueError
from tidegate.privacy import ApproxDP, PureDP, gaussian_delta, gaussian_epsilon, gaussian_mu
from tidegate.privacy.budget import budget_of, down, sqrt_down, up

fractions = st.fractions(min_value=0, max_denominator=10**30).map(abs)
shares = st.fractions(Fraction(1, 10**12), 1, max_denominator=10**15)
epsilons = st.floats(1e-4, 50)
deltas = st.floats(1e-12, 0.5)


@given(fractions)
def test_down_and_up_enclose(value: Fraction) -> None:
    assert Fraction(down(value)) <= value <= Fraction(up(value))
    assert math.nextafter(down(value), math.inf) >= up(value)


@given(fractions)
def test_sqrt_down_is_the_largest_float_not_above_the_root(value: Fraction) -> None:
    root = sqrt_down(value)
    above = math.nextafter(root, math.inf)
    assert Fraction(root) ** 2 <= value < Fraction(above) ** 2


@given(st.floats(1e-150, 1e150))
def test_sqrt_down_of_squares_is_exact(root: float) -> None:
    assert sqrt_down(Fraction(root) ** 2) == root


@given(epsilons, deltas)
def test_mu_is_the_largest_float_within_delta(epsilon: float, delta: float) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assert gaussian_delta(epsilon, math.nextafter(mu, math.inf)) > delta


@given(st.floats(1e-3, 10), deltas)
def test_epsilon_is_the_smallest_float_within_delta(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    below = math.nextafter(epsilon, 0)
    assert below == 0 or gaussian_delta(below, mu) > delta


@given(epsilons, deltas)
def test_epsilon_comes_back_from_mu(epsilon: float, delta: float) -> None:
    assert gaussian_epsilon(gaussian_mu(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(("records", "epsilon"), [(1, 1.0), (5, 6.0), (10, 13.6), (20, 33.1)])
def test_the_epsilon_of_a_person_with_many_records(records: int, epsilon: float) -> None:
    """The numbers of docs/guarantee.md, rounded up: k records of one stream are k mu."""
    exact = gaussian_epsilon(records * ApproxDP(1.0, 1e-6).mu, 1e-6)
    assert math.ceil(10 * exact) / 10 == epsilon


@given(epsilons, st.floats(1e-2, 10))
def test_delta_agrees_with_dp_accounting(epsilon: float, mu: float) -> None:
    loss = privacy_loss_mechanism.GaussianPrivacyLoss(standard_deviation=1 / mu, sensitivity=1.0)
    theirs = loss.get_delta_for_epsilon(epsilon)
    assert gaussian_delta(epsilon, mu) == pytest.approx(theirs, rel=1e-6, abs=1e-14)


@given(epsilons, st.floats(1e-9, 0.4))
def test_mu_agrees_with_dp_accounting(epsilon: float, delta: float) -> None:
    theirs = privacy_loss_mechanism.GaussianPrivacyLoss.from_privacy_guarantee(
        privacy_loss_mechanism.common.DifferentialPrivacyParameters(epsilon, delta)
    )
    # Their search has a tolerance of its own, towards more noise.
    assert gaussian_mu(epsilon, delta) == pytest.approx(1 / theirs.standard_deviation, rel=1e-3)


@given(st.lists(shares, min_size=1, max_size=8))
def test_fits_whose_shares_add_up_stay_within_a_pure_budget(parts: list[Fraction]) -> None:
    budget, total = PureDP(0.7), sum(parts)
    spent = sum(Fraction(budget.of_share(part / total)) for part in parts)
    assert spent <= Fraction(0.7)
    assert float(spent) == pytest.approx(0.7, rel=1e-12)


@given(st.lists(shares, min_size=1, max_size=8))
def test_fits_whose_shares_add_up_stay_within_a_gaussian_budget(parts: list[Fraction]) -> None:
    budget, total = ApproxDP(1.0, 1e-6), sum(parts)
    spent = sum(Fraction(budget.of_share(part / total)) ** 2 for part in parts)
    assert spent <= Fraction(budget.mu) ** 2
    assert float(spent) == pytest.approx(budget.mu**2, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0, -1.0, math.nan, math.inf, -math.inf, "1", None, True])
def test_bad_epsilon(epsilon: object) -> None:
    with pytest.raises(InvalidValueError, match="epsilon must be a finite number above 0, got"):
        PureDP(epsilon)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="epsilon must be a finite number above 0, got"):
        ApproxDP(epsilon, 1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [0, 1, -0.1, 1.5, math.nan, math.inf, "x", None, False])
def test_bad_delta(delta: object) -> None:
    with pytest.raises(InvalidValueError, match="delta must be a number above 0 and below 1, got"):
        ApproxDP(1.0, delta)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [math.nextafter(1e-3, 1), 0.01, 0.5, 1 - 1e-9])
def test_a_large_delta_has_to_be_confirmed(delta: float) -> None:
    for confirmation in (False, None, 1, "yes"):
        with pytest.raises(InvalidValueError, match=r"delta must be at most 0.001, or confirmed"):
            ApproxDP(1.0, delta, weak_delta=confirmation)  # type: ignore[arg-type]
    assert ApproxDP(1.0, delta, weak_delta=True).mu == gaussian_mu(1.0, delta)
    assert budget_of(1.0, delta, weak_delta=True) == ApproxDP(1.0, delta, weak_delta=True)


def test_a_small_delta_needs_no_confirmation() -> None:
    assert ApproxDP(1.0, 1e-3) == ApproxDP(1.0, 1e-3, weak_delta=True)
    with pytest.raises(InvalidValueError, match="weak_delta must be left out where there is no"):
        budget_of(1.0, weak_delta=True)


def test_what_floats_cannot_hold_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="epsilon must be at least 1e-100, got 5e-324"):
        PureDP(5e-324)
    with pytest.raises(InvalidValueError, match="epsilon must be in reach of Gaussian noise"):
        ApproxDP(1e300, 1e-6)
    with pytest.raises(InvalidValueError, match="epsilon must be a finite number above 0"):
        PureDP(Fraction(1, 10**400))  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="epsilon must be a finite number above 0"):
        PureDP(10**400)


def test_a_delta_below_all_floats_is_rounded_up() -> None:
    assert gaussian_delta(1.0, 1e-10) == 5e-324


@pytest.mark.parametrize(("epsilon", "delta"), [(-1, 0.1), (1, 2), (1, 0), ("x", 0.1)])
def test_mu_refuses_invalid_budgets(epsilon: Any, delta: Any) -> None:
    with pytest.raises(InvalidValueError):
        gaussian_mu(epsilon, delta)


def test_budgets_are_values() -> None:
    assert PureDP(1) == PureDP(1.0)
    assert hash(ApproxDP(1.0, 1e-6)) == hash(ApproxDP(1.0, 1e-6))
    assert PureDP(2.0).delta == 0
