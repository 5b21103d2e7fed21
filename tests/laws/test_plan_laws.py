"""What must hold for the plan of every schedule, budget and allocation."""

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import groupby, islice, pairwise, takewhile
from typing import get_args
from unittest.mock import patch

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.laws.brute import charged, horizon, paid_by_all, tail
from tests.strategies import (
    basic,
    budgets,
    continual,
    cumulative,
    fadings,
    forgets,
    growing,
    plans,
    refits,
    schedules,
    sliding,
    steps,
)
from tidegate.kinds import values_of
from tidegate.privacy import ApproxDP, Budget, LedgerError, PureDP
from tidegate.schedule import (
    Basic,
    Continual,
    Fading,
    Fit,
    Growing,
    Schedule,
    SlidingWindow,
    SlotWeight,
    Span,
    Steps,
    Stream,
    TwoStream,
    fits,
)
from tidegate.schedule.fit import superseded
from tidegate.schedule.plan import Plan
from tidegate.schedule.protocol import needed

untils = st.integers(1, 260)


@given(schedules, untils)
def test_fits_are_numbered_in_order(schedule: Schedule, until: int) -> None:
    made = list(fits(schedule, until))
    assert [fit.number for fit in made] == list(range(len(made)))
    assert all(before.at <= after.at for before, after in pairwise(made))


@given(schedules, untils)
def test_a_fit_reads_only_steps_that_are_complete(schedule: Schedule, until: int) -> None:
    assert all(
        0 <= fit.span.start < fit.span.stop <= fit.at <= until for fit in fits(schedule, until)
    )


@given(schedules, untils)
def test_priors_exist_and_precede(schedule: Schedule, until: int) -> None:
    for fit in fits(schedule, until):
        assert (fit.prior is None) == (fit.role == "base")
        assert fit.prior is None or 0 <= fit.prior < fit.number


def need_nothing_superseded(made: Iterable[Fit]) -> None:
    """No prior or start was superseded, and at most one unreleased model of a level is kept."""
    earlier: list[Fit] = []
    gone: set[int | None] = set()
    for _, group in groupby(made, key=lambda fit: (fit.stream, fit.at)):
        due = list(group)
        assert not gone & ({fit.prior for fit in due} | {fit.start for fit in due} - {None})
        gone.update(superseded(earlier, due))
        earlier += due
    kept = [fit for fit in earlier if not fit.released and fit.number not in gone]
    assert len(kept) == len({(fit.stream, fit.level) for fit in kept})


@given(schedules, untils)
def test_no_fit_needs_a_model_that_was_superseded(schedule: Schedule, until: int) -> None:
    need_nothing_superseded(fits(schedule, until))


@given(sliding() | cumulative, steps, st.lists(st.sampled_from(get_args(Stream)), max_size=200))
def test_no_fit_of_two_streams_needs_a_model_that_was_superseded(
    source: Schedule, step: int, arrivals: list[Stream]
) -> None:
    need_nothing_superseded(TwoStream(source=source, step=step).fits(arrivals))


@given(schedules, untils)
def test_behind_counts_what_all_priors_or_starts_have_read(schedule: Schedule, until: int) -> None:
    assume(not any(fit.slot_weights for fit in fits(schedule, until)))  # a law of their own
    made = list(map(schedule.steps.fit, fits(schedule, until)))
    for fit in made:
        link = "start" if fit.prior is None else "prior"
        read, before = 0, getattr(fit, link)
        while before is not None:
            assert before < fit.number
            read += made[before].sample or made[before].span.size
            before = getattr(made[before], link)
        assert (fit.behind or 0) == read


@given(schedules, untils)
def test_a_start_is_the_base_before_and_excludes_a_prior(schedule: Schedule, until: int) -> None:
    made = list(fits(schedule, until))
    for fit in made:
        if fit.start is not None:
            assert fit.prior is None
            # no fit of a window starts at an earlier model, unless it says so
            assert schedule.look_back is None or fit.slot_weights
            bases = [each.number for each in made[: fit.number] if each.role == "base"]
            assert fit.start == bases[-1]


@given(schedules, untils)
def test_updates_read_whole_steps_of_their_level(schedule: Schedule, until: int) -> None:
    for fit in fits(schedule, until):
        assert fit.role == "base" or fit.span.size == 1 << fit.level


@given(plans(), st.integers(0, 300))
def test_nothing_is_due_between_steps(plan: Plan, at: int) -> None:
    assert not plan.schedule.due(0)
    if at != plan.steps.count(plan.steps.complete(at)):
        assert not plan.due(at)


@given(schedules, untils)
def test_a_sampled_fit_reads_less_than_its_span(schedule: Schedule, until: int) -> None:
    sample = getattr(schedule, "sample", None)
    for fit in map(schedule.steps.fit, fits(schedule, until)):
        assert fit.sample == (sample if sample is not None and sample < fit.span.size else None)


