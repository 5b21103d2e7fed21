"""An empirical audit: a lower bound on epsilon, from counting an event in many transcripts.

Two neighbouring streams are run many times with seeds. The event is fixed before any run: where the
likelihood ratio of the two is largest. If the transcript is (epsilon, delta)-private then

    P(event | first) <= e^epsilon P(event | second) + delta,

and so ln((p - delta) / q) is a lower bound on epsilon if p is at most the first probability and q
at least the second. With Clopper-Pearson bounds at 5e-7 each, both hold except with probability
1e-6: the rate at which a bound may exceed a claim that is right. How near the bound has to come is
chosen so that counts between their own 5e-7 quantiles come as near.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol, TypeVar
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta

from tests.laws.replay import Call, Data, Setup, Slot, honest, neighbour, transcript
from tests.laws.scenes import TARGET, every_schedule
from tidegate.data.records import Records
from tidegate.learn import (
    GradientPerturbation,
    Huber,
    HuberError,
    Logistic,
    OutputPerturbation,
    SquaredError,
)
from tidegate.learn.learner import Learner, Pull, Task
from tidegate.learn.mean import HistogramPerturbation, MeanPerturbation
from tidegate.learn.refit import Exact
from tidegate.learn.slot_weights import weighted
from tidegate.privacy import ApproxDP, Budget, PureDP, noise
from tidegate.privacy.budget import allowance_of
from tidegate.privacy.ledger import Line
from tidegate.privacy.noise import NotPrivateBits
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

FALSE_ALARM = 1e-6
R = 1.5
Outputs = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What is audited, with how many runs, and which fraction of epsilon the bound must reach."""

    setup: Setup
    records: int
    runs: int
    near: float

    @property
    def budget(self) -> Budget:
        """The claim."""
        return self.setup.plan.budget

    @cached_property
    def slot(self) -> Slot:
        """The most-charged record, of the target stream if there are two."""
        stream = [*self.blank][-1]
        slots = [Slot(stream, record) for record in range(self.records)]
        paid = [transcript(self.setup, self.blank, slot, noiseless).paid for slot in slots]
        return slots[paid.index(max(paid))]

    def scale(self, line: Line) -> float:
        """The noise that the learner adds to a sum."""
        assert isinstance(self.setup.learner, MeanPerturbation)
        allowance = allowance_of(self.setup.plan.budget, line.share)
        return self.setup.learner.scale(self.setup.task, allowance)

    @property
    def blank(self) -> Data:
        """Records of one feature that pull nowhere."""
        rows = (np.zeros((self.records, 1)), np.ones(self.records, np.intp))
        two = isinstance(self.setup.plan, TwoStreamPlan)
        return {"source": rows, "target": rows} if two else {None: rows}

    def stream(self, side: int) -> Data:
        """Records that pull nowhere, except one on the boundary of the ball."""
        counted = isinstance(self.setup.learner, HistogramPerturbation)
        return neighbour(self.blank, self.slot, side * R, 0 if counted and side < 0 else 1)

    def calls(self, side: int) -> list[Call]:
        """All mechanisms that read the record, in a run without noise."""
        run = transcript(self.setup, self.stream(side), self.slot, noiseless)
        return [call for call in run.calls if self.slot.within(call.line)]


class Audited(Protocol):
    """What an audit of outputs that depend on no other output needs."""

    @property
    def runs(self) -> int:
        """How many runs of each side."""

    @property
    def near(self) -> float:
        """Which fraction of epsilon the bound must reach."""

    @property
    def budget(self) -> Budget:
        """The claim."""

    def calls(self, side: int, /) -> list[Call]:
        """All mechanisms that read the record, in a run without noise."""


def noiseless(_: int, call: Call) -> Outputs:
    """What a mechanism would release without its noise."""
    return call.center


