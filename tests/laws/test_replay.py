"""Neighbouring streams under every schedule, loss and learner: see `replay`."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from tests.laws.replay import (
    Data,
    Floats,
    Script,
    Setup,
    Slot,
    always,
    broken,
    honest,
    law_holds,
    move,
    neighbour,
    replay,
    total_cost,
    transcript,
    whole_budget,
)
from tidegate.learn import GradientPerturbation, Huber, Logistic, OutputPerturbation, Softmax
from tidegate.learn.learner import Pull, Task
from tidegate.learn.mean import HistogramPerturbation, MeanPerturbation
from tidegate.plan import Plan, TwoStreamPlan
from tidegate.privacy import ApproxDP, Budget, PureDP, Tapered
from tidegate.schedule import (
    Basic,
    Continual,
    Cumulative,
    Independent,
    MultiResolution,
    SlidingWindow,
    TwoStream,
)

R = 2.0
PURE, GAUSSIAN = PureDP(1.0), ApproxDP(1.0, 1e-3)

SCHEDULES = {
    "multiresolution": MultiResolution(block=4),
    "multiresolution, sampled": MultiResolution(block=4, sample=3),
    "cumulative": Cumulative(block=4),
    "continual": Continual(block=8, step=4),
    "continual, sampled": Continual(block=8, step=4, sample=5),
    "sliding 2": SlidingWindow(window=8, step=4),
    "sliding 5": SlidingWindow(window=20, step=4),
    "sliding 7": SlidingWindow(window=28, step=4),
    "sliding 9, sampled": SlidingWindow(window=36, step=4, sample=6),
    "basic": Basic(block=8, step=4),
    "independent": Independent(step=4),
    "two streams, cumulative": TwoStream(source=Cumulative(block=8), step=4),
    "two streams, sliding": TwoStream(source=SlidingWindow(window=12, step=4), step=4),
}

Learning = tuple[Budget, Pull, Any]


def _learnings() -> dict[str, Learning]:
    pull = Pull(norm=R, regularization=0.5)
    found: dict[str, Learning] = {}
    for kind, budget in (("pure", PURE), ("gaussian", GAUSSIAN)):
        found[f"mean, {kind}"] = (budget, pull, MeanPerturbation())
        found[f"histogram, {kind}"] = (budget, pull, HistogramPerturbation(3))
        for loss in (Logistic(), Softmax(3), Huber()):
            name = type(loss).__name__.lower()
            task = Task(loss=loss, norm=R, regularization=0.5)
            found[f"{name}, {kind}"] = (budget, task, OutputPerturbation())
            if kind == "gaussian":
                found[f"{name}, gradient"] = (budget, task, GradientPerturbation(steps=3))
    return found


LEARNINGS = _learnings()
MANY_CLASSES = ("softmax", "histogram")


def setup_of(schedule: str, learning: str, **options: Any) -> Setup:
    budget, task, learner = LEARNINGS[learning]
    kind: Any = SCHEDULES[schedule]
    plan: Any = TwoStreamPlan if isinstance(kind, TwoStream) else Plan
    return Setup(
        plan=plan(schedule=kind, budget=budget, **options),
        task=task,
        learner=learner,
        classes=(0, 1, 2) if learning.startswith(MANY_CLASSES) else (0, 1),
    )


def streams(schedule: str, length: int, d: int = 2) -> Data:
    """Records about the sphere, some of which cannot be used; one stream, or two."""
    names: Any = ("source", "target") if schedule.startswith("two") else (None,)
    data: Data = {}
    for seed, name in enumerate(names):
        rng = np.random.default_rng(seed)
        X = rng.normal(scale=R, size=(length, d)).astype(object)
        y = rng.integers(2, size=length).astype(object)
        X[5, 0], y[9], X[length - 1, -1] = np.nan, "none", "text"
        data[name] = (X, y)
    return data


def slots(data: Data, records: Any) -> list[Slot]:
    return [Slot(stream, record) for stream in data for record in records]


E1 = np.array([1.0, 0.0], object)
NEIGHBOURS: dict[str, tuple[Any, Any]] = {
    "other label": (R * E1, 0),
    "other side": (-R * E1, 1),
    "other side and label": (-R * E1, 0),
    "far beyond the norm": (-1e6 * E1, 0),
    "as large as floats are": (np.array([-1.7e308, 1.7e308], object), 1),
    "tiny": (5e-324 * E1, 1),
    "zero": (0.0 * E1, 0),
    "not a number": (np.array([np.nan, 1.0], object), 1),
    "infinite": (np.array([-np.inf, 0.0], object), 0),
    "text": (np.array(["Ann", 0.0], object), 1),
    "nothing": (np.array([None, None], object), None),
    "unknown label": (R * E1, 7),
    "text as label": (R * E1, "Ann"),
    "list as label": (R * E1, frozenset({1})),
    "number too large": (np.array([10**400, 0], object), 0),
}


def assert_no_law_broken(setup: Setup, data: Data, slot: Slot, kinds: Any) -> None:
    data = neighbour(data, slot, R * E1, 1)
    first = transcript(setup, data, slot, honest(slot.record))
    assert first.calls
    for kind in kinds:
        second = replay(setup, first, neighbour(data, slot, *NEIGHBOURS[kind]), slot)
        assert not broken(setup, first, second, slot), (slot, kind)


@pytest.mark.parametrize("learning", LEARNINGS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_neighbour_breaks_a_law(schedule: str, learning: str) -> None:
    """Every schedule with every learner; the slots and the neighbours take turns."""
    setup, data = setup_of(schedule, learning), streams(schedule, 40)
    turn = sorted(SCHEDULES).index(schedule) + 5 * sorted(LEARNINGS).index(learning)
    kinds = [*NEIGHBOURS, *NEIGHBOURS]
    for slot in slots(data, [(7 * turn) % 36]):
        start = turn % len(NEIGHBOURS)
        assert_no_law_broken(setup, data, slot, kinds[start : start + 4])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_slot_breaks_a_law(schedule: str) -> None:
    """Every slot, so every place in every block and both sides of every power of two."""
    setup, data = setup_of(schedule, "mean, pure"), streams(schedule, 40, d=1)
    for slot in slots(data, range(40)):
        assert law_holds(setup, neighbour(data, slot, R, 1), slot, -R, 1, always(np.zeros))


@pytest.mark.parametrize("kind", NEIGHBOURS)
@pytest.mark.parametrize("learning", LEARNINGS)
def test_no_record_breaks_a_law(learning: str, kind: str) -> None:
    setup, data = setup_of("sliding 5", learning), streams("sliding 5", 24)
    assert_no_law_broken(setup, data, Slot(None, 10), [kind])


@pytest.mark.parametrize("learning", ["mean, pure", "mean, gaussian"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tapered_shares_break_no_law(schedule: str, learning: str) -> None:
    setup, data = setup_of(schedule, learning, allocation=Tapered()), streams(schedule, 40)
    for slot in slots(data, [0, 7, 8, 15, 16, 33]):
        assert_no_law_broken(setup, data, slot, ["other side"])


def blank(schedule: str, length: int, d: int = 2) -> Data:
    """Records that pull nowhere: nothing stands in the way of the one that changes."""
    return {
        name: (np.zeros((length, d), object), np.zeros(length, object))
        for name in streams(schedule, length)
    }


@pytest.mark.parametrize("learning", ["mean, pure", "mean, gaussian", "histogram, pure"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_record_can_lose_all_that_it_pays(schedule: str, learning: str) -> None:
    """The laws have teeth: the transcript costs 99 % of what the ledger says, at no law's cost."""
    setup, data = setup_of(schedule, learning), blank(schedule, 40)
    for slot in slots(data, [17, 20]):
        data = neighbour(data, slot, R * E1, 1)
        first = transcript(setup, data, slot, always(np.zeros))
        second = replay(setup, first, neighbour(data, slot, -R * E1, 0), slot)
        assert not broken(setup, first, second, slot)
        assert second is not None
        lost = total_cost(setup, first, second)
        assert first.paid > 0
        assert lost > Fraction(99, 100) * first.paid * whole_budget(setup)


