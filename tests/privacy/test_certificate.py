"""Known values of certificates, and the certificate of the target of two streams."""

from fractions import Fraction
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import allocations, budgets
from tidegate.privacy import ApproxDP, Budget, Ledger, Paper, PureDP, Tapered, certify
from tidegate.schedule import (
    Basic,
    Continual,
    Cumulative,
    Independent,
    MultiResolution,
    Schedule,
    SlidingWindow,
    Stream,
    TwoStream,
)
from tidegate.schedule.fit import Levels
from tidegate.schedule.plan import Plan, TwoStreamPlan

SLIDING = {
    2: ("1/3", "1/2"),
    4: ("2/3", "5/6"),
    5: ("1/2", "7/12"),
    7: ("7/12", "31/48"),
    8: ("3/4", "43/48"),
    9: ("5/6", "11/12"),
    15: ("5/8", "127/192"),
    17: ("5/6", "11/12"),
    30: ("11/12", "95/96"),
    36: ("13/12", "59/48"),
    189: ("13/16", "1151/1536"),
}
CONTINUAL = {8: ("11/8", "79/64"), 4: ("5/4", "19/16"), 2: ("1", "1"), 1: ("1", "1")}


def suprema(schedule: Schedule) -> tuple[Fraction, Fraction]:
    pure = certify(schedule, Levels(rate=Fraction(1, 2), power=1)).supremum
    gaussian = certify(schedule, Levels(rate=Fraction(1, 4), power=2)).supremum
    return pure, gaussian


@pytest.mark.parametrize("window", SLIDING)
def test_known_values_of_sliding_windows(window: int) -> None:
    expected = tuple(map(Fraction, SLIDING[window]))
    assert suprema(SlidingWindow(window=window, step=1)) == expected


@pytest.mark.parametrize("block", CONTINUAL)
def test_known_values_of_continual(block: int) -> None:
    expected = tuple(map(Fraction, CONTINUAL[block]))
    assert suprema(Continual(block=block, step=1)) == expected


@pytest.mark.parametrize(
    "schedule", [MultiResolution(block=4), Cumulative(block=4), Independent(step=4)]
)
def test_schedules_that_need_no_scaling(schedule: Schedule) -> None:
    assert suprema(schedule) == (Fraction(1), Fraction(1))


@pytest.mark.parametrize("block", [1, 2, 4, 8, 1024])
def test_basic_needs_no_scaling(block: int) -> None:
    assert suprema(Basic(block=block, step=1)) == (Fraction(1), Fraction(1))


@given(st.integers(1, 40))
def test_windows_of_a_power_of_two_less_one(exponent: int) -> None:
    window = 2 ** (exponent + 1) - 1
    pure, _ = suprema(SlidingWindow(window=window, step=1))
    assert pure == Fraction(2, 3) - Fraction(2, 3 * (window + 1))


def test_huge_windows_are_certified_quickly() -> None:
    plan = Plan(schedule=SlidingWindow(window=10**15, step=1), budget=PureDP(1.0))
    assert plan.forever == 1


@pytest.mark.parametrize("budget", [PureDP(1.0), ApproxDP(1.0, 1e-6)])
def test_running_two_schedules_on_the_same_records_costs_two(budget: Budget) -> None:
    """A joint ledger of Alg. 2 and Alg. 4, each with the whole budget, exceeds 1."""
    ledger = Ledger(limit=None)
    for schedule in (MultiResolution(block=8), Continual(block=8, step=1)):
        for line in Plan(schedule=schedule, budget=budget).lines(until=1024):
            ledger.charge(line.fit.span, line.share)
    assert ledger.worst().share > Fraction(3, 2)


arrivals = st.lists(st.sampled_from(["source", "target"]), max_size=80)
sources = st.sampled_from(
    [Cumulative(block=1), Cumulative(block=3), SlidingWindow(window=3, step=1)]
)


@given(st.data(), arrivals, sources, budgets, st.sampled_from([0, 64]))
def test_each_record_of_two_streams_stays_within_its_budget(
    data: st.DataObject,
    order: list[Stream],
    source: Cumulative | SlidingWindow,
    budget: Budget,
    crowd: int,
) -> None:
    plan = TwoStreamPlan(
        schedule=TwoStream(source=source, step=2),
        budget=budget,
        allocation=data.draw(allocations(budget)),
    )
    naive: dict[Stream | None, list[Fraction]] = {
        "source": [Fraction(0)] * 260,
        "target": [Fraction(0)] * 260,
    }
    ledgers = plan.ledgers(crowd=crowd)
    for fit, share in plan.charge(ledgers, order):
        paid = naive[fit.stream]
        for record in range(fit.span.start, fit.span.stop):
            paid[record] += share
            assert paid[record] <= 1
    streams: list[Stream] = ["source", "target"]
    for stream in streams:
        assert ledgers.of(stream).worst().share == max(naive[stream])
        assert [ledgers.of(stream).paid(record) for record in range(260)] == naive[stream]


@pytest.mark.parametrize("allocation", [Paper(), Tapered()])
def test_a_quiet_source_lets_the_target_spend_all(allocation: Paper | Tapered) -> None:
    plan = TwoStreamPlan(
        schedule=TwoStream(source=Cumulative(block=1), step=1),
        budget=PureDP(1.0),
        allocation=allocation,
    )
    ledgers = plan.ledgers()
    target: Stream = "target"
    order: list[Stream] = ["source", *repeat(target, 1024)]
    for _ in plan.charge(ledgers, order):
        pass
    rate = plan.target.levels.rate
    assert ledgers.target.worst().share == 1 - rate**11
    assert plan.target.forever == 1