def at_once(audit: Audited, side: int, seed: int) -> Outputs:
    """The outputs of many runs, one row each, for learners whose centers depend on no output."""
    bits = NotPrivateBits(seed)

    def sample(call: Call) -> Outputs:
        mechanism = getattr(noise, call.mechanism)
        if call.mechanism == "l2_laplace":
            return np.array([mechanism(call.center, call.scale, bits) for _ in range(audit.runs)])
        centers = np.tile(call.center.ravel(), (audit.runs, 1))
        return np.asarray(mechanism(centers, call.scale, bits))

    return np.hstack([sample(call) for call in audit.calls(side)])


def one_by_one(audit: Audit, side: int, seed: int) -> Outputs:
    """The same outputs from runs of the whole stream."""
    script, data, slot = honest(seed), audit.stream(side), audit.slot
    rows = []
    for _ in range(audit.runs):
        run = transcript(audit.setup, data, slot, script)
        rows.append(np.hstack([call.output for call in run.calls if slot.within(call.line)]))
    return np.array(rows)


AnyAudit = TypeVar("AnyAudit", bound=Audited)


def event(audit: Audited) -> Callable[[Outputs], NDArray[np.bool_]]:
    """Where the first stream is likelier by nearly e^epsilon, fixed before any run."""
    here, there = (audit.calls(side) for side in (1, -1))
    scales = np.hstack([np.full(call.center.size, call.scale) for call in here])
    a, b = (np.hstack([call.center for call in calls]) / scales for calls in (here, there))
    if audit.budget.unit == "epsilon":
        most = np.abs(a - b).sum()
        return lambda x: (np.abs(x / scales - b) - np.abs(x / scales - a)).sum(1) >= 0.9 * most
    epsilon = audit.budget.epsilon
    return lambda x: (x / scales - (a + b) / 2) @ (a - b) >= epsilon


def epsilon_bound(
    audit: AnyAudit,
    happens: Callable[[Outputs], NDArray[np.bool_]],
    sample: Callable[[AnyAudit, int, int], Outputs] = at_once,
) -> float:
    """A lower bound on epsilon, too high with probability at most 1e-6."""
    runs, delta = audit.runs, audit.budget.delta
    hits, false_hits = (int(happens(sample(audit, side, 7 + side)).sum()) for side in (1, -1))
    assert hits
    low = float(beta.ppf(FALSE_ALARM / 2, hits, runs - hits + 1))
    high = float(beta.ppf(1 - FALSE_ALARM / 2, false_hits + 1, runs - false_hits))
    return math.log((low - delta) / high) if low > delta else -math.inf


PURE, GAUSSIAN = PureDP(2.0), ApproxDP(2.0, 0.1, weak_delta=True)
PULL = Pull(norm=R, regularization=0.5)
HUBER = Task(loss=Huber(), norm=R, regularization=8.0)
LOGISTIC = Task(loss=Logistic(), norm=R, regularization=8.0)
SQUARED_ERROR = Task(loss=SquaredError(), norm=R, regularization=8.0)
HUBER_ERROR = Task(loss=HuberError(), norm=R, regularization=8.0)


def audit_of(
    schedule: Schedule | TwoStream, budget: Budget, task: Pull, learner: Learner[Any], **rest: Any
) -> Audit:
    kind: Any = TwoStreamPlan if isinstance(schedule, TwoStream) else Plan
    plan = kind(schedule=schedule, budget=budget)
    target = TARGET if isinstance(task, Task) and task.predicts_target else None
    return Audit(setup=Setup(plan=plan, task=task, learner=learner, target=target), **rest)


