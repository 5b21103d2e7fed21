"""Classic mistakes, planted one at a time: the laws hold without each and break with it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.laws.replay import Scene, Setup, Slot, always, laws_broken
from tests.laws.scenes import (
    DOWN,
    PURE,
    SCHEDULES,
    SIMPLEST,
    UP,
    R,
    blank,
    confident,
    names,
    setup_of,
)
from tidegate.checks import InvalidValueError
from tidegate.data.intake import clean
from tidegate.data.records import Records, total
from tidegate.estimators import (
    ContinualClassifier,
    PrivateClassifier,
    PrivateHistogram,
    PrivateMean,
    SlidingWindowClassifier,
    TwoStreamClassifier,
)
from tidegate.learn import Huber, Logistic, OutputPerturbation, Softmax, gradient, learner, output
from tidegate.learn.learner import Pull, Task, Terms, Weights
from tidegate.learn.mean import HistogramPerturbation, MeanPerturbation
from tidegate.learn.objective import Objective
from tidegate.learn.slot_weights import weighted
from tidegate.learn.solver import Solution, certified_minimum
from tidegate.privacy import ApproxDP, Ledger, LedgerError, Line, PureDP
from tidegate.privacy.budget import sqrt_down
from tidegate.privacy.noise import Bits, NotPrivateBits, SystemBits, gaussian, l2_laplace, laplace
from tidegate.privacy.shares import Shares
from tidegate.run import executor
from tidegate.schedule import (
    Continual,
    Cumulative,
    Fit,
    Independent,
    MultiResolution,
    SlotWeight,
    Span,
    protocol,
)
from tidegate.schedule.plan import Plan

Patch = AbstractContextManager[Any]


def scene(schedule: str, learning: str, **changes: Any) -> Scene:
    """Two records that a released model is wrong about, pulling in opposite directions."""
    gradients = learning.endswith("gradient")
    usual = Scene(
        setup=setup_of(schedule, learning),
        data=blank(schedule, 32),
        slot=Slot(None, 9),
        before=(UP, 1),
        after=(DOWN, 1),
        script=always(np.zeros if gradients else confident),
    )
    return replace(usual, **changes)


def sensitivity_of(shrink: Callable[[int], float]) -> Patch:
    """An output perturbation whose sensitivity is too small by a factor that depends on n."""
    right = OutputPerturbation.sensitivity
    return patch.object(
        OutputPerturbation,
        "sensitivity",
        lambda self, task, n, *rest: right(self, task, n, *rest) * shrink(n),
    )


def lazy(objective: Objective, tolerance: float) -> Solution:
    """A point as far beyond the true minimum as the tolerance allows if the loss is linear."""
    exact = certified_minimum(objective, tolerance * 2.0**-10).weights
    away = exact - objective.center
    length = 0.99 * tolerance / (2 * objective.regularization)
    beyond = length * away / (np.linalg.norm(away) or 1.0)
    return Solution(weights=exact + beyond, gradient_norm=tolerance)


def slack_scene() -> Scene:
    usual = scene("continual", "huber, pure")
    return replace(usual, setup=replace(usual.setup, learner=OutputPerturbation(slack=0.5)))


def without_tolerance(self: OutputPerturbation, task: Task, n: int, *rest: object) -> float:
    del self, rest
    assert task.regularization is not None
    return task.loss.lipschitz(task.norm) / (task.regularization * n)


def half_regularised(self: Objective, w: Weights, *, draft: bool = False) -> Weights:
    """The second coordinate is drawn to the center half as strongly as the others."""
    true: Weights = RIGHT_GRADIENT(self, w, draft=draft)
    free = np.zeros(w.shape)
    free[1] = 1
    return true - self.regularization * free * (w - self.center)


RIGHT_GRADIENT = Objective.gradient
SAMPLED = scene("multiresolution, sampled", "mean, pure", before=([R, 0], 1), after=([-R, 0], 1))
DIAGONAL = [0.02 * R, 0.7 * R, 0.7 * R], [0.02 * R, -0.7 * R, -0.7 * R]


def histogram(kind: str) -> Scene:
    return scene("sliding 5", f"histogram, {kind}", after=(UP, 0), script=always(np.zeros))


def growing(learning: str = "logistic, gradient") -> Scene:
    """The record is in the first block, whose slot weight falls from base to base."""
    return scene("growing", learning, slot=Slot(None, 5))


def fading(learning: str, **changes: Any) -> Scene:
    """The record is read at three ages."""
    return scene("fading", learning, slot=Slot(None, 9), **changes)


def weighed_before_clipping(part: Any, **given: Any) -> Any:
    """A sum in which a small gradient is not clipped, and so counts for more than its weight."""
    weights = part.slot_weights

    def first(residuals: Any, lengths: Any, clip: float) -> Any:
        return CLIPPED((residuals.T * weights).T, lengths, clip)

    with patch.object(gradient, "clipped", first):
        return CLIPPED_SUM(part._replace(slot_weights=None), **given)


CLIPPED, CLIPPED_SUM = gradient.clipped, gradient.clipped_sum


def counting(wrong: Callable[[Sequence[SlotWeight]], Sequence[SlotWeight]]) -> Patch:
    """Records that have another slot weight than they pay for."""
    return patch.object(executor, "weighted", lambda pieces, rest: weighted(pieces, wrong(rest)))


def all_one(slot_weights: Sequence[SlotWeight]) -> list[SlotWeight]:
    return [each._replace(part=Fraction(1)) for each in slot_weights]


def by_the_block_after(slot_weights: Sequence[SlotWeight]) -> list[SlotWeight]:
    parts = [part for _, part in (*slot_weights[1:], *slot_weights[-1:])]
    return [SlotWeight(span, part) for (span, _), part in zip(slot_weights, parts, strict=True)]


def by_their_root(slot_weights: Sequence[SlotWeight]) -> list[SlotWeight]:
    """What would be right if a record of slot weight e paid e, and not its square."""
    return [each._replace(part=Fraction(sqrt_down(each.part))) for each in slot_weights]


def led_by_labels(task: Task, terms: Terms, records: Any, descent: Any, perturb: Any) -> Any:
    """A lead that is read off the records, as a line search would do."""
    first = float(total(records, lambda part: np.array(np.sum(part.y == 0))))
    return DESCEND(task, terms, records, replace(descent, lead=first / records.n), perturb)


DESCEND = gradient.descend


PLANTED: dict[str, tuple[Scene, Callable[[], Patch]]] = {
    "sensitivity divided by the batch size": (
        scene("continual", "logistic, pure"),
        lambda: sensitivity_of(lambda n: 1 / n),
    ),
    "lambda taken for 2 lambda": (
        scene("sliding 5", "logistic, gaussian"),
        lambda: sensitivity_of(lambda _: 0.5),
    ),
    "norm left out of the Lipschitz constant": (
        scene("continual", "huber, pure"),
        lambda: patch.object(Huber, "lipschitz", lambda *_: 1.0),
    ),
    "square root of the norm": (
        scene("sliding 5", "logistic, pure"),
        lambda: patch.object(Logistic, "lipschitz_at_minimum", lambda _, norm, **__: norm**0.5),
    ),
    "softmax without the root of two": (
        scene("sliding 5", "softmax, pure"),
        lambda: patch.object(Softmax, "lipschitz", lambda _, norm: norm),
    ),
    "noise of a single class for all of softmax": (
        scene("continual", "softmax, gaussian"),
        lambda: sensitivity_of(lambda _: 3**-0.5),
    ),
    "weakly regularised intercept": (
        scene("continual", "huber, gaussian"),
        lambda: patch.object(Objective, "gradient", half_regularised),
    ),
    "independent Laplace for an L2 bound": (
        scene(
            "continual",
            "logistic, pure",
            data=blank("continual", 32, d=3),
            before=(DIAGONAL[0], 1),
            after=(DIAGONAL[1], 1),
        ),
        lambda: patch.object(output, "l2_laplace", laplace),
    ),
    "L2 bound for independent Laplace": (
        histogram("pure"),
        lambda: patch.object(HistogramPerturbation, "scale", lambda _, __, a: 2**0.5 / a.amount),
    ),
    "histogram that counts one category": (
        histogram("gaussian"),
        lambda: patch.object(HistogramPerturbation, "scale", lambda _, __, a: 1 / a.amount),
    ),
    "radius taken for diameter": (
        scene("basic", "mean, gaussian", before=([R, 0], 1), after=([-R, 0], 1)),
        lambda: patch.object(MeanPerturbation, "scale", lambda _, task, a: task.norm / a.amount),
    ),
    "clip taken for twice the clip": (
        scene("continual", "logistic, gradient"),
        lambda: patch.object(gradient, "deviation", lambda clip, j, mu: clip * j**0.5 / mu),
    ),
    "steps of descent that are not added up": (
        scene("continual", "softmax, gradient"),
        lambda: patch.object(gradient, "deviation", lambda clip, _, mu: 2 * clip / mu),
    ),
    "noise of descent divided by the batch size": (
        scene("continual", "huber, gradient"),
        lambda: patch.object(gradient, "deviation", lambda c, j, mu: 2 * c * j**0.5 / mu / 4),
    ),
    "gradients that are not clipped": (
        scene("continual", "logistic, gradient"),
        lambda: patch.object(gradient, "clipped", lambda residuals, *_: residuals),
    ),
    "amplification by the ratio itself": (
        SAMPLED,
        lambda: patch.object(learner, "epsilon_for_sample", lambda e, m, n: e * n / m),
    ),
    "slot weights that are not applied": (growing(), lambda: counting(all_one)),
    "slot weights of the block after": (growing(), lambda: counting(by_the_block_after)),
    "square roots of slot weights": (growing(), lambda: counting(by_their_root)),
    **{
        f"slot weights that are not applied, {learning}": (
            fading(learning, before=([R, 0], 1), after=([-R, 0], 0), script=always(np.zeros)),
            lambda: counting(all_one),
        )
        for learning in ("mean, pure", "mean, gaussian", "histogram, pure", "histogram, gaussian")
    },
    **{
        f"slot weights of the block after, {learning}": (
            fading(learning),
            lambda: counting(by_the_block_after),
        )
        for learning in ("huber, pure", "huber, gaussian", "logistic, gradient")
    },
    "slots weighed before they are clipped": (
        fading("logistic, gradient"),
        lambda: patch.object(gradient, "clipped_sum", weighed_before_clipping),
    ),
    "noise scaled by a slot weight": (
        growing(),
        lambda: patch.object(gradient, "deviation", lambda c, j, mu: 2 * c * j**0.5 / mu * 0.75),
    ),
}


def without_a_limit() -> Patch:
    """A ledger that refuses nothing, to show that the laws find a mistake without it."""
    defaults = Ledger.__init__.__kwdefaults__
    assert defaults is not None
    return patch.dict(defaults, limit=None)


def test_a_schedule_that_charges_four_thirds_breaks_a_law() -> None:
    """The ledger refuses it; without that refusal, a law would still find it."""
    honest = scene("independent", "mean, pure", before=([R, 0], 1), after=([-R, 0], 1))
    wrong = patch.object(Shares, "_scale", property(lambda s: 4 / s.certificate.supremum / 3))
    assert laws_broken(fresh(honest)) == set()
    with wrong:
        with pytest.raises(LedgerError, match="would take record 0 to 4/3 of its budget"):
            laws_broken(fresh(honest))
        with without_a_limit():
            assert laws_broken(fresh(honest)) & {"fit", "budget"}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_breaks_a_law(mistake: str) -> None:
    honest, plant = PLANTED[mistake]
    assert laws_broken(fresh(honest)) == set()
    with plant():
        assert laws_broken(fresh(honest)) & {"fit", "budget"}


def test_a_lead_that_is_read_off_the_records_is_no_post_processing() -> None:
    moved = scene("fading", "softmax, gradient", after=(UP, 0), script=always(np.ones))
    assert laws_broken(fresh(moved)) == set()
    with patch.object(gradient, "descend", led_by_labels):
        assert "post-processing" in laws_broken(fresh(moved))


@pytest.mark.parametrize("power", [1, 3])
def test_a_gaussian_charge_that_is_not_the_square_breaks_a_law(power: int) -> None:
    """A linear charge would be more than the noise costs; a higher power would be less."""

    def charges(line: Line) -> Iterator[tuple[Span, Fraction]]:
        parts = line.fit.slot_weights or [SlotWeight(line.fit.span, Fraction(1))]
        yield from ((span, line.share * part**power) for span, part in parts)

    two_bases = replace(growing(), data=blank("growing", 12))
    assert laws_broken(two_bases) == set()
    with patch.object(Line, "charges", property(charges)):
        assert "ledger" in laws_broken(two_bases)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_half_of_the_noise_missing_breaks_a_law(schedule: str) -> None:
    """For every schedule, also for new ones."""
    slot = Slot(names(schedule)[0], 9)
    strongest = scene(
        schedule,
        SIMPLEST,
        data=blank(schedule, 40),
        slot=slot,
        before=([R, 0], 1),
        after=([-R, 0], 1),
        script=always(np.zeros),
    )
    assert laws_broken(strongest) == set()
    scale, deviation = MeanPerturbation.scale, gradient.deviation
    with (
        patch.object(MeanPerturbation, "scale", lambda *given: scale(*given) / 2),
        patch.object(gradient, "deviation", lambda *given: deviation(*given) / 2),
    ):
        assert "fit" in laws_broken(strongest)


def fresh(original: Scene) -> Scene:
    """The same scene with a plan that has not cached anything."""
    plan = original.setup.plan
    assert isinstance(plan, Plan)
    return replace(original, setup=replace(original.setup, plan=replace(plan)))


def test_a_tolerance_left_out_of_the_sensitivity_breaks_a_law() -> None:
    """The solver may stop early, so the sensitivity must include its tolerance."""
    with patch.object(output, "certified_minimum", lazy):
        assert laws_broken(slack_scene()) == set()
        with patch.object(OutputPerturbation, "sensitivity", without_tolerance):
            assert "fit" in laws_broken(slack_scene())


def forgotten_prior(_: object, norm: float, *, center_norm: float, regularization: float) -> float:
    """A bound on gradients as if the minimiser were near the origin."""
    del center_norm
    return AT_MINIMUM(Logistic(), norm, center_norm=0.0, regularization=regularization)


AT_MINIMUM = Logistic.lipschitz_at_minimum
STEEP: dict[str, Callable[..., float]] = {
    "the norm of the prior forgotten": forgotten_prior,
    "a quarter of G": lambda _, norm, **__: norm / 4,
}


@pytest.mark.parametrize("mistake", STEEP)
def test_a_bound_on_gradients_that_is_too_small_breaks_a_law(mistake: str) -> None:
    """At the minimiser: a record pulls harder where a long prior is wrong about it."""
    honest = scene("continual", "logistic, pure")
    assert laws_broken(fresh(honest)) == set()
    with patch.object(Logistic, "lipschitz_at_minimum", STEEP[mistake]):
        assert "fit" in laws_broken(fresh(honest))


def old_slots() -> Scene:
    """A solver with a coarse tolerance, and a record that counts for less from fit to fit."""
    found = fading("huber, pure")
    return replace(found, setup=replace(found.setup, learner=OutputPerturbation(slack=0.9)))


def nosy(objective: Objective, tolerance: float) -> Solution:
    """A minimiser that errs in the direction of the rows it sees, whatever they count for."""
    exact = certified_minimum(objective, tolerance * 2.0**-10).weights
    rows = objective.records.fold(lambda part: part.X[part.usable].sum(0), np.add)
    length = 0.99 * tolerance / (2 * objective.regularization)
    return Solution(
        weights=exact + length * rows / (np.linalg.norm(rows) or 1.0), gradient_norm=tolerance
    )


def kept_in_place(records: Records, *, factors: dict[float, float]) -> Records:
    """Multiplies a row that counts for nothing by 0, but leaves it where a solver sees it."""
    assert records.slot_weights is not None
    return replace(records, slot_weights=np.array([factors[e] for e in records.slot_weights]))


DISCOUNTED = output.discounted
SECTION_10: dict[str, tuple[Any, Callable[[], Patch]]] = {
    "theta left out": (
        lazy,
        lambda: patch.object(output, "discounted", lambda w, _: DISCOUNTED(w, Fraction(0))),
    ),
    "M rounded down": (
        lazy,
        lambda: patch.object(
            output, "Objective", lambda *a, mass, **rest: Objective(*a, mass=int(mass), **rest)
        ),
    ),
    "a row of weight 0 that the solver still reads": (
        nosy,
        lambda: patch.object(output, "reweighed", kept_in_place),
    ),
    "squares where pure charges are linear": (
        lazy,
        lambda: patch.object(PureDP, "power", 2),
    ),
}


@pytest.mark.parametrize("mistake", SECTION_10)
def test_a_mistake_with_slot_weights_breaks_a_law(mistake: str) -> None:
    """The solver errs as far as it may: what a slot counts for must make up for it."""
    solver, plant = SECTION_10[mistake]
    with patch.object(output, "certified_minimum", solver):
        assert laws_broken(fresh(old_slots())) == set()
        with plant():
            assert "fit" in laws_broken(fresh(old_slots()))


def test_noise_for_the_span_and_not_for_the_sample_breaks_a_law() -> None:
    honest = scene("continual", "huber, pure")
    sampled = Continual(block=8, step=4, sample=2)
    plan = Plan(schedule=sampled, budget=PURE)
    honest = replace(honest, setup=replace(honest.setup, plan=plan))
    assert laws_broken(honest) == set()
    with sensitivity_of(lambda _: 0.5):  # 2 slots for the 4 of a step
        assert "fit" in laws_broken(honest)


class NormOffTheData(Setup):
    """Clips to the largest norm of the batch."""

    def records(self, X: Any, y: Any) -> Records:
        largest = max(1.0, float(np.linalg.norm(X.astype(float), axis=1).max()))
        return clean(X, y, classes=self.classes, norm=largest)


class Dropping(Setup):
    """Drops records that cannot be used."""

    def records(self, X: Any, y: Any) -> Records:
        records = super().records(X, y)
        return records.take(np.flatnonzero(records.usable))


class LateIntercept(Setup):
    """Appends a constant coordinate after clipping."""

    def records(self, X: Any, y: Any) -> Records:
        records = super().records(X, y)
        constant = np.full((records.n, 1), self.task.norm) * records.usable[:, None]
        return replace(records, X=np.hstack([records.X, constant]))


class NanInPlace(Setup):
    """Gives unusable records the weight 0 but keeps their values: 0 times NaN is not 0."""

    def records(self, X: Any, y: Any) -> Records:
        records = super().records(X, y)
        return replace(records, X=X.astype(float))


@pytest.mark.parametrize(
    ("mistake", "found", "law"),
    [
        (NormOffTheData, scene("basic", "mean, pure", after=(-50 * UP, 1)), "fit"),
        (Dropping, scene("basic", "mean, pure", after=([np.nan, 0], 1)), "control flow"),
        (Dropping, scene("sliding 5", "softmax, pure", after=(UP, 7)), "control flow"),
        (
            LateIntercept,
            scene(
                "continual",
                "huber, pure",
                before=([0, R], 1),
                after=([0, R], 0),
                script=always(np.zeros),
            ),
            "fit",
        ),
        (NanInPlace, scene("continual", "huber, pure", after=([np.nan, 0], 1)), "control flow"),
    ],
)
def test_a_mistake_with_records_breaks_a_law(mistake: type[Setup], found: Scene, law: str) -> None:
    fields = {**vars(found.setup), "task": replace(found.setup.task, regularization=4.0)}
    assert laws_broken(replace(found, setup=Setup(**fields))) == set()
    assert law in laws_broken(replace(found, setup=mistake(**fields)))


class NormOfTheRecords(OutputPerturbation):
    """Adds noise for the largest norm that it sees."""

    def fit(self, task: Task, terms: Terms, records: Any, bits: Bits) -> Weights:
        largest = max(float(np.linalg.norm(records.X, axis=1).max()), 0.1)
        return super().fit(replace(task, norm=largest), terms, records, bits)


class CategoriesOfTheRecords(HistogramPerturbation):
    """Counts the categories that it sees."""

    def fit(self, task: Pull, terms: Terms, records: Any, bits: Bits) -> Weights:
        seen = int(records.y.max()) + 1
        return HistogramPerturbation(seen).fit(task, terms, records, bits)


class MeanOfTheUsable(MeanPerturbation):
    """Divides by the number of usable records, which is private."""

    def fit(self, task: Pull, terms: Terms, records: Any, bits: Bits) -> Weights:
        share = records.n / max(1, int(records.usable.sum()))
        made: Weights = super().fit(task, terms, records, bits) * share
        return made


@pytest.mark.parametrize(
    ("mistake", "found", "law"),
    [
        (
            NormOfTheRecords(),
            scene("basic", "logistic, pure", after=(0.1 * UP, 1)),
            "control flow",
        ),
        (CategoriesOfTheRecords(3), histogram("pure"), "control flow"),
        (
            MeanOfTheUsable(),
            scene("basic", "mean, pure", after=(UP, 7), script=always(np.ones)),
            "post-processing",
        ),
    ],
)
def test_a_learner_that_looks_at_records_breaks_a_law(mistake: Any, found: Scene, law: str) -> None:
    assert laws_broken(found) == set()
    assert law in laws_broken(replace(found, setup=replace(found.setup, learner=mistake)))


class OneLevelTooMany(MultiResolution):
    """An off-by-one in how often 2 divides the time."""

    def due(self, now: int) -> Sequence[Fit]:
        fits = [fit._replace(number=2 * fit.number) for fit in super().due(now)]
        size = 2 * fits[-1].span.size if fits else now + 1
        if size > now:
            return fits
        last = fits[-1]
        extra = last._replace(
            number=last.number + 1, span=Span(now - size, now), level=last.level + 1
        )
        return [*fits, extra]


class UpdateBesideTheBase(Continual):
    """Makes an update as well as the base at a doubling."""

    def due(self, now: int) -> Sequence[Fit]:
        fits = [
            fit._replace(number=2 * fit.number, prior=None if fit.prior is None else 2 * fit.prior)
            for fit in super().due(now)
        ]
        if not fits or fits[0].role == "update" or now == self.first:
            return fits
        base = fits[0]
        span = Span(now // 2, now)
        level = span.size.bit_length() - 1
        return [
            base,
            base._replace(
                number=base.number + 1, span=span, prior=base.number, role="update", level=level
            ),
        ]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (MultiResolution(block=4), OneLevelTooMany(block=4)),
        (Continual(block=8, step=4), UpdateBesideTheBase(block=8, step=4)),
    ],
)
def test_an_off_by_one_at_powers_of_two_breaks_a_law(
    right: MultiResolution | Continual,
    wrong: MultiResolution | Continual,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The plan and the ledger refuse it; without both refusals, the laws would still find it."""
    with pytest.raises(InvalidValueError, match="one that a certificate is proved for"):
        Plan(schedule=wrong, budget=PURE)
    monkeypatch.setitem(protocol.SCHEDULES, "wrong", type(wrong))
    honest = scene("independent", "mean, pure", before=([R, 0], 1), after=([-R, 0], 1))
    right_scene, wrong_scene = (
        replace(honest, setup=replace(honest.setup, plan=Plan(schedule=schedule, budget=PURE)))
        for schedule in (right, wrong)
    )
    assert laws_broken(right_scene) == set()
    with pytest.raises(LedgerError, match="of its budget"):
        laws_broken(wrong_scene)
    with without_a_limit():
        assert laws_broken(wrong_scene) == {"ledger", "budget"}


