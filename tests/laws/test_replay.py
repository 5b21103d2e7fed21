"""Neighbouring streams break no law under any schedule, loss and learner: see `replay`."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tests.laws.replay import (
    Data,
    Scene,
    Setup,
    Slot,
    always,
    broken,
    honest,
    laws_broken,
    move,
    neighbour,
    replay,
    total_cost,
    transcript,
    whole_budget,
)
from tests.laws.scenes import (
    DOWN,
    LEARNINGS,
    PURE,
    SCHEDULES,
    SCORED,
    SIMPLEST,
    SURVEYED,
    UP,
    R,
    blank,
    confident,
    every_schedule,
    names,
    pairs,
    setup_of,
)
from tidegate.checks import InvalidValueError
from tidegate.data.intake import clean
from tidegate.estimators import PrivateMean, SlidingWindowClassifier
from tidegate.learn import GradientPerturbation, OutputPerturbation
from tidegate.learn.learner import LEARNERS, Pull, Task
from tidegate.learn.loss import every_loss
from tidegate.learn.mean import MeanPerturbation
from tidegate.privacy import PureDP, Tapered
from tidegate.schedule import Independent, Schedule, TwoStream
from tidegate.schedule.plan import Plan


def streams(schedule: str, length: int, d: int = 2) -> Data:
    """Random records, some of which cannot be used, for one stream or two."""
    data: Data = {}
    for seed, name in enumerate(names(schedule)):
        rng = np.random.default_rng(seed)
        X = rng.normal(scale=R, size=(length, d)).astype(object)
        y = rng.integers(2, size=length).astype(object)
        X[5, 0], y[9], X[length - 1, -1] = np.nan, "none", "text"
        data[name] = (X, y)
    return data


def allocated(schedule: Schedule | TwoStream) -> bool:
    """Whether an allocation decides its shares; otherwise they are its own."""
    return isinstance(schedule, TwoStream) or schedule.allocated


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


def test_every_schedule_has_a_scene() -> None:
    """A new schedule without a scene would never be tested."""
    assert {type(schedule) for schedule in SCHEDULES.values()} == every_schedule()


def test_every_learner_and_every_loss_has_a_scene() -> None:
    assert {type(learner) for _, _, learner in LEARNINGS.values()} >= {*LEARNERS.values()}
    tasks = [task for _, task, _ in LEARNINGS.values() if isinstance(task, Task)]
    assert {type(task.loss) for task in tasks} == {*every_loss().values()}


@pytest.mark.parametrize(("schedule", "learning"), pairs())
def test_no_neighbour_breaks_a_law(schedule: str, learning: str) -> None:
    """Every schedule with every learner; the slots and the neighbours take turns."""
    setup, data = setup_of(schedule, learning), streams(schedule, 40)
    turn = turn_of(schedule, learning)
    kinds = [*NEIGHBOURS, *NEIGHBOURS]
    for slot in slots(data, [(7 * turn) % 36]):
        start = turn % len(NEIGHBOURS)
        assert_no_law_broken(setup, data, slot, kinds[start : start + 4])


SURVEY = Fraction(1, 5)


def turn_of(schedule: str, learning: str) -> int:
    """A number by which slots and neighbours take turns."""
    return sorted(SCHEDULES).index(schedule) + 5 * sorted(LEARNINGS).index(learning)


def a_third(pairs: Iterable[tuple[str, str]]) -> list[Any]:
    """Run a third of the pairs by default, spread over all schedules and learners; others slow."""
    slow = pytest.mark.slow
    return [pytest.param(*each, marks=[slow] if turn_of(*each) % 3 else []) for each in pairs]


@pytest.mark.parametrize(("schedule", "learning"), a_third(pairs(*SURVEYED)))
def test_no_neighbour_breaks_a_law_with_surveys(schedule: str, learning: str) -> None:
    """Survey, transform, descent and refit, or output: every line costs at most what it is paid."""
    setup, data = setup_of(schedule, learning, survey=SURVEY), streams(schedule, 40)
    turn = turn_of(schedule, learning)
    for slot in slots(data, [(5 * turn) % 36]):
        start = turn % len(NEIGHBOURS)
        assert_no_law_broken(setup, data, slot, [*NEIGHBOURS, *NEIGHBOURS][start : start + 4])


@pytest.mark.parametrize("kind", NEIGHBOURS)
@pytest.mark.parametrize("learning", SURVEYED)
def test_no_record_breaks_a_law_with_surveys_and_scores(learning: str, kind: str) -> None:
    shares = {"survey": SURVEY, "reserve": SCORED}
    setup, data = setup_of("fading", learning, **shares), streams("fading", 20)
    assert_no_law_broken(setup, data, Slot(None, 10), [kind])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "learning", ["logistic, gradient", "huber, pure", "target squared, gradient"]
)
@pytest.mark.parametrize(
    "schedule",
    ["fading", "sliding 5", pytest.param("two streams, sliding", marks=pytest.mark.slow)],
)
def test_no_slot_breaks_a_law_with_surveys_and_scores(schedule: str, learning: str) -> None:
    shares = {"survey": SURVEY, "reserve": SCORED}
    setup, data = setup_of(schedule, learning, **shares), streams(schedule, 28)
    for slot in slots(data, range(28)):
        assert_no_law_broken(setup, data, slot, ["other side and label", "unknown label"])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_slot_breaks_a_law(schedule: str) -> None:
    """Every slot, so every place in every block and both sides of every power of two."""
    setup, data = setup_of(schedule, SIMPLEST), streams(schedule, 40, d=1)
    for slot in slots(data, range(40)):
        scene = Scene(
            setup=setup,
            data=data,
            slot=slot,
            before=(R, 1),
            after=(-R, 1),
            script=always(np.zeros),
        )
        assert not laws_broken(scene), slot


@pytest.mark.parametrize("kind", NEIGHBOURS)
@pytest.mark.parametrize("learning", LEARNINGS)
def test_no_record_breaks_a_law(learning: str, kind: str) -> None:
    setup, data = setup_of("sliding 5", learning), streams("sliding 5", 24)
    assert_no_law_broken(setup, data, Slot(None, 10), [kind])


@pytest.mark.parametrize("learning", ["mean, pure", "mean, gaussian"])
@pytest.mark.parametrize("schedule", [s for s, each in SCHEDULES.items() if allocated(each)])
def test_tapered_shares_break_no_law(schedule: str, learning: str) -> None:
    setup, data = setup_of(schedule, learning, allocation=Tapered()), streams(schedule, 40)
    for slot in slots(data, [0, 7, 8, 15, 16, 33]):
        assert_no_law_broken(setup, data, slot, ["other side"])


@pytest.mark.parametrize(
    ("schedule", "learning"),
    pairs(
        "mean, pure",
        "mean, gaussian",
        "histogram, pure",
        "logistic, gradient",
        "target squared, gradient",
    ),
)
def test_a_record_can_lose_all_that_it_pays(schedule: str, learning: str) -> None:
    """The laws are tight: a transcript can cost over 99 % of what the ledger says."""
    setup, data = setup_of(schedule, learning), blank(schedule, 40)
    label = int(learning.endswith("gradient"))  # a histogram needs another, a gradient the same
    for slot in slots(data, [17, 20]):
        data = neighbour(data, slot, R * E1, 1)
        first = transcript(setup, data, slot, always(np.zeros))
        second = replay(setup, first, neighbour(data, slot, -R * E1, label), slot)
        assert not broken(setup, first, second, slot)
        assert second is not None
        lost = total_cost(setup, first, second)
        assert first.paid > 0
        assert lost > Fraction(99, 100) * first.paid * whole_budget(setup)


@pytest.mark.parametrize("records", [1, 2, 4])
@pytest.mark.parametrize("learning", ["mean, pure", "mean, gaussian", "logistic, gradient"])
def test_the_records_of_one_person_in_a_step_cost_their_number(learning: str, records: int) -> None:
    """k epsilon, or k mu: together they move one fit, which has one draw of noise."""
    setup, slot, data = setup_of("independent", learning), Slot(None, 0), blank("independent", 4)
    for record in range(records):
        data = neighbour(data, Slot(None, record), R * E1, 1)
    other = data
    for record in range(records):
        other = neighbour(other, Slot(None, record), -R * E1, 1)
    first = transcript(setup, data, slot, always(np.zeros))
    second = replay(setup, first, other, slot)
    assert second is not None
    lost = total_cost(setup, first, second)
    most = whole_budget(setup) * records ** (2 if setup.plan.budget.unit == "mu" else 1)
    assert Fraction(99, 100) * most < lost <= most


@pytest.mark.parametrize(
    ("learning", "script"),
    [
        *(
            (f"{loss}, {kind}", confident)
            for loss in ("logistic", "softmax", "huber", "target huber")
            for kind in ("pure", "gaussian")
        ),
        *(
            (f"{loss}, gradient", np.zeros)
            for loss in ("logistic", "softmax", "huber", "target huber", "target squared")
        ),
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
        # These scenes have a prior so long that gradients are as large as they are anywhere.
        return setup.learner.sensitivity(setup.task, n, d=2, rules=1)
    assert isinstance(setup.learner, GradientPerturbation)
    assert isinstance(setup.task, Task)
    if setup.task.predicts_target:
        return setup.task.norm
    return 2 * 0.35 * setup.task.loss.lipschitz(setup.task.norm)


FORMATS: dict[str, Any] = {
    "float32": lambda X: X.astype(np.float32),
    "CSR": sparse.csr_array,
    "float32 CSR": lambda X: sparse.csr_array(X.astype(np.float32)),
}


FORMATTED = [
    ("mean, pure", 0),
    *(
        (learning, share)
        for learning in ("softmax, pure", "logistic, gradient")
        for share in (0, SURVEY)
    ),
]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("learning", "survey"), FORMATTED)
def test_no_format_breaks_a_law(learning: str, survey: Fraction, form: str) -> None:
    setup, slot = setup_of("sliding 5", learning, survey=Fraction(survey)), Slot(None, 10)
    X = np.random.default_rng(3).normal(scale=R, size=(24, 2))
    y = np.arange(24) % 2
    X[10] = [R, 0]
    data: Data = {None: (FORMATS[form](X), y)}
    first = transcript(setup, data, slot, honest(1))
    for x in ([-R, 0], [np.nan, 1], [0, -1e30], [0, 0]):
        X[10] = x
        second = replay(setup, first, {None: (FORMATS[form](X), y)}, slot)
        assert not broken(setup, first, second, slot)


@pytest.mark.parametrize("kind", NEIGHBOURS)
def test_what_is_stored_in_a_slot_depends_on_its_record_alone(kind: str) -> None:
    """Also in lists, where numpy looks for a common type."""
    X = [[0.25, 0.5], [True, 1.5], [R, 0.0], [1e-3, 3]]
    y = [0, 1, 1, 0]
    before = clean(X, y, classes=[0, 1], norm=R)
    x, label = NEIGHBOURS[kind]
    after = clean([*X[:2], list(x), X[3]], [*y[:2], label, y[3]], classes=[0, 1], norm=R)
    for slot in (0, 1, 3):
        assert np.array_equal(after.X[slot], before.X[slot])
        assert after.y[slot] == before.y[slot]
        assert after.usable[slot] == before.usable[slot]


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_a_record_stays_as_it_came_in(form: Any) -> None:
    """Whatever the caller does with the arrays afterwards."""
    X, y = form(np.eye(4)), np.array([0, 1, 0, 1])
    releases = []
    for spoil in (False, True):
        classifier = SlidingWindowClassifier(
            budget=PURE, window=8, step=4, classes=[0, 1], norm=R, not_private_seed=1
        )
        mine, labels = X.copy(), y.copy()
        classifier.partial_fit(mine, labels)
        if spoil:
            mine[0, 0], labels[:] = 1e6, 1
            if form is sparse.csr_array:
                mine.data[:], mine.indices[:] = 9.0, 0
        releases.append(classifier.partial_fit(X, y).releases_[-1].weights)
    assert np.array_equal(releases[0], releases[1])


def test_parameters_set_in_mid_stream_are_refused() -> None:
    """A larger norm under noise for the first one would let a record move a release further."""
    summary = PrivateMean(budget=PURE, schedule=Independent(step=2), norm=1.0, not_private_seed=1)
    summary.partial_fit([[0.0]]).set_params(norm=100.0)
    with pytest.raises(InvalidValueError, match="norm has changed since the stream began"):
        summary.partial_fit([[1e6]])


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_a_sum_of_float32_is_exact(form: Any) -> None:
    """Additions that round up on one side of a power of two and down on the other."""
    schedule = Independent(step=2**14)
    setup = Setup(
        plan=Plan(schedule=schedule, budget=PURE),
        task=Pull(norm=1.0, regularization=0.0),
        learner=MeanPerturbation(),
        batch=schedule.step,
    )
    X = np.full((schedule.step, 1), 1.25 * 2.0**-24, np.float32)
    y, slot = np.zeros(schedule.step, np.intp), Slot(None, 0)
    X[0] = 1
    first = transcript(setup, {None: (form(X), y)}, slot, always(np.zeros))
    X[0] = -1
    second = replay(setup, first, {None: (form(X), y)}, slot)
    assert not broken(setup, first, second, slot)


def test_no_step_is_refused_for_the_size_of_its_noise() -> None:
    """A refusal would be an output that nobody has paid for; the tolerance is raised instead."""
    classifier = SlidingWindowClassifier(
        budget=PureDP(1e-3),
        window=8,
        step=4,
        classes=[0, 1],
        norm=1.0,
        regularization=1e-4,
        learner=OutputPerturbation(slack=1e-11),
    )
    X, y = np.eye(8), np.arange(8) % 2
    classifier.partial_fit(X, y)
    assert len(classifier.releases_) == 1
    assert classifier.ledger_.paid(4) > 0
