"""What must hold for plans that pay for surveys and scores, of every schedule and budget."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.brute import horizon, paid_by_all, tail
from tests.strategies import budgets, cumulative, schedules, sliding, steps, surveyed_plans
from tidegate.checks import InvalidValueError
from tidegate.privacy import Budget, LedgerError, PureDP
from tidegate.schedule import Growing, Independent, Schedule, SlidingWindow, Span, Stream, TwoStream
from tidegate.schedule.plan import Plan, TwoStreamPlan

untils = st.integers(1, 200)
shares = st.fractions(Fraction(1, 40), Fraction(2, 5), max_denominator=40)


def paid_with_surveys(plan: Plan, until: int) -> list[Fraction]:
    """What each record has paid: its fits, and the survey of its step if that is complete."""
    complete = plan.steps.count(plan.steps.complete(until))
    return [
        fits + (plan.survey if record < complete else 0)
        for record, fits in enumerate(paid_by_all(plan, until))
    ]


@given(surveyed_plans(), untils)
def test_no_record_pays_more_than_its_budget(plan: Plan, until: int) -> None:
    """Scores included: whatever the reserve is spent on, once for each record."""
    assert max(paid_with_surveys(plan, until)) <= plan.forever
    assert plan.forever + plan.reserve == 1


@given(surveyed_plans(), st.integers(4, 6))
def test_the_supremum_is_found_by_brute_force(plan: Plan, length: int) -> None:
    until = horizon(plan.schedule, length)
    left = (1 - plan.survey - plan.reserve) * tail(replace(plan, survey=Fraction(0)), until)
    if isinstance(plan.schedule, Growing):  # what is left differs from record to record
        assert max(paid_with_surveys(plan, until)) < plan.forever
    else:
        assert max(paid_with_surveys(plan, until)) + left == plan.forever


@pytest.mark.thorough
@given(surveyed_plans(), untils, st.sampled_from([0, 64]), st.data())
def test_ledger_and_plan_agree_with_brute_force(
    plan: Plan, until: int, crowd: int, data: st.DataObject
) -> None:
    """In portions as in one go; settled records are recalled with their surveys."""
    cuts = data.draw(st.lists(st.integers(0, until), max_size=4))
    whole, ledger = plan.ledger(crowd=crowd), plan.ledger(crowd=crowd)
    lines = list(plan.charge(whole, until))
    assert [line for cut in [*sorted(cuts), until] for line in plan.charge(ledger, cut)] == lines
    paid = paid_with_surveys(plan, until)
    for each in (ledger, whole):
        assert [each.paid(record) for record in range(until)] == paid
        assert each.worst().share == max(paid)
        assert each.surveyed == plan.steps.count(plan.steps.complete(until))
    at, record = data.draw(st.integers(1, until)), data.draw(st.integers(0, until - 1))
    early = paid_with_surveys(plan, at)
    assert plan.paid(record, at) == (early[record] if record < at else 0)


def interrupted(lines: Iterator[object], after: int) -> list[object]:
    """The first lines; the rest is never asked for."""
    return [line for line, _ in zip(lines, range(after), strict=False)]


@pytest.mark.thorough
@given(surveyed_plans(), untils, st.integers(0, 40))
def test_a_charge_that_is_interrupted_goes_on(plan: Plan, until: int, after: int) -> None:
    ledger = plan.ledger(crowd=0)
    interrupted(plan.charge(ledger, until), after)
    for _ in plan.charge(ledger, until):
        pass
    assert [ledger.paid(record) for record in range(until)] == paid_with_surveys(plan, until)


@st.composite
def two_stream_plans(draw: st.DrawFn) -> TwoStreamPlan:
    schedule = TwoStream(source=draw(sliding(12) | cumulative), step=draw(steps))
    return TwoStreamPlan(
        schedule=schedule, budget=draw(budgets), survey=draw(shares), reserve=draw(shares)
    )


@given(
    two_stream_plans(),
    st.lists(st.sampled_from(get_args(Stream)), max_size=80),
    st.sampled_from([0, 64]),
)
def test_records_of_two_streams_pay_in_their_own(
    plan: TwoStreamPlan, arrivals: list[Stream], crowd: int
) -> None:
    schedule, survey = plan.schedule, plan.survey
    ledgers = plan.ledgers(crowd=crowd)
    lines = list(plan.charge(ledgers, arrivals))
    assert lines == list(plan.lines(arrivals))
    for stream in get_args(Stream):
        count = schedule.steps[stream].count(arrivals.count(stream))
        assert plan.forever[stream] == 1 - plan.reserve
        for record in range(count):
            own = [line for line in lines if line.fit.stream == stream]
            paid = survey + sum((line.paid(record) for line in own), Fraction(0))
            assert ledgers.of(stream).paid(record) == paid <= 1 - plan.reserve
        assert ledgers.of(stream).paid(count) == 0


@given(schedules, budgets, shares)
def test_no_step_pays_for_two_surveys(schedule: Schedule, budget: Budget, survey: Fraction) -> None:
    """In order, whole steps, once: a restart that posts a survey again is refused."""
    plan = Plan(schedule=schedule, budget=budget, survey=survey)
    ledger, step = plan.ledger(), plan.steps.size
    ledger.take_survey(Span(0, step))
    wrong = [Span(0, step), Span(2 * step, 3 * step), Span(step, step), Span(0, 2 * step)]
    if step > 1:
        wrong.append(Span(step, 2 * step - 1))
    for span in wrong:
        with pytest.raises(LedgerError):
            ledger.take_survey(span)
    assert (ledger.paid(0), ledger.surveyed) == (survey, step)
    assert ledger.paid(step) == 0


BAD = [
    (1, 0),
    (-1, 0),
    (0, -1),
    (Fraction(1, 2), Fraction(1, 2)),
    (Fraction(1, 2), Fraction(-1, 2)),
]


@pytest.mark.parametrize(("survey", "reserve"), BAD)
def test_shares_that_leave_nothing_for_fits_or_are_negative_are_refused(
    survey: Fraction, reserve: Fraction
) -> None:
    """Neither may make up for the other: a negative reserve would let fits spend the survey's."""
    some = {"budget": PureDP(1.0), "survey": Fraction(survey), "reserve": Fraction(reserve)}
    with pytest.raises(InvalidValueError):
        Plan(schedule=Independent(step=2), **some)  # type: ignore[arg-type]
    schedule = TwoStream(source=SlidingWindow(window=4, step=2), step=2)
    with pytest.raises(InvalidValueError):
        TwoStreamPlan(schedule=schedule, **some)  # type: ignore[arg-type]