@pytest.mark.parametrize("epsilon", [0, -1.0, float("nan"), float("inf"), 1e-320])
def test_no_budget_no_release(epsilon: float) -> None:
    """Without a budget there is an error, never a value without noise."""
    with pytest.raises(InvalidValueError):
        PureDP(epsilon)
    with pytest.raises(InvalidValueError):
        ApproxDP(epsilon, 1e-6)


@pytest.mark.parametrize("mechanism", [gaussian, laplace, l2_laplace])
@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_no_scale_no_release(mechanism: Any, scale: float) -> None:
    with pytest.raises(InvalidValueError):
        mechanism(np.ones(2), scale, NotPrivateBits(0))


ESTIMATORS: list[tuple[Any, dict[str, Any]]] = [
    (PrivateMean, {"schedule": Independent(step=4), "norm": R}),
    (PrivateHistogram, {"schedule": Independent(step=4), "categories": [0, 1]}),
    (PrivateClassifier, {"classes": [0, 1], "norm": R}),
    (ContinualClassifier, {"block": 4, "step": 4, "classes": [0, 1], "norm": R}),
    (SlidingWindowClassifier, {"window": 4, "step": 2, "classes": [0, 1], "norm": R}),
    (TwoStreamClassifier, {"source": Cumulative(block=2), "step": 2, "classes": [0, 1], "norm": R}),
]


@pytest.mark.parametrize(("estimator", "options"), ESTIMATORS)
def test_noise_comes_from_the_operating_system_unless_there_is_a_seed(
    estimator: Any, options: dict[str, Any]
) -> None:
    y = np.array([0, 1, 0, 1])
    X = y if estimator is PrivateHistogram else np.eye(4)
    asked: list[int] = []

    def words(_: SystemBits, count: int) -> Any:
        asked.append(count)
        return NotPrivateBits(len(asked)).words(count)

    for seed, private in ((None, True), (7, False)):
        made = estimator(budget=PURE, not_private_seed=seed, **options)
        asked.clear()
        with patch.object(SystemBits, "words", words):
            made.fit(X, y)
        assert bool(asked) == private
        assert {release.private for release in made.releases_} == {private}
        assert all(release.card["private"] == private for release in made.releases_)


def test_two_runs_on_the_same_records_do_not_share_noise() -> None:
    weights = [
        PrivateMean(budget=PURE, schedule=Independent(step=4), norm=R)
        .fit(np.eye(4))
        .releases_[-1]
        .weights
        for _ in range(2)
    ]
    assert not np.array_equal(weights[0], weights[1])
