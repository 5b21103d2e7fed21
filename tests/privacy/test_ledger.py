import tracemalloc
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.checks import InvalidValueError
from tidegate.privacy import Allocation, Ledger, LedgerError, Line, Paper, PureDP, Tapered
from tidegate.schedule import (
    Continual,
    Independent,
    MultiResolution,
    RecordFit,
    Schedule,
    SlidingWindow,
    SlotWeight,
    Span,
)
from tidegate.schedule.plan import Plan

charges = st.tuples(
    st.integers(0, 30),
    st.integers(1, 30),
    st.fractions(Fraction(1, 100), 1, max_denominator=100),
)


@given(st.lists(charges, max_size=30))
def test_charges_add_up_record_by_record(parts: list[tuple[int, int, Fraction]]) -> None:
    ledger, naive = Ledger(limit=None), [Fraction(0)] * 61
    for start, size, share in parts:
        ledger.charge(Span(start, start + size), share)
        for record in range(start, start + size):
            naive[record] += share
    assert [ledger.paid(record) for record in range(61)] == naive
    assert ledger.worst().share == max(naive)
    assert ledger.worst().record == naive.index(max(naive))
    runs = [Fraction(0)] * 61
    for span, share in ledger.runs():
        runs[span.start : span.stop] = [share] * span.size
    assert runs == naive


@given(st.lists(charges, max_size=30))
def test_no_record_is_taken_above_its_budget(parts: list[tuple[int, int, Fraction]]) -> None:
    """A charge is made if every record can pay all of it; otherwise it is refused as a whole."""
    ledger, naive = Ledger(), [Fraction(0)] * 61
    for start, size, share in parts:
        affordable = max(naive[start : start + size]) + share <= 1
        if affordable:
            ledger.charge(Span(start, start + size), share)
            naive[start : start + size] = [paid + share for paid in naive[start : start + size]]
        else:
            with pytest.raises(LedgerError, match="of its budget: nothing was charged"):
                ledger.charge(Span(start, start + size), share)
        assert [ledger.paid(record) for record in range(61)] == naive


def test_a_line_is_refused_whole() -> None:
    """Even if only its last span is too much, here because two spans overlap."""
    ledger = Ledger()
    ledger.post(line(0, Span(4, 6), Fraction(1, 8)))
    parts = (SlotWeight(Span(0, 4), Fraction(1, 2)), SlotWeight(Span(3, 6), Fraction(1)))
    fit = RecordFit(1, 6, Span(0, 6), None, "base", 0, slot_weights=parts)
    before = list(ledger.runs())
    with pytest.raises(LedgerError, match="would take record 3 to 17/16 of its budget"):
        ledger.post(Line(fit, Fraction(17, 20)))
    assert (list(ledger.runs()), ledger.posted, ledger.last) == (before, 1, 0)


def test_settled_records_keep_their_budget_too() -> None:
    ledger = settled_ledger()
    with pytest.raises(LedgerError, match="would take record 9 to 39/35 of its budget"):
        ledger.post(line(11, Span(0, 12), Fraction(3, 14)))
    assert ledger.worst() == (9, Fraction(9, 10))
    assert ledger.paid(10) == Fraction(1, 100)


def settled_ledger() -> Ledger:
    """Ten records that have paid 0/10, 1/10, ... and are settled."""
    ledger = Ledger(recall=lambda record, _: Fraction(record, 10), crowd=0)
    for record in range(1, 10):
        ledger.post(line(record, Span(record, record + 1), Fraction(record, 10)))
    ledger.post(line(10, Span(10, 11), Fraction(1, 100)))
    ledger.settle(10)
    return ledger


def line(number: int, span: Span, share: Fraction) -> Line:
    return Line(RecordFit(number, span.stop, span, None, "base", 0), share)


def test_settled_records_are_charged_together() -> None:
    ledger = settled_ledger()
    ledger.post(line(11, Span(0, 12), Fraction(1, 14)))
    assert ledger.worst() == (9, Fraction(9, 10) + Fraction(1, 14))
    assert ledger.paid(10) == Fraction(1, 100) + Fraction(1, 14)


