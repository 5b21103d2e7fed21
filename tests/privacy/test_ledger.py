import tracemalloc
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.plan import Plan
from tidegate.privacy import Allocation, Ledger, LedgerError, Paper, PureDP, Tapered
from tidegate.privacy.allocation import OneStream
from tidegate.schedule import Continual, MultiResolution, SlidingWindow, Span

charges = st.tuples(
    st.integers(0, 30),
    st.integers(1, 30),
    st.fractions(Fraction(1, 100), 1, max_denominator=100),
)


@given(st.lists(charges, max_size=30))
def test_charges_add_up_record_by_record(parts: list[tuple[int, int, Fraction]]) -> None:
    ledger, naive = Ledger(), [Fraction(0)] * 61
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


def settled_ledger() -> Ledger:
    """Ten records that have paid 1/10, 2/10, ... and are settled."""
    ledger = Ledger()
    for record in range(10):
        ledger.charge(Span(record, record + 1), Fraction(record + 1, 10))
    for record in range(10, 200, 2):  # enough edges that settling is worth it
        ledger.charge(Span(record, record + 1), Fraction(1, 100))
    ledger.settle(10)
    return ledger


def test_settled_records_are_charged_together() -> None:
    ledger = settled_ledger()
    ledger.charge(Span(0, 12), Fraction(1, 7))
    assert ledger.worst() == (9, 1 + Fraction(1, 7))
    assert ledger.paid(10) == Fraction(1, 100) + Fraction(1, 7)


@pytest.mark.parametrize("span", [Span(0, 5), Span(5, 12), Span(9, 10)])
def test_settled_records_cannot_be_charged_in_part(span: Span) -> None:
    ledger = settled_ledger()
    before = ledger.worst(), len(ledger)
    with pytest.raises(LedgerError, match="records before 10 are settled"):
        ledger.charge(span, Fraction(1, 3))
    assert (ledger.worst(), len(ledger)) == before


def test_a_settled_record_needs_the_plan() -> None:
    with pytest.raises(LookupError, match="record 3 is settled"):
        settled_ledger().paid(3)


@pytest.mark.parametrize(
    ("span", "share"), [((3, 3), 1), ((4, 3), 1), ((-1, 3), 1), ((0, 3), 0), ((0, 3), -1)]
)
def test_charges_that_make_no_sense_are_refused(span: tuple[int, int], share: int) -> None:
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
def test_the_ledger_stays_small(schedule: OneStream, most: int, allocation: Allocation) -> None:
    """It tidies at 64 edges, later at twice what was left: the schedule's shape sets the size."""
    plan = Plan(schedule=schedule, budget=PureDP(1.0), allocation=allocation)
    ledger = plan.ledger()
    assert max(len(ledger) for _ in plan.charge(ledger, until=20_000)) <= most


def test_planning_holds_no_records() -> None:
    """Ten times the records, the same memory."""

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