ONCE, TWICE = Independent(step=2), MultiResolution(block=1)
SLIDING, CONTINUAL = SlidingWindow(window=5, step=1), Continual(block=2, step=1)
BASIC, CUMULATIVE = Basic(block=2, step=1), Cumulative(block=1)
GROWING, TWO = Growing(block=1, step=1, growth=Fraction(1, 2)), TwoStream(source=CUMULATIVE, step=1)
FADING = Fading(step=1, forget=Fraction(3, 10), memory=4)
MEAN, HISTOGRAM = MeanPerturbation(), HistogramPerturbation(2)
SOLVED, DESCENDED = OutputPerturbation(), GradientPerturbation(steps=1)
# With such a slow rate no model is ever sure of a record. So every gradient is clipped, whatever
# was released, and no center depends on an output.
SLOWLY = GradientPerturbation(steps=1, rate=2.0**-30)

# One record moves a logistic model of one feature by half of its sensitivity at most, since
# sigmoid(m) + sigmoid(-m) is 1 and not 2.
AUDITS = {
    "mean": audit_of(ONCE, PURE, PULL, MEAN, records=2, runs=10_000, near=0.7),
    "means": audit_of(TWICE, PURE, PULL, MEAN, records=2, runs=10_000, near=0.4),
    "histograms, sliding": audit_of(
        SLIDING, PURE, PULL, HISTOGRAM, records=16, runs=100_000, near=0.7
    ),
    "histograms, continual": audit_of(
        CONTINUAL, PURE, PULL, HISTOGRAM, records=16, runs=100_000, near=0.5
    ),
    "means, sliding": audit_of(SLIDING, GAUSSIAN, PULL, MEAN, records=16, runs=100_000, near=0.8),
    "means, continual": audit_of(
        CONTINUAL, GAUSSIAN, PULL, MEAN, records=16, runs=100_000, near=0.7
    ),
    "means, basic": audit_of(BASIC, GAUSSIAN, PULL, MEAN, records=16, runs=100_000, near=0.7),
    "means, cumulative": audit_of(
        CUMULATIVE, GAUSSIAN, PULL, MEAN, records=16, runs=100_000, near=0.7
    ),
    "means, two streams": audit_of(TWO, GAUSSIAN, PULL, MEAN, records=16, runs=100_000, near=0.7),
    "logistic": audit_of(ONCE, PURE, LOGISTIC, SOLVED, records=2, runs=10_000, near=0.3),
    "hinge": audit_of(ONCE, PURE, HUBER, SOLVED, records=2, runs=10_000, near=0.7),
    "hinges": audit_of(TWICE, GAUSSIAN, HUBER, SOLVED, records=4, runs=100_000, near=0.75),
    "gradient": audit_of(ONCE, GAUSSIAN, LOGISTIC, DESCENDED, records=2, runs=100_000, near=0.75),
    "huber error": audit_of(ONCE, PURE, HUBER_ERROR, SOLVED, records=2, runs=10_000, near=0.7),
    "squared error": audit_of(
        ONCE, GAUSSIAN, SQUARED_ERROR, DESCENDED, records=2, runs=100_000, near=0.75
    ),
    "squared errors, fading": audit_of(
        FADING, GAUSSIAN, SQUARED_ERROR, SLOWLY, records=16, runs=100_000, near=0.8
    ),
    "gradients, growing": audit_of(
        GROWING, GAUSSIAN, LOGISTIC, SLOWLY, records=16, runs=100_000, near=0.75
    ),
    "gradients, fading": audit_of(
        FADING, GAUSSIAN, LOGISTIC, SLOWLY, records=16, runs=100_000, near=0.8
    ),
    "means, fading": audit_of(FADING, GAUSSIAN, PULL, MEAN, records=16, runs=100_000, near=0.8),
    "histograms, fading": audit_of(
        FADING, PURE, PULL, HISTOGRAM, records=16, runs=100_000, near=0.5
    ),
    "histograms, growing": audit_of(
        GROWING, PURE, PULL, HISTOGRAM, records=3, runs=100_000, near=0.3
    ),
    "hinges, fading": audit_of(FADING, PURE, HUBER, SOLVED, records=12, runs=2_000, near=0.2),
}


def assert_near(audit: Audited, bound: float) -> None:
    claim = audit.budget.epsilon
    assert audit.near * claim < bound <= claim


