"""How often persons may come, compared with admitting them step by step."""

from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.privacy.test_admission import admission_of, person_plans, protecting, ranges_of, windows
from tests.strategies import growing
from tidegate.privacy import PureDP
from tidegate.privacy.admission import Admission
from tidegate.privacy.rises import Chain, Count
from tidegate.privacy.visits import visits
from tidegate.schedule import SlidingWindow
from tidegate.schedule.plan import Plan


def stay(admission: Admission, start: int, every: int) -> int:
    """In how many steps a person is admitted before the first refusal, within a period."""
    admitted: list[int] = []
    step = start
    while (admission.period is None or step < start + admission.period) and admission.admits(
        ranges_of(admitted), step
    ):
        admitted.append(step)
        step += every
    return len(admitted)


def starts_of(plan: Plan) -> range:
    """The first steps of which the fewest admitted steps are stated."""
    rises, first = admission_of(plan).rises, plan.schedule.first
    return range(first - 1, first + (rises.length - 1 if isinstance(rises, Chain) else 0))


@settings(max_examples=30)
@given(person_plans(windows))
def test_stays_are_those_of_admission(plan: Plan) -> None:
    admission = admission_of(plan)
    *regular, anyhow = visits(admission)
    for every, further, admitted in regular:
        assert every is not None
        assert further is not None
        assert admitted == min(stay(admission, start, every) for start in starts_of(plan))
        assert 0 < further <= 1
    assert anyhow.admitted == min(admission.contributions, admission.period or 99)


@settings(max_examples=30)
@given(person_plans(growing, period=st.integers(1, 40)))
def test_a_stay_in_a_growing_stream_starts_with_it(plan: Plan) -> None:
    every_step, _ = visits(admission_of(plan))
    assert every_step.further is None
    assert every_step.admitted == stay(admission_of(plan), 0, 1)


def test_no_stay_is_looked_for_where_steps_are_counted() -> None:
    only: Any = visits(Admission(rises=Count(), contributions=3))
    assert only == [(None, Fraction(1), 3)]


def test_no_limit_is_found_where_there_is_none() -> None:
    """A window so long, and so many contributions, that nobody looks for the end."""
    plan = Plan(schedule=SlidingWindow(window=8000, step=1, refit=True), budget=PureDP(1.0))
    free = Admission(rises=admission_of(protecting(plan, 2)).rises, contributions=2**20)
    assert [each.admitted for each in visits(free)[1:3]] == [None, None]
