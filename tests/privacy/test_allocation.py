from fractions import Fraction
from itertools import pairwise

import pytest

from tidegate.checks import InvalidValueError
from tidegate.privacy import ApproxDP, PureDP, Shares, Tapered
from tidegate.schedule import Continual, Growing, MultiResolution, SlidingWindow, fits
from tidegate.schedule.plan import Plan


def test_the_papers_split_keeps_the_noise_of_updates_the_same() -> None:
    """Noise ~ 1/(n s) for pure budgets, 1/(n sqrt s) for Gaussian ones, at every level."""
    schedule = Continual(block=8, step=1)
    updates = [fit for fit in fits(schedule, 400) if fit.role == "update"]
    pure = Shares(schedule=schedule, budget=PureDP(1.0))
    gaussian = Shares(schedule=schedule, budget=ApproxDP(1.0, 1e-6))
    assert len({pure.of(fit) * fit.span.size for fit in updates}) == 1
    assert len({gaussian.of(fit) * fit.span.size**2 for fit in updates}) == 1


@pytest.mark.parametrize("budget", [PureDP(1.0), ApproxDP(1.0, 1e-6)])
def test_tapered_lets_the_noise_fall(budget: PureDP | ApproxDP) -> None:
    schedule = MultiResolution(block=1)
    shares = Shares(schedule=schedule, budget=budget, allocation=Tapered())
    power = 1 if budget.unit == "epsilon" else 2
    noise = [1 / (shares.of(fit) * fit.span.size**power) for fit in schedule.due(1024)]
    assert noise == sorted(noise, reverse=True)
    assert noise[-1] < noise[0] / 16


def test_the_base_of_a_window_gets_a_third() -> None:
    schedule = SlidingWindow(window=100, step=1)
    shares = Shares(schedule=schedule, budget=PureDP(1.0), allocation=Tapered(Fraction(2, 3)))
    base, *levels = [shares.of(fit) for fit in schedule.due(100)]
    assert sum(levels) == base
    assert all(b / a == Fraction(2, 3) for b, a in pairwise(levels))


def test_a_reserve_is_left_over_by_the_worst_record() -> None:
    reserve = Fraction(1, 20)
    plan = Plan(schedule=SlidingWindow(window=7, step=1), budget=PureDP(1.0), reserve=reserve)
    ledger = plan.ledger()
    for _ in plan.charge(ledger, until=50):
        pass
    assert ledger.worst().share == plan.forever == 1 - reserve
    with pytest.raises(InvalidValueError, match="reserve must be a share from 0 to below 1, got 1"):
        Plan(schedule=SlidingWindow(window=7, step=1), budget=PureDP(1.0), reserve=Fraction(1))


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(1), Fraction(3, 2), 0.6, "x"])
def test_bad_rates(rate: object) -> None:
    with pytest.raises(InvalidValueError, match="rate must be a Fraction above 0 and below 1"):
        Tapered(rate)  # type: ignore[arg-type]


def test_a_rate_that_spends_faster_than_the_paper_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="rate must be above 1/2 and below 1 for this"):
        Tapered(Fraction(1, 2)).rate_for(PureDP(1.0))
    with pytest.raises(InvalidValueError, match="rate must be above 1/4 and below 1 for this"):
        Tapered(Fraction(1, 4)).rate_for(ApproxDP(1.0, 1e-6))
    assert Tapered(Fraction(1, 2)).rate_for(ApproxDP(1.0, 1e-6)) == Fraction(1, 2)


def test_a_growing_schedule_takes_no_allocation() -> None:
    growing = Growing(block=4, step=1)
    with pytest.raises(InvalidValueError, match="allocation must be left out for a Growing"):
        Plan(schedule=growing, budget=ApproxDP(1.0, 1e-6), allocation=Tapered())
