"""An empirical audit of what is promised to a person with eight records: see `test_audit`."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.laws.person_replay import Ids, changed, run, slots_of
from tests.laws.replay import Call, Data, Setup, honest
from tests.laws.test_audit import (
    GAUSSIAN,
    HISTOGRAM,
    LOGISTIC,
    MEAN,
    PULL,
    PURE,
    SLOWLY,
    Outputs,
    R,
    assert_near,
    epsilon_bound,
    event,
    noiseless,
)
from tidegate.learn import slot_weights
from tidegate.learn.mean import HistogramPerturbation
from tidegate.learn.slot_weights import Owned
from tidegate.privacy import Budget
from tidegate.privacy.person import Person
from tidegate.schedule import Fading, Independent, Schedule, Span
from tidegate.schedule.plan import Plan


@dataclass(frozen=True, kw_only=True)
class PersonAudit:
    """A person whose records lie on one side of the ball or on the other, in a span of slots.

    Attributes:
        setup: What is audited.
        ids: Whose the slots are; the person is "ann".
        within: The slots that change, if not all of hers: those of a period.
        runs: How many runs of each side.
        near: Which fraction of epsilon the bound must reach.
    """

    setup: Setup
    ids: tuple[Any, ...]
    within: Span | None = None
    runs: int = 100_000
    near: float = 0.8

    @property
    def budget(self) -> Budget:
        """The claim."""
        return self.setup.plan.budget

    def stream(self, side: int) -> tuple[Data, Ids]:
        """Records that pull nowhere, except hers."""
        n = len(self.ids)
        ids: Ids = {None: list(self.ids)}
        blank: Data = {None: (np.zeros((n, 1)), np.ones(n, np.intp))}
        counted = isinstance(self.setup.learner, HistogramPerturbation)
        label = 0 if counted and side < 0 else 1
        return changed(blank, slots_of(ids, "ann", self.within), side * R, label), ids

    def calls(self, side: int) -> list[Call]:
        """All mechanisms, in a run without noise."""
        return run(self.setup, *self.stream(side), noiseless).calls


def one_by_one(audit: PersonAudit, side: int, seed: int) -> Outputs:
    """The outputs of runs of the whole stream."""
    script, stream = honest(seed), audit.stream(side)
    rows = [run(audit.setup, *stream, script).calls for _ in range(audit.runs)]
    return np.array([np.hstack([call.output for call in calls]) for calls in rows])


def audit_of(
    schedule: Schedule,
    budget: Budget,
    task: Any,
    learner: Any,
    ids: Any,
    *,
    k: int,
    period: int | None = None,
    **more: Any,
) -> PersonAudit:
    plan = Plan(
        schedule=schedule,
        budget=replace(budget, contributions=k),
        person=Person(contributions=k, period=period),
    )
    setup = Setup(plan=plan, task=task, learner=learner, batch=1000)
    return PersonAudit(setup=setup, ids=tuple(ids), **more)


def steps(*counts: int, size: int = 4) -> list[Any]:
    """The owners of steps in which Ann has so many slots; other slots are others'."""
    return [
        "ann" if slot < count else f"{step}/{slot}"
        for step, count in enumerate(counts)
        for slot in range(size)
    ]


ONE = Independent(step=4)
HALF = Fading(step=4, forget=Fraction(1, 2), memory=2)  # a step in a row costs 4/5: six cost 5

AUDITS = {
    "life, one step": audit_of(
        Independent(step=8), PURE, PULL, HISTOGRAM, steps(8, size=8), k=1, near=0.8
    ),
    "life, eight steps": audit_of(ONE, GAUSSIAN, PULL, MEAN, steps(*[1] * 8), k=8),
    "life, beyond what is admitted": audit_of(ONE, GAUSSIAN, PULL, MEAN, steps(*[1] * 8), k=3),
    "life, six steps in a row": audit_of(HALF, GAUSSIAN, PULL, MEAN, steps(2, 1, 1, 1, 1, 2), k=5),
    "life, gradients": audit_of(
        HALF, GAUSSIAN, LOGISTIC, SLOWLY, steps(2, 1, 1, 1, 1, 2), k=5
    ),
    "period, two steps": audit_of(
        Fading(step=4, forget=Fraction(1, 2), memory=1), GAUSSIAN, PULL, MEAN,
        steps(1, 1, 1, 1, 1, 1, 1, 1), k=2, period=2, within=Span(12, 20),
    ),
    "period, in one step": audit_of(
        Independent(step=8), PURE, PULL, HISTOGRAM, steps(1, 1, 8, 1, size=8), k=1, period=1,
        within=Span(16, 24), near=0.8,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AUDITS)
def test_the_bound_comes_near_the_claim_and_stays_below(name: str) -> None:
    audit = AUDITS[name]
    assert_near(audit, epsilon_bound(audit, event(audit)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["life, one step", "period, two steps"])
def test_whole_runs_say_the_same(name: str) -> None:
    audit = replace(AUDITS[name], runs=2000, near=0.1)
    assert_near(audit, epsilon_bound(audit, event(audit), one_by_one))


def test_the_audit_finds_slots_that_count_like_records() -> None:
    """If each of a person's slots counts in full, eight in one step tell eight times as much."""
    audit = AUDITS["life, one step"]
    happens = event(audit)

    def in_full(owned: Owned, runs: Any) -> Any:
        [(_, weight)] = runs
        return np.where(owned.admitted, weight, 0.0)

    with patch.object(slot_weights, "person_weights", in_full):
        assert epsilon_bound(audit, happens) > audit.budget.epsilon