def confident(shape: tuple[int, ...]) -> Floats:
    """A released model that is sure of class 0 as soon as the first feature is positive."""
    model = np.zeros(shape)
    model[0] = [1000.0, *[0.0] * (shape[1] - 1)] if len(shape) == 2 else -1000.0
    return model


UP, DOWN = R * np.array([0.02, 0.999], object), R * np.array([0.02, -0.999], object)


@pytest.mark.parametrize(
    ("learning", "script"),
    [
        *((f"{loss}, {kind}", confident)
          for loss in ("logistic", "softmax", "huber") for kind in ("pure", "gaussian")),
        *((f"{loss}, gradient", np.zeros) for loss in ("logistic", "softmax", "huber")),
    ],
)
def test_a_record_can_move_a_model_as_far_as_declared(learning: str, script: Any) -> None:
    """Two records that the prior is wrong about, pulling in opposite directions."""
    setup, data, slot = setup_of("continual", learning), blank("continual", 16), Slot(None, 9)
    first = transcript(setup, neighbour(data, slot, UP, 1), slot, always(script))
    second = replay(setup, first, neighbour(data, slot, DOWN, 1), slot)
    assert not broken(setup, first, second, slot)
    assert second is not None
    reached = [
        float(move(a, b)) / declared(setup, a.line.fit.span.size)
        for a, b in zip(first.calls, second.calls, strict=True)
    ]
    assert 0.99 < max(reached) <= 1


def declared(setup: Setup, n: int) -> float:
    """The sensitivity that the learner says it has."""
    if isinstance(setup.learner, OutputPerturbation):
        assert isinstance(setup.task, Task)
        return setup.learner.sensitivity(setup.task, n)
    assert isinstance(setup.learner, GradientPerturbation)
    assert isinstance(setup.task, Task)
    return 2 * 0.35 * setup.task.loss.lipschitz(setup.task.norm)


FORMATS: dict[str, Any] = {
    "float32": lambda X: X.astype(np.float32),
    "CSR": lambda X: sparse.csr_array(X),
    "float32 CSR": lambda X: sparse.csr_array(X.astype(np.float32)),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("learning", ["mean, pure", "softmax, pure", "logistic, gradient"])
def test_no_format_breaks_a_law(learning: str, form: str) -> None:
    setup, slot = setup_of("sliding 5", learning), Slot(None, 10)
    X = np.random.default_rng(3).normal(scale=R, size=(24, 2))
    y = np.arange(24) % 2
    X[10] = [R, 0]
    data: Data = {None: (FORMATS[form](X), y)}
    first = transcript(setup, data, slot, honest(1))
    for x in ([-R, 0], [np.nan, 1], [0, -1e30], [0, 0]):
        X[10] = x
        second = replay(setup, first, {None: (FORMATS[form](X), y)}, slot)
        assert not broken(setup, first, second, slot)
