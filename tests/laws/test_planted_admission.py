"""Mistakes in what persons cost, planted one at a time: the laws hold without each."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.laws.brute import person_cost
from tidegate.privacy import ApproxDP, Budget, PureDP, rises
from tidegate.privacy import admission as admissions
from tidegate.privacy.admission import Admission
from tidegate.privacy.compact import NOBODY, Compact
from tidegate.privacy.person import Person
from tidegate.privacy.rises import NEVER, Bases, Chain, Window, rises_of
from tidegate.schedule import Fading, Growing, Schedule, SlidingWindow
from tidegate.schedule.plan import Plan

Patch = AbstractContextManager[Any]

FADING = Fading(step=1, forget=Fraction(1, 4), memory=5, first=4)
REFIT = SlidingWindow(window=5, step=1, refit=True)
CHAIN = SlidingWindow(window=7, step=1)
GROWING = Growing(block=4, step=1, growth=Fraction(1, 2))
VISITS = ([0], [3], [9, 10, 11], [9, 12], [1, 2, 9, 20], [0, 1, 2, 3, 4, 5], [8, 9, 30])
K = 3
PERIOD = 6


def plan_of(schedule: Schedule, budget: Budget, period: int | None = None) -> Plan:
    return Plan(
        schedule=schedule,
        budget=replace(budget, contributions=K),
        survey=Fraction(1, 20),
        reserve=Fraction(1, 10),
        person=Person(contributions=K, period=period),
    )


def broken(schedule: Schedule, budget: Budget, planted: Patch) -> Iterator[str]:
    """The laws that the admission of a plan breaks while a mistake is planted."""
    with planted:
        free, limited = plan_of(schedule, budget), plan_of(schedule, budget, PERIOD)
        admission, within = free.admission, limited.admission
        assert admission is not None
        assert within is not None
        costs = [admission.cost([(step, step + 1) for step in visit]) for visit in VISITS]
        decided = list(decisions(within))
        state, scale = state_of(admission, VISITS[4]), admission.compact.scale
    for visit, cost in zip(VISITS, costs, strict=True):
        paid = person_cost(free, visit, 200)
        tail = Fraction(0)
        if isinstance(schedule, Growing):
            times = schedule.times(200)
            block = next(k for k, time in enumerate(times) if visit[-1] < time)
            weight = schedule.mark(block) / schedule.mark(len(times) - 1)
            tail = free.shares.forever * weight**budget.power
        if cost != paid + tail:
            yield "cost"
    for start in range(30):
        period = [step for step in decided if start <= step < start + PERIOD]
        if person_cost(limited, period, 200) > K:
            yield "period"
    low, error = state >> 8 & 2**24 - 1, state & 2**8 - 1
    if not low <= costs[4] * scale <= low + error:
        yield "state"


def decisions(admission: Admission) -> Iterator[int]:
    """The admitted steps of a person who comes at every step."""
    admitted: list[int] = []
    for step in range(30):
        if admission.admits([(each, each + 1) for each in admitted], step):
            admitted.append(step)
            yield step


def state_of(admission: Admission, steps: Sequence[int]) -> int:
    """The compact state after these steps."""
    states = np.array([NOBODY], np.uint64)
    for step in steps:
        states = admission.compact.after(states, step)
    return int(states[0])


def changed_admission(**change: Any) -> Patch:
    """An Admission that is made with something else."""

    def made(**given: Any) -> Admission:
        applied = {name: new(given[name]) for name, new in change.items() if given.get(name)}
        return Admission(**given | applied)

    return patch.object(admissions, "Admission", made)


def squares() -> Patch:
    """The squares of weights are added up whatever the budget."""
    return patch.object(
        rises,
        "rises_of",
        lambda schedule, shares: rises_of(
            schedule, replace(shares, budget=ApproxDP(1.0, 1e-6, contributions=K))
        ),
    )


def no_gaps(owner: type[Any]) -> Patch:
    """Each further step costs as much as if it followed the one before at once."""
    right = owner.keys

    def keys(self: Any, lasts: Any, steps: Any) -> Any:
        return right(self, np.where(lasts == NEVER, lasts, steps - 1), steps)

    return patch.object(owner, "keys", keys)


def ignored_first() -> Patch:
    """Steps before the first fit cost as much as all others."""
    return patch("tidegate.privacy.rises.Window", lambda paid, first: Window(paid, first=1))  # noqa: ARG005


def errors_ignored() -> Patch:
    """A state forgets that its cost was rounded down."""
    right = Compact._rises

    def planted(self: Compact, lasts: Any, step: int) -> Any:
        down, inexact = right(self, lasts, step)
        return down, inexact * 0

    return patch.object(Compact, "_rises", planted)


def unused_start() -> Patch:
    """A fit that reads the step before the last one counts as new."""
    right = Chain.keys

    def keys(self: Chain, lasts: Any, steps: Any) -> Any:
        place, gap = right(self, lasts, steps)
        return place, np.maximum(gap - 1, 0)

    return patch.object(Chain, "keys", keys)


SCHEDULES: dict[str, Schedule] = {
    "fading": FADING,
    "refit": REFIT,
    "chain": CHAIN,
    "growing": GROWING,
}
BUDGETS: dict[str, Budget] = {"pure": PureDP(1.0), "gaussian": ApproxDP(1.0, 1e-6)}


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_law_is_broken_without_a_mistake(schedule: str, budget: str) -> None:
    assert not set(broken(SCHEDULES[schedule], BUDGETS[budget], nullcontext()))


PLANTED: dict[str, tuple[Schedule, Budget, Patch, str]] = {
    "squares for a pure budget, fading": (FADING, PureDP(1.0), squares(), "cost"),
    "squares for a pure budget, growing": (GROWING, PureDP(1.0), squares(), "cost"),
    "survey and scores forgotten": (
        FADING,
        ApproxDP(1.0, 1e-6),
        changed_admission(measured=lambda _: Fraction(0)),
        "cost",
    ),
    "scores forgotten": (
        CHAIN,
        PureDP(1.0),
        changed_admission(measured=lambda share: share - Fraction(1, 10)),
        "cost",
    ),
    "the number of steps instead of gaps, fading": (FADING, PureDP(1.0), no_gaps(Window), "cost"),
    "the number of steps instead of gaps, refit": (REFIT, PureDP(1.0), no_gaps(Window), "cost"),
    "the number of steps instead of gaps, chain": (CHAIN, PureDP(1.0), no_gaps(Chain), "cost"),
    "the number of steps instead of gaps, growing": (GROWING, PureDP(1.0), no_gaps(Bases), "cost"),
    "the first model ignored": (FADING, PureDP(1.0), ignored_first(), "cost"),
    "fits of a chain forgotten": (CHAIN, PureDP(1.0), unused_start(), "cost"),
    "a period one step short, fading": (
        FADING,
        PureDP(1.0),
        changed_admission(period=lambda steps: steps - 1),
        "period",
    ),
    "a period one step short, chain": (
        CHAIN,
        ApproxDP(1.0, 1e-6),
        changed_admission(period=lambda steps: steps - 1),
        "period",
    ),
    "roundings of states ignored": (GROWING, ApproxDP(1.0, 1e-6), errors_ignored(), "state"),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_breaks_a_law(mistake: str) -> None:
    schedule, budget, planted, law = PLANTED[mistake]
    assert law in set(broken(schedule, budget, planted))
