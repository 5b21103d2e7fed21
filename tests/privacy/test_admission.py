"""What persons cost, and in which steps they are admitted, compared with sums over all fits."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.laws.brute import person_cost
from tests.strategies import STRATEGIES, fadings, growing, refits, sliding, surveyed_plans
from tidegate.checks import InvalidValueError
from tidegate.privacy import ApproxDP, LedgerError, PureDP
from tidegate.privacy.admission import Admission, Histories
from tidegate.privacy.compact import NO, NOBODY, UNKNOWN, UNSURE, YES
from tidegate.privacy.person import Person
from tidegate.privacy.rises import Count
from tidegate.schedule import (
    Basic,
    Continual,
    Cumulative,
    Fading,
    Growing,
    Independent,
    MultiResolution,
    Schedule,
    SlidingWindow,
    TwoStream,
)
from tidegate.schedule.plan import Plan, TwoStreamPlan

EXACT = (Fading, Growing, Independent, SlidingWindow)

Steps = list[int]
visits: st.SearchStrategy[Steps] = st.one_of(
    st.lists(st.integers(0, 40), max_size=12, unique=True).map(sorted),
    st.builds(
        lambda start, size, every: list(range(start, start + size * every, every)),
        st.integers(0, 25),
        st.integers(1, 25),
        st.sampled_from([1, 1, 2, 5]),
    ).map(lambda steps: [step for step in steps if step < 55]),
)
ks = st.integers(1, 6)
periods = st.none() | st.integers(1, 12)


def ranges_of(steps: Iterable[int]) -> list[tuple[int, int]]:
    """Maximal ranges of ascending steps."""
    runs = groupby(enumerate(sorted(steps)), key=lambda pair: pair[1] - pair[0])
    grouped = ([step for _, step in run] for _, run in runs)
    return [(run[0], run[-1] + 1) for run in grouped]


def unsampled(schedule: Any) -> Schedule:
    made: Schedule = (
        schedule if getattr(schedule, "sample", None) is None else replace(schedule, sample=None)
    )
    return made


def protecting(plan: Plan, k: int, period: int | None = None) -> Plan:
    """The plan for persons."""
    budget = replace(plan.budget, contributions=k)
    person = Person(contributions=k, period=period)
    return replace(plan, schedule=unsampled(plan.schedule), budget=budget, person=person)


def admission_of(plan: Plan | TwoStreamPlan) -> Admission:
    assert plan.admission is not None
    return plan.admission


windows = fadings() | refits | sliding(max_steps=20)


@st.composite
def person_plans(
    draw: st.DrawFn, schedule: st.SearchStrategy[Any] | None = None, period: Any = periods
) -> Plan:
    drawn = st.one_of(windows, growing, *STRATEGIES.values()) if schedule is None else schedule
    plan = draw(surveyed_plans(drawn))
    if draw(st.booleans()):
        plan = replace(plan, survey=Fraction(0), reserve=Fraction(0))
    return protecting(plan, draw(ks), draw(period))


def until_read(plan: Plan, steps: Sequence[int]) -> int:
    """When no later fit reads any of the steps, for schedules that look back."""
    assert plan.schedule.look_back is not None
    return max(max(steps, default=0) + 1, plan.schedule.first) + plan.schedule.look_back


@given(person_plans(windows), visits)
def test_cost_is_the_sum_over_all_fits(plan: Plan, steps: Steps) -> None:
    naive = person_cost(plan, steps, until_read(plan, steps))
    assert admission_of(plan).cost(ranges_of(steps)) == naive


@given(person_plans(st.builds(Independent, step=st.integers(1, 5))), visits)
def test_independent_steps_cost_one_each(plan: Plan, steps: Steps) -> None:
    naive = person_cost(plan, steps, until_read(plan, steps))
    assert admission_of(plan).cost(ranges_of(steps)) == naive == len(steps)


@given(person_plans(growing), visits)
def test_cost_of_growing_is_the_limit_of_its_sums(plan: Plan, steps: Steps) -> None:
    """After base K the newest block b still pays (s_b / s_(K+1))^p in all bases to come."""
    schedule = plan.schedule
    assert isinstance(schedule, Growing)
    times = schedule.times(until=60)
    naive = person_cost(plan, steps, times[-1])
    left = Fraction(0)
    if steps:
        block = next(number for number, time in enumerate(times) if steps[-1] < time)
        weight = schedule.mark(block) / schedule.mark(len(times))
        left = plan.shares.forever * weight**plan.budget.power
    assert admission_of(plan).cost(ranges_of(steps)) == naive + left


@given(person_plans(), visits)
def test_cost_is_never_below_the_sum_over_fits(plan: Plan, steps: Steps) -> None:
    cost = admission_of(plan).cost(ranges_of(steps))
    assert person_cost(plan, steps, 64) <= cost <= len(steps)
    if not isinstance(plan.schedule, EXACT):
        assert cost == len(steps)


@given(person_plans(), visits, visits)
def test_cost_is_monotone_and_subadditive(plan: Plan, one: Steps, two: Steps) -> None:
    cost = admission_of(plan).cost
    both = cost(ranges_of({*one, *two}))
    assert max(cost(ranges_of(one)), cost(ranges_of(two))) <= both
    assert both <= cost(ranges_of(one)) + cost(ranges_of(two))


def naive_admits(plan: Plan, steps: Sequence[int], step: int) -> bool:
    """By the sum over all fits, where no closed form of the limit is needed."""
    assert plan.person is not None
    start = 0 if plan.person.period is None else step - plan.person.period + 1
    counted = [each for each in (*steps, step) if each >= start]
    return person_cost(plan, counted, until_read(plan, counted)) <= plan.person.contributions


@settings(max_examples=40)
@given(person_plans(windows), visits)
def test_admission_follows_the_naive_sums(plan: Plan, comes: Steps) -> None:
    admission, admitted = admission_of(plan), list[int]()
    for step in comes:
        decision = admission.admits(ranges_of(admitted), step)
        assert decision == naive_admits(plan, admitted, step)
        admitted += [step] * decision
    assert not admission.over(Histories.of([ranges_of(admitted)])).any()


@given(person_plans(), st.lists(visits, max_size=20), st.integers(56, 99))
def test_many_persons_are_decided_as_each_is(plan: Plan, crowd: list[Steps], step: int) -> None:
    admission, histories = admission_of(plan), [ranges_of(steps) for steps in crowd]
    decided = admission.decide(Histories.of(histories), step)
    assert decided.tolist() == [admission.admits(ranges, step) for ranges in histories]


def is_over(plan: Plan, steps: Steps) -> bool:
    """Whether any period, or life, costs too much."""
    assert plan.person is not None
    cost, k, period = admission_of(plan).cost, plan.person.contributions, plan.person.period
    if period is None:
        return cost(ranges_of(steps)) > k
    spans = [[each for each in steps if start <= each < start + period] for start in range(60)]
    return any(cost(ranges_of(span)) > k for span in spans)


@given(person_plans(), st.lists(visits, max_size=6))
def test_the_cap_finds_everybody_above_it(plan: Plan, crowd: list[Steps]) -> None:
    admission, histories = admission_of(plan), Histories.of([ranges_of(each) for each in crowd])
    over = admission.over(histories)
    with patch("tidegate.privacy.admission.ROWS", 2):  # as if they had many steps
        assert over.tolist() == admission.over(histories).tolist()
    assert over.tolist() == [is_over(plan, steps) for steps in crowd]
    if over.any():
        with pytest.raises(LedgerError, match="a person would pay more than"):
            admission.check(histories)
    else:
        admission.check(histories)


@given(person_plans(), visits, st.booleans())
def test_compact_states_never_contradict_the_exact_decision(
    plan: Plan, comes: Steps, renewed: bool
) -> None:
    """And their bounds hold: on the cost for life, from above on the cost within a period."""
    admission = admission_of(plan)
    compact, states, admitted = admission.compact, np.array([NOBODY], np.uint64), list[int]()
    for step in comes:
        decision = compact.decide(states, step)[0]
        exact = admission.admits(ranges_of(admitted), step)
        assert decision == UNSURE or (decision == YES) == exact
        if exact:
            admitted.append(step)
            states = compact.after(states, step)
        start = 0 if admission.period is None else step - admission.period + 1
        counted = [each for each in admitted if each >= start]
        if renewed and decision == UNSURE and counted:
            cost = admission.cost(ranges_of(counted))
            states = np.array([compact.of(counted[-1], cost)], np.uint64)
        if counted:
            low, high = bounds_of(states, compact.scale)
            assert admission.cost(ranges_of(counted)) <= high or high > admission.contributions
            assert admission.period is not None or low <= admission.cost(ranges_of(counted))
            assert compact.over(states).tolist() == [high > admission.contributions]


@given(person_plans(), visits)
def test_whoever_is_above_the_contributions_shows_it(plan: Plan, comes: Steps) -> None:
    """Also where a mistake admits everybody to every step: the cap at run time rests on this."""
    admission, states, admitted = admission_of(plan), np.array([NOBODY], np.uint64), list[int]()
    for step in comes:
        within = admission.admits(ranges_of(admitted), step)
        admitted.append(step)
        states = admission.compact.after(states, step)
        assert within or admission.compact.over(states).all()


def bounds_of(states: Any, scale: int) -> tuple[Fraction, Fraction]:
    """The bounds on a cost that a state has, by the layout of its bits."""
    state = int(states[0])
    assert state != UNKNOWN
    low, error = state >> 8 & 2**24 - 1, state & 2**8 - 1
    return Fraction(low, scale), Fraction(low + error, scale)


def test_nobody_is_nobody_in_the_first_period_too() -> None:
    plan = protecting(Plan(schedule=Fading(step=1, memory=7), budget=PureDP(1.0)), 2, period=9)
    compact = admission_of(plan).compact
    low, high = bounds_of([compact.first(0)], compact.scale)
    assert low == high == 1


@given(person_plans(period=st.none()), visits)
def test_a_fresh_state_is_unsure_only_next_to_the_limit(plan: Plan, steps: Steps) -> None:
    admission, compact, ranges = admission_of(plan), admission_of(plan).compact, ranges_of(steps)
    assume(admission.cost(ranges) <= admission.contributions)
    state = compact.of(steps[-1], admission.cost(ranges)) if steps else NOBODY
    decision = compact.decide(np.array([state], np.uint64), 60)[0]
    cost = admission.cost([*ranges, (60, 61)])
    if abs(cost - admission.contributions) > Fraction(2, compact.scale):
        assert decision == (YES if cost <= admission.contributions else NO)


def test_separate_steps_are_decided_by_states_alone() -> None:
    """k steps that no two fits share cost exactly k, which no rounding may blur."""
    plan = Plan(
        schedule=Fading(step=1, forget=Fraction(1, 5), memory=8),
        budget=ApproxDP(1.0, 1e-6, contributions=4),
        survey=Fraction(1, 20),
        person=Person(contributions=4),
    )
    compact, states = admission_of(plan).compact, np.array([NOBODY], np.uint64)
    for visit in range(4):
        assert compact.decide(states, 8 * visit).tolist() == [YES]
        states = compact.after(states, 8 * visit)
    assert compact.decide(states, 100).tolist() == [NO]


def test_states_that_cannot_tell_say_so() -> None:
    schedule = Fading(step=1, forget=Fraction(1, 5), memory=20)
    compact = admission_of(protecting(Plan(schedule=schedule, budget=PureDP(1.0)), 4)).compact
    unknown = np.array([UNKNOWN], np.uint64)
    assert compact.decide(unknown, 3).tolist() == [UNSURE]
    assert compact.after(unknown, 3).tolist() == [UNKNOWN]
    assert compact.over(unknown).all()
    late = 2**32 - 2
    nobody = np.array([NOBODY], np.uint64)
    assert compact.decide(nobody, late).tolist() == [UNSURE]
    assert compact.after(nobody, late).tolist() == [UNKNOWN]
    almost = compact.after(nobody, late - 1)
    assert int(almost[0]) >> 32 == late
    assert compact.first(late - 1) == int(almost[0])
    tired = nobody
    for step in range(300):  # more errors than a state can count
        tired = compact.after(tired, step)
    assert tired.tolist() == [UNKNOWN]


def test_the_documented_stay_at_every_step() -> None:
    """At q = 4/5 and a Gaussian budget: 1 + floor((k - 1) / 0.364) steps."""
    for k in range(1, 9):
        plan = protecting(
            Plan(
                schedule=Fading(step=1, forget=Fraction(1, 5), memory=20),
                budget=ApproxDP(1.0, 1e-6),
            ),
            k,
        )
        admission, stay = admission_of(plan), 0
        while admission.admits(ranges_of(range(stay)), stay):
            stay += 1
        q = Fraction(16, 25)
        assert stay == 1 + int((k - 1) / ((1 - q) / (1 - q**20)))


def test_two_streams_share_one_count() -> None:
    schedule = TwoStream(source=Cumulative(block=4), step=2)
    plan = TwoStreamPlan(
        schedule=schedule,
        budget=PureDP(1.0, contributions=3),
        person=Person(contributions=3),
        survey=Fraction(1, 20),
    )
    admission = admission_of(plan)
    source, target = [(3, 5)], [(0, 1)]
    assert admission.admits(source, 0)
    assert not admission.admits([*source, *target], 1)
    assert admission.decide(Histories.of([[*source, *target], source]), 1).tolist() == [False, True]
    assert admission.needed(now=99) == 0
    assert admission.over(Histories.of([[*source, *target], [(0, 4)]])).tolist() == [False, True]


@pytest.mark.parametrize(
    "source", [Cumulative(block=2), SlidingWindow(window=6, step=2)], ids=["cumulative", "sliding"]
)
@settings(max_examples=30)
@given(st.lists(st.sampled_from(["source", "target"]), max_size=40), st.data())
def test_two_streams_cost_no_more_than_their_steps(
    source: Schedule, arrivals: list[Any], data: st.DataObject
) -> None:
    """For any order of arrivals, the fits of both streams cost a person at most |T|."""
    plan = TwoStreamPlan(schedule=TwoStream(source=source, step=3), budget=PureDP(1.0))
    admitted = {
        stream: data.draw(st.sets(st.integers(0, 20), max_size=4))
        for stream in ("source", "target")
    }
    cost = Fraction(0)
    for fit, share in plan.lines(arrivals):
        steps = plan.schedule.steps[str(fit.stream)]
        starts = [steps.count(step) for step in admitted[str(fit.stream)]]
        cost += share if any(start in fit.span for start in starts) else 0
    assert cost <= sum(map(len, admitted.values()))


def test_needed_steps_are_those_of_the_period_and_of_fits() -> None:
    def needed(schedule: Schedule, period: int | None) -> list[int]:
        plan = Plan(schedule=schedule, budget=PureDP(1.0))
        admission = admission_of(protecting(plan, 2, period))
        return [admission.needed(now) for now in (0, 5, 50)]

    fading = Fading(step=1, forget=Fraction(1, 2), memory=4)
    assert needed(fading, 10) == [0, 0, 41]
    assert needed(fading, 2) == [0, 2, 47]  # a fit after 50 steps reads 47 to 50
    assert needed(fading, None) == [0, 0, 0]
    assert needed(Growing(block=2, step=1), 10) == [0, 0, 0]
    assert needed(Continual(block=2, step=1), 10) == [0, 0, 0]


@given(person_plans(windows, period=st.integers(1, 12)), visits, st.integers(0, 30))
def test_steps_that_are_not_needed_decide_nothing(plan: Plan, steps: Steps, later: int) -> None:
    admission, step = admission_of(plan), (steps[-1] if steps else 0) + 1 + later
    kept = [each for each in steps if each >= admission.needed(step)]
    assert admission.admits(ranges_of(kept), step) == admission.admits(ranges_of(steps), step)


def test_records_are_protected_without_a_person() -> None:
    assert Plan(schedule=Independent(step=1), budget=PureDP(1.0)).admission is None
    two = TwoStreamPlan(schedule=TwoStream(source=Cumulative(block=4), step=2), budget=PureDP(1.0))
    assert two.admission is None


def refused(make: Any) -> str:
    with pytest.raises(InvalidValueError) as caught:
        make()
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_nonsense_is_refused_in_one_line() -> None:
    fading, two = Fading(step=1), PureDP(1.0, contributions=2)
    person = Person(contributions=2)
    sampled = Continual(block=2, step=1, sample=5)
    assert "those of the budget (1), got 2" in refused(
        lambda: Plan(schedule=fading, budget=PureDP(1.0), person=person)
    )
    assert "sample must be left out" in refused(
        lambda: Plan(schedule=sampled, budget=two, person=person)
    )
    for schedule in (Cumulative(block=2, sample=3), SlidingWindow(window=4, step=2, sample=3)):
        both = TwoStream(source=schedule, step=1)
        assert "sample must be left out" in refused(
            lambda both=both: TwoStreamPlan(schedule=both, budget=two, person=person)
        )
    assert "period must be left out with two streams" in refused(
        lambda: TwoStreamPlan(
            schedule=TwoStream(source=Cumulative(block=2), step=1),
            budget=two,
            person=replace(person, period=5),
        )
    )
    assert "contributions must be a whole number" in refused(lambda: Person(contributions=0))
    assert "period must be a whole number" in refused(lambda: Person(contributions=1, period=0))
    for typical in (
        Fraction(1, 2),
        0,
        "x",
        "1e999999999",
        float("nan"),
        True,
        Fraction(2001, 1001),
    ):
        assert "typical must be a number" in refused(
            lambda typical=typical: Person(contributions=1, typical=typical)
        )


@pytest.mark.parametrize(
    "schedule",
    [
        Continual(block=2, step=1),
        Basic(block=2, step=1),
        MultiResolution(block=1),
        Independent(step=1),
        Cumulative(block=1),
    ],
    ids=lambda schedule: schedule.kind,
)
def test_other_schedules_count_steps(schedule: Schedule) -> None:
    plan = replace(
        Plan(schedule=schedule, budget=PureDP(1.0, contributions=3), survey=Fraction(1, 5)),
        person=Person(contributions=3),
    )
    admission = admission_of(plan)
    assert isinstance(admission.rises, Count)
    assert admission.cost([(0, 2), (7, 8)]) == 3
    assert admission.admits([(0, 2)], 7)
    assert not admission.admits([(0, 2), (7, 8)], 9)


@pytest.mark.parametrize("ranges", [[(3, 3)], [(3, 5), (4, 6)], [(5, 6), (1, 2)], [(-1, 1)]])
def test_steps_out_of_order_are_refused(ranges: list[tuple[int, int]]) -> None:
    admission = Admission(rises=Count(), contributions=9)
    with pytest.raises(LedgerError, match="not in order"):
        admission.cost(ranges)
    with pytest.raises(LedgerError, match="not in order"):
        admission.decide(Histories.of([ranges]), 99)


@pytest.mark.parametrize("ranges", [[(3, 6)], [(1, 2), (5, 6)]])
def test_a_step_before_an_admitted_one_is_refused(ranges: list[tuple[int, int]]) -> None:
    admission = Admission(rises=Count(), contributions=9)
    with pytest.raises(LedgerError, match="a person was admitted after step 4"):
        admission.decide(Histories.of([ranges]), 4)
    with pytest.raises(LedgerError, match="a person was admitted after step 4"):
        admission.admits(ranges, 4)


@given(person_plans(), visits)
def test_a_step_that_was_admitted_is_admitted_again(plan: Plan, comes: Steps) -> None:
    admission, admitted = admission_of(plan), list[int]()
    for step in comes:
        if admission.admits(ranges_of(admitted), step):
            admitted.append(step)
            ranges = ranges_of(admitted)
            assert admission.admits(ranges, step)
            assert admission.decide(Histories.of([ranges]), step).all()


def test_a_person_with_very_many_ranges_is_decided_exactly() -> None:
    admission = Admission(rises=Count(), contributions=5000)
    ranges = [(2 * each, 2 * each + 1) for each in range(5000)]
    decided = admission.decide(Histories.of([ranges[:-1], ranges]), 10_000)
    assert decided.tolist() == [True, False]
