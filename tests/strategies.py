"""What hypothesis draws from: every schedule, budget and allocation."""

from dataclasses import replace
from fractions import Fraction

from hypothesis import strategies as st

from tidegate.privacy import Allocation, ApproxDP, Budget, Paper, PureDP, Tapered
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
)
from tidegate.schedule.plan import Plan

steps = st.integers(1, 5)
samples = st.none() | st.integers(1, 12)
powers = st.integers(0, 4).map(lambda exponent: 2**exponent)


def sliding(max_steps: int = 40) -> st.SearchStrategy[SlidingWindow]:
    return st.builds(
        lambda window, step, sample: SlidingWindow(window=window * step, step=step, sample=sample),
        st.integers(2, max_steps),
        steps,
        samples,
    )


continual = st.builds(
    lambda block, step, sample: Continual(block=block * step, step=step, sample=sample),
    powers,
    steps,
    samples,
)
basic = st.builds(lambda block, step: Basic(block=block * step, step=step), powers, steps)
cumulative = st.builds(Cumulative, block=steps, sample=samples)
multiresolution = st.builds(MultiResolution, block=steps, sample=samples)
independent = st.builds(Independent, step=steps)

growing = st.builds(
    lambda block, step, growth: Growing(block=block * step, step=step, growth=growth),
    st.integers(1, 6),
    steps,
    st.fractions(Fraction(1, 8), Fraction(39, 40), max_denominator=40),  # so that bases are few
)

forgets = st.one_of(st.fractions(Fraction(1, 8), 1, max_denominator=12), st.just(Fraction(3, 10)))


@st.composite
def fadings(draw: st.DrawFn) -> Fading:
    forget = draw(forgets)
    memory = st.just(1) if forget == 1 else st.none() | st.integers(1, 9)
    return Fading(
        step=draw(steps),
        forget=forget,
        memory=draw(memory),
        first=draw(st.integers(1, 12)),
        linger=draw(st.none() | st.sampled_from([Fraction(0), Fraction(16, 25), Fraction(9, 10)])),
    )


refits = st.builds(
    lambda window, step: SlidingWindow(window=window * step, step=step, refit=True),
    st.integers(2, 12),
    steps,
)

STRATEGIES: dict[str, st.SearchStrategy[Schedule]] = {
    "sliding": sliding() | refits,
    "continual": continual,
    "basic": basic,
    "cumulative": cumulative,
    "fading": fadings(),
    "growing": growing,
    "multiresolution": multiresolution,
    "independent": independent,
}
"""A strategy for each kind in the registry, which a test holds it against."""

schedules: st.SearchStrategy[Schedule] = st.one_of(*STRATEGIES.values())

budgets: st.SearchStrategy[Budget] = st.sampled_from([PureDP(1.0), ApproxDP(1.0, 1e-6)])


def allocations(budget: Budget) -> st.SearchStrategy[Allocation]:
    rates = st.fractions(budget.even_rate, 1, max_denominator=50)
    inside = rates.filter(lambda rate: budget.even_rate < rate < 1)
    return st.one_of(st.just(Paper()), st.just(Tapered()), st.builds(Tapered, inside))


@st.composite
def plans(draw: st.DrawFn, schedule: st.SearchStrategy[Schedule] = schedules) -> Plan:
    drawn = draw(schedule)
    budget = draw(budgets)
    allocation = draw(allocations(budget)) if drawn.allocated else Paper()
    return Plan(schedule=drawn, budget=budget, allocation=allocation)


@st.composite
def surveyed_plans(draw: st.DrawFn, schedule: st.SearchStrategy[Schedule] = schedules) -> Plan:
    """A plan that reserves shares for surveys and scores; both may be most of the budget."""
    plan = draw(plans(schedule))
    survey = draw(st.fractions(Fraction(1, 40), Fraction(39, 40), max_denominator=40))
    part = draw(st.fractions(0, Fraction(19, 20), max_denominator=20))
    return replace(plan, survey=survey, reserve=(1 - survey) * part)