@pytest.mark.parametrize("span", [Span(0, 5), Span(5, 12), Span(9, 10)])
def test_settled_records_cannot_be_charged_in_part(span: Span) -> None:
    ledger = settled_ledger()
    before = ledger.worst(), len(ledger), ledger.posted
    with pytest.raises(LedgerError, match="records before 10 are settled"):
        ledger.post(line(11, span, Fraction(1, 3)))
    assert (ledger.worst(), len(ledger), ledger.posted) == before


def test_a_settled_record_is_recalled() -> None:
    assert settled_ledger().paid(3) == Fraction(3, 10)


def test_a_fit_is_posted_once_and_in_order() -> None:
    ledger = settled_ledger()
    with pytest.raises(LedgerError, match="fit 10 is posted already"):
        ledger.post(line(10, Span(10, 11), Fraction(1, 100)))


def test_a_plans_ledger_takes_only_lines() -> None:
    plan = Plan(schedule=Independent(step=1), budget=PureDP(1.0))
    with pytest.raises(LedgerError, match="belongs to a plan"):
        plan.ledger().charge(Span(0, 1), Fraction(1, 2))
    with pytest.raises(LedgerError, match="only a ledger that belongs to a plan can settle"):
        Ledger().settle(5)


def test_charging_goes_on_where_it_stopped() -> None:
    plan = Plan(schedule=SlidingWindow(window=7, step=1), budget=PureDP(1.0))
    ledger = plan.ledger()
    posted = [line.fit.number for line in islice(plan.charge(ledger, 50), 5)]
    posted += [line.fit.number for until in (20, 21, 50) for line in plan.charge(ledger, until)]
    assert posted == [line.fit.number for line in plan.lines(50)]
    assert ledger.worst().share == 1


@pytest.mark.parametrize("record", [-1, 1.5, "x", None])
def test_invalid_record_numbers_are_refused(record: Any) -> None:
    plan = Plan(schedule=MultiResolution(block=1), budget=PureDP(1.0))
    with pytest.raises(InvalidValueError, match="record must be a whole number from 0"):
        plan.paid(record, at=100)
    with pytest.raises(InvalidValueError, match="record must be a whole number from 0"):
        plan.ledger().paid(record)


def test_numpy_integers_are_records_too() -> None:
    plan = Plan(schedule=SlidingWindow(window=7, step=1), budget=PureDP(1.0))
    record: Any = np.int64(6)
    assert plan.paid(record, at=1000) == plan.paid(6, at=1000) == 1
    assert record in Span(3, 7)


def test_a_wide_window_is_answered_quickly() -> None:
    window = 2**40 + 12345
    plan = Plan(schedule=SlidingWindow(window=window, step=1), budget=PureDP(1.0))
    assert 0 < plan.paid(5 * window, at=10 * window) <= 1


@pytest.mark.parametrize(
    ("span", "share"), [((3, 3), 1), ((4, 3), 1), ((-1, 3), 1), ((0, 3), 0), ((0, 3), -1)]
)
def test_invalid_charges_are_refused(span: tuple[int, int], share: int) -> None:
    ledger = Ledger()
    with pytest.raises(LedgerError):
        ledger.charge(Span(*span), Fraction(share))
    assert len(ledger) == 0


@pytest.mark.parametrize("allocation", [Paper(), Tapered()])
@pytest.mark.parametrize(
    ("schedule", "most"),
    [
        (SlidingWindow(window=21, step=1), 130),
        (Continual(block=8, step=1), 130),
        (MultiResolution(block=1), 130),
    ],
)
def test_the_ledger_stays_small(schedule: Schedule, most: int, allocation: Allocation) -> None:
    """It merges runs at 64, later at twice what was left: the schedule decides its size."""
    plan = Plan(schedule=schedule, budget=PureDP(1.0), allocation=allocation)
    ledger = plan.ledger()
    assert max(len(ledger) for _ in plan.charge(ledger, until=20_000)) <= most


@pytest.mark.thorough
def test_planning_holds_no_records() -> None:
    """Ten times the records take the same memory."""

    def peak(until: int) -> int:
        plan = Plan(schedule=SlidingWindow(window=7000, step=1000), budget=PureDP(1.0))
        ledger = plan.ledger()
        tracemalloc.start()
        for _ in plan.charge(ledger, until):
            pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(10_000_000) < 2 * peak(1_000_000) + 50_000