@given(schedules, st.integers(1, 500))
def test_no_fit_reads_more_than_the_largest(schedule: Schedule, until: int) -> None:
    """One fit reads that much; without a limit, fits grow beyond any size."""
    sizes = [fit.sample or fit.span.size for fit in map(schedule.steps.fit, fits(schedule, until))]
    if schedule.largest is not None:
        assert all(size <= schedule.largest for size in sizes)
    elif sizes:
        longer = map(schedule.steps.fit, fits(schedule, 64 * until))
        assert max(fit.span.size for fit in longer) > max(sizes)
    whole = not isinstance(schedule, Fading) or until >= max(schedule.first, schedule.look_back)
    if schedule.largest is not None and not getattr(schedule, "sample", None) and sizes and whole:
        assert max(sizes) == schedule.largest


@given(st.one_of(continual, basic), untils)
def test_one_release_a_step_from_the_first_block_on(schedule: Schedule, until: int) -> None:
    assert isinstance(schedule, Continual | Basic)
    released = [fit.at for fit in fits(schedule, until) if fit.released]
    assert released == list(range(schedule.block // schedule.step, until + 1))


@given(sliding(), untils)
def test_the_chain_tiles_the_window_at_every_step(schedule: SlidingWindow, until: int) -> None:
    by_number, window = {}, schedule.window // schedule.step
    for now in range(1, until + 1):
        due = schedule.due(now)
        by_number.update({fit.number: fit for fit in due})
        released = [fit for fit in due if fit.released]
        assert len(released) == (now >= window)
        for release in released:
            chain = [release]
            while chain[-1].prior is not None:
                chain.append(by_number[chain[-1].prior])
            assert [fit.level for fit in chain] == list(range(schedule.levels + 1))
            spans = sorted(fit.span for fit in chain)
            assert spans[0].start == now - window
            assert spans[-1].stop == now
            assert all(left.stop == right.start for left, right in pairwise(spans))


@given(sliding(), st.integers(1, 400))
def test_within_a_pass_no_span_is_fitted_twice(schedule: SlidingWindow, until: int) -> None:
    seen: set[tuple[int, int]] = set()
    for fit in fits(schedule, until):
        if fit.prior is None:
            seen.clear()
        assert fit.span not in seen
        seen.add(fit.span)


@given(sliding(), st.integers(1, 400))
def test_a_pass_makes_fewer_than_two_fits_a_step(schedule: SlidingWindow, passes: int) -> None:
    until = schedule.first + min(passes, 8) * (schedule.left + 1) - 1
    assert sum(1 for _ in fits(schedule, until)) == min(passes, 8) * (2 * schedule.left + 1)


@given(plans(), untils)
def test_no_record_ever_pays_more_than_its_budget(plan: Plan, until: int) -> None:
    paid = [Fraction(0)] * until
    for line in plan.lines(until):
        assert 0 < line.share <= 1
        for record in range(line.fit.span.start, line.fit.span.stop):
            paid[record] += charged(line, record)
            assert paid[record] <= 1  # at every time, not only at the end
    assert max(paid) <= plan.forever == 1


@given(plans(), untils, st.sampled_from([0, 64]))
def test_the_ledger_agrees_with_brute_force(plan: Plan, until: int, crowd: int) -> None:
    ledger = plan.ledger(crowd=crowd)
    for _ in plan.charge(ledger, until):
        pass
    paid = paid_by_all(plan, until)
    assert [ledger.paid(record) for record in range(until)] == paid
    worst = ledger.worst()
    assert worst.share == max(paid)
    assert paid[worst.record] == worst.share


@given(plans(), untils, st.data())
def test_the_plan_computes_what_a_record_paid_at_any_time(
    plan: Plan, until: int, data: st.DataObject
) -> None:
    at = data.draw(st.integers(1, until))
    record = data.draw(st.integers(0, until - 1))
    naive = sum(charged(line, record) for line in plan.lines(at) if record in line.fit.span)
    assert plan.paid(record, at) == naive


@given(schedules, st.integers(0, 120))
def test_reads_ascends_and_misses_no_fit(schedule: Schedule, step: int) -> None:
    times = list(takewhile(lambda now: now <= 500, islice(schedule.reads(step), 600)))
    assert all(before < after for before, after in pairwise(times))
    reading = {fit.at for fit in fits(schedule, 500) if step in fit.span}
    assert reading == set(times)


@given(schedules, st.integers(1, 200))
def test_settled_steps_are_read_all_together_or_never_again(schedule: Schedule, now: int) -> None:
    settled = schedule.settled(now)
    for fit in fits(schedule, 600):
        if fit.at > now and fit.span.start < settled:
            assert fit.span.start == 0
            assert fit.span.stop >= settled


@given(schedules, st.integers(1, 200))
def test_what_is_not_needed_is_never_read_again(schedule: Schedule, now: int) -> None:
    later = min(fit.span.start for fit in fits(schedule, 1200) if fit.at > now)
    assert later >= needed(schedule, now)
    if schedule.look_back in {None, 1}:  # others may not read this far back again
        assert later == needed(schedule, now)


@given(schedules)
def test_fits_look_back_as_far_as_the_schedule_says(schedule: Schedule) -> None:
    back = [fit.at - fit.span.start for fit in fits(schedule, 300)]
    assert max(back) == schedule.look_back or schedule.look_back is None
    if schedule.look_back is None:
        assert any(fit.span.start == 0 for fit in fits(schedule, 300) if fit.at > 150)


def in_single_records(schedule: Schedule) -> Schedule:
    """The schedule with steps of one record."""
    scaled = {
        name: schedule.steps.complete(size)
        for name, size in values_of(schedule).items()
        if name in {"block", "window", "step"}
    }
    return replace(schedule, **scaled)  # type: ignore[type-var]  # a protocol cannot say: dataclass


def times_and_shares(plan: Plan, until: int, scale: int) -> list[object]:
    def scaled(span: Span) -> tuple[int, int]:
        return span.start * scale, span.stop * scale

    return [
        (at * scale, scaled(span), [(scaled(own), part) for own, part in parts], share)
        for (_, at, span, *_, parts, _), share in plan.lines(until)
    ]


@given(plans(), untils, st.integers(0, 259))
def test_a_plan_of_larger_steps_is_the_plan_of_single_records_scaled(
    plan: Plan, until: int, step: int
) -> None:
    size, one = plan.steps.size, replace(plan, schedule=in_single_records(plan.schedule))
    assert times_and_shares(plan, until * size, 1) == times_and_shares(one, until, size)
    ledgers = plan.ledger(), one.ledger()
    for each, ledger, records in zip((plan, one), ledgers, (until * size, until), strict=True):
        for _ in each.charge(ledger, records):
            pass
    worst, single = (ledger.worst() for ledger in ledgers)
    assert (worst.record, worst.share) == (single.record * size, single.share)
    for record in (step * size, (step + 1) * size - 1):
        paid = one.paid(step, until)
        assert (plan.paid(record, until * size), ledgers[0].paid(record)) == (paid, paid)


def test_records_taken_for_steps_break_a_law() -> None:
    """A ledger refuses spans that are not whole steps; this law finds such a plan without one."""
    law = test_a_plan_of_larger_steps_is_the_plan_of_single_records_scaled.hypothesis.inner_test  # type: ignore[attr-defined]
    plan = Plan(schedule=SlidingWindow(window=28, step=4), budget=PureDP(1.0))
    law(plan, 20, 3)
    with patch.object(Steps, "records", lambda _, span: span):
        with pytest.raises(AssertionError):
            law(plan, 20, 3)
        with pytest.raises(LedgerError, match="cannot charge"):
            list(plan.charge(plan.ledger(), 28))
    with (
        patch.object(Steps, "complete", lambda _, count: count),
        patch.object(Steps, "step_of", lambda _, record: record),
        pytest.raises(AssertionError),
    ):
        law(plan, 20, 3)


@given(plans(), st.integers(4, 6))
def test_the_certificate_is_the_supremum_found_by_brute_force(plan: Plan, length: int) -> None:
    """Exactly: what records pay up to a horizon, and what they still have to pay after it."""
    until = horizon(plan.schedule, length)
    most = max(paid_by_all(plan, until))
    left = tail(plan, until)
    assert (left == 0) == plan.certificate.attained
    assert most + left == plan.forever == 1


@given(plans(st.one_of(continual, basic)), st.integers(4, 6))
def test_tapered_spends_in_every_phase(plan: Plan, doublings: int) -> None:
    schedule = plan.schedule
    assert isinstance(schedule, Continual | Basic)
    if plan.allocation.name != "tapered":
        return
    until = schedule.block << doublings
    paid = [share + tail(plan, until) for share in paid_by_all(plan, until)]
    starts = [0, *(schedule.block << phase for phase in range(doublings + 1))]
    for start, stop in pairwise(starts):
        if start == schedule.step:  # a phase of a single step has no update
            continue
        assert max(paid[start:stop]) > Fraction(9, 10)
        assert max(paid[start:stop]) == 1


@given(plans())
def test_the_first_release_is_where_the_plan_says(plan: Plan) -> None:
    steps = range(plan.steps.size, plan.first + 1, plan.steps.size)
    released = [at for at in steps if any(line.fit.released for line in plan.due(at))]
    assert released == [plan.first]


def bases(schedule: Growing, until: int) -> list[int]:
    """The times of bases in steps, up to the first one after `until`."""
    times = [schedule.block // schedule.step]
    while times[-1] * schedule.step <= until:
        times.append(times[-1] + max(1, int(times[-1] * schedule.growth)))
    return times


@given(growing, budgets, st.integers(1, 120))
def test_with_growing_every_record_pays_1_in_the_limit(
    schedule: Growing, budget: Budget, until: int
) -> None:
    """What a record has paid, and all that is to come, as the limit of what telescopes."""
    plan = Plan(schedule=schedule, budget=budget)
    times, paid = bases(schedule, until), paid_by_all(plan, until)
    ends = [time * schedule.step for time in times]
    marks = [Fraction(3, 4) * sum(times[1:2]), *map(Fraction, times[1:])]
    for record in range(until):
        block = next(j for j, end in enumerate(ends) if record < end)
        to_come = (marks[block] / marks[-1]) ** budget.power if block < len(times) - 1 else 1
        assert paid[record] + to_come == 1


@given(growing | fadings() | refits, st.integers(1, 120))
def test_slot_weights_rise_to_1_and_cover_the_span(schedule: Schedule, until: int) -> None:
    for fit in fits(schedule, until):
        parts = [part for _, part in fit.slot_weights]
        assert all(0 < before < after for before, after in pairwise(parts))
        assert parts[-1:] in ([], [1])
        spans = [span for span, _ in fit.slot_weights]
        assert all(before.stop == after.start for before, after in pairwise(spans))
        assert not spans or (spans[0].start, spans[-1].stop) == fit.span


@given(fadings(), budgets)
def test_with_fading_every_record_pays_exactly_1(schedule: Fading, budget: Budget) -> None:
    """From the newest step of the first fit on, once no fit reads it any more; before, less."""
    plan, memory = Plan(schedule=schedule, budget=budget), schedule.look_back
    paid = paid_by_all(plan, schedule.steps.count(schedule.first + 3 * memory))
    for record in range(schedule.steps.count(schedule.first + 2 * memory)):
        step = schedule.steps.step_of(record)
        if step >= schedule.first - 1:
            assert paid[record] == 1
        else:
            assert paid[record] < 1
            assert (paid[record] == 0) == (step < schedule.first - memory)


@given(refits, budgets)
def test_with_a_window_refitted_every_record_pays_exactly_1(
    schedule: SlidingWindow, budget: Budget
) -> None:
    plan, window = Plan(schedule=schedule, budget=budget), schedule.window
    paid = paid_by_all(plan, 4 * window)
    assert set(paid[window - schedule.step : 3 * window]) == {1}
    assert max(paid[: window - schedule.step]) < 1


@given(fadings())
def test_a_fading_record_is_read_at_every_age_and_never_after(schedule: Fading) -> None:
    memory, q = schedule.look_back, 1 - schedule.forget
    for fit in fits(schedule, schedule.first + 2 * memory):
        assert fit.span == Span(max(0, fit.at - memory), fit.at)
        assert [part for _, part in fit.slot_weights] == [
            q ** (fit.at - 1 - step) for step in range(*fit.span)
        ]


@given(forgets)
def test_the_memory_of_fading_ends_where_a_weight_is_a_tenth(forget: Fraction) -> None:
    memory, q = Fading(step=1, forget=forget).look_back, 1 - forget
    assert q**memory <= Fraction(1, 10)
    assert memory == 1 or q ** (memory - 1) > Fraction(1, 10)


@given(growing | fadings() | refits, st.integers(1, 120))
def test_behind_follows_from_the_information(
    schedule: Growing | Fading | SlidingWindow, until: int
) -> None:
    """n / (n + behind) is S / sqrt(I): S^2 = n^2 times the share, I all S^2 that linger."""
    plan, information = Plan(schedule=schedule, budget=ApproxDP(1.0, 1e-6)), 0.0
    match schedule:
        case Fading():
            linger = float(schedule.linger or 0)
        case SlidingWindow():
            linger = (1 - schedule.step / schedule.window) ** 2
        case Growing():
            linger = 1.0
    for fit in fits(schedule, until):  # in steps, where `behind` is not rounded
        weights = fit.slot_weights or (SlotWeight(fit.span, Fraction(1)),)
        mass = float(sum(span.size * weight for span, weight in weights))
        own = mass**2 * float(plan.shares.of(fit))
        information = own + linger * information
        new = mass / (mass + sum(fit.behind))
        assert new == pytest.approx(math.sqrt(own / information), rel=1e-9)
        (line,) = plan.due(plan.steps.count(fit.at))
        rounded = round(sum(fit.behind) * plan.steps.size)
        assert line.fit.behind == (max(1, rounded) if fit.behind else None)