def test_every_schedule_is_audited() -> None:
    assert {type(audit.setup.plan.schedule) for audit in AUDITS.values()} == every_schedule()


@pytest.mark.thorough
@pytest.mark.parametrize("name", AUDITS)
def test_the_bound_comes_near_the_claim_and_stays_below(name: str) -> None:
    audit = AUDITS[name]
    assert_near(audit, epsilon_bound(audit, event(audit)))


@pytest.mark.thorough
def test_whole_runs_say_the_same() -> None:
    audit = replace(AUDITS["mean"], runs=1_000, near=0.3)
    assert_near(audit, epsilon_bound(audit, event(audit), one_by_one))


LONG = [
    "means",
    "histograms, sliding",
    "means, continual",
    "gradients, growing",
    "gradients, fading",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_long_runs_say_the_same(name: str) -> None:
    audit = replace(AUDITS[name], runs=10_000, near=0.4)
    assert_near(audit, epsilon_bound(audit, event(audit), one_by_one))


@pytest.mark.thorough
def test_the_audit_finds_half_of_the_noise_missing() -> None:
    audit = AUDITS["mean"]
    happens, right = event(audit), MeanPerturbation.scale
    with patch.object(MeanPerturbation, "scale", lambda *given: right(*given) / 2):
        assert epsilon_bound(audit, happens) > audit.setup.plan.budget.epsilon


def test_the_audit_finds_slot_weights_that_are_not_applied() -> None:
    """The record pays the square of its slot weight, but counts for 1 in every base."""
    audit = AUDITS["gradients, growing"]
    happens = event(audit)
    one = Exact.of
    plain = patch.object(Exact, "of", lambda r, **k: one(r, **k)._replace(slot_weights=None))
    with plain:
        assert epsilon_bound(audit, happens) > audit.setup.plan.budget.epsilon


def adapted(audit: Audit, side: int, seed: int) -> Outputs:
    """How much likelier each of many transcripts is with the first stream, as a logarithm.

    Every other record is chosen by the sign of the release before it. Each run is a column of its
    own: records of one feature, summed, noised and released by the learner itself.
    """
    setup, slot, runs = audit.setup, audit.slot.record, audit.runs
    assert isinstance(setup.plan, Plan)
    assert isinstance(setup.learner, MeanPerturbation)
    bits, X = NotPrivateBits(seed), np.zeros((audit.records, runs))
    newest, likelier = np.ones(runs), np.zeros((runs, 1))
    for at in range(1, audit.records + 1):
        X[at - 1] = side * R if at - 1 == slot else np.where(newest < 0, -R, R)
        for line in setup.plan.due(at):
            fit, scale = line.fit, audit.scale(line)
            rows = X[slice(*fit.span)]
            n = len(rows)
            (part,) = weighted(
                [Records(rows, np.zeros(n, np.intp), np.ones(n, np.bool_))], fit.slot_weights
            )
            newest = noise.gaussian(setup.learner.summed(setup.task, part.load()), scale, bits)
            if slot in fit.span:
                weights = {step: float(e) for span, e in fit.slot_weights for step in range(*span)}
                others = sum(weights[i] * X[i] for i in range(*fit.span) if i != slot)
                likelier[:, 0] += 2 * weights[slot] * R * (newest - others) / scale**2
    return likelier


def test_records_that_react_to_releases_tell_no_more() -> None:
    audit = AUDITS["means, fading"]
    epsilon, right = audit.setup.plan.budget.epsilon, MeanPerturbation.scale

    def likelier(x: Outputs) -> NDArray[np.bool_]:
        return np.asarray(x[:, 0] >= epsilon)

    assert_near(audit, epsilon_bound(audit, likelier, adapted))
    with patch.object(MeanPerturbation, "scale", lambda *given: right(*given) / 2):
        assert epsilon_bound(audit, likelier, adapted) > epsilon
