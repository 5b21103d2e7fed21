"""Streams: cut as one likes, held as long as needed, released as the plan says."""

import pickle
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from fractions import Fraction
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from tests.estimators.estimators import (
    SEED,
    STREAMS,
    StreamEstimator,
    batch_for,
    classifier,
    private_histogram,
    private_mean,
    same,
    weights,
)
from tidegate import (
    ApproxDP,
    ContinualClassifier,
    PrivateClassifier,
    PureDP,
    SlidingWindowClassifier,
    TwoStreamClassifier,
)
from tidegate.data.intake import Intake
from tidegate.data.predicted import Classes
from tidegate.data.records import Records, join
from tidegate.learn import GradientPerturbation, Logistic, OutputPerturbation
from tidegate.learn.learner import Task, Terms, Trainer
from tidegate.learn.preparation import Moments
from tidegate.learn.refit import Fold
from tidegate.learn.survey import survey
from tidegate.learn.transform import Transform
from tidegate.privacy import Budget, Ledger, LedgerError, Line, epsilon_for_sample
from tidegate.privacy.budget import allowance_of
from tidegate.privacy.noise import NotPrivateBits
from tidegate.privacy.sampling import draw
from tidegate.privacy.shares import Shares
from tidegate.run import held as held_module
from tidegate.run.executor import TrainedFit
from tidegate.run.held import Held
from tidegate.run.memory_run import MemoryRun
from tidegate.schedule import (
    Basic,
    Continual,
    Cumulative,
    Independent,
    MultiResolution,
    SlidingWindow,
    Span,
    TwoStream,
)
from tidegate.schedule.plan import Plan, TwoStreamPlan, default_survey
from tidegate.schedule.progress import ONLY

Container = Callable[[Any], Any]
CONTAINERS: dict[str, Container] = {
    "dense": np.asarray,
    "Fortran": np.asfortranarray,
    "float32": lambda X: np.asarray(X, np.float32),
    "sparse": sparse.csr_array,
    "lists": lambda X: X.tolist(),
}
BUDGETS: list[Budget] = [PureDP(1.0), ApproxDP(1.0, 1e-6)]


def soiled(records: int) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """A stream in which some records cannot be used and some are clipped."""
    X, y = batch_for(None, records)
    X[3, 1], X[5] = np.nan, 100.0
    return X, np.where(np.arange(records) % 7 == 6, 9, y)


def cuts_of(records: int) -> st.SearchStrategy[list[int]]:
    inside = st.lists(st.integers(1, records - 1), unique=True).map(sorted)
    return inside.map(lambda cuts: [0, *cuts, records])


def feed(
    face: StreamEstimator, X: Any, y: Any, cuts: Iterable[int], container: Container, **where: Any
) -> StreamEstimator:
    for start, stop in pairwise(cuts):
        face.partial_fit(container(X[start:stop]), None if y is None else y[start:stop], **where)
    return face


@pytest.mark.thorough
@settings(max_examples=40)
@given(
    st.sampled_from(STREAMS),
    st.sampled_from(sorted(CONTAINERS)),
    st.sampled_from(BUDGETS),
    cuts_of(30),
)
def test_cuts_make_no_difference_to_classifiers(
    kind: type, name: str, budget: Budget, cuts: list[int]
) -> None:
    X, y = soiled(30)
    whole, cut = classifier(kind, budget=budget), classifier(kind, budget=budget)
    streams = [{"stream": "source"}, {"stream": "target"}] if kind is TwoStreamClassifier else [{}]
    for where in streams:
        feed(whole, X, y, [0, 30], CONTAINERS[name], **where)
        feed(cut, X, y, cuts, CONTAINERS[name], **where)
    assert same(whole, cut)
    assert len(weights(whole)) > 3


@settings(max_examples=30)
@given(st.sampled_from(sorted(CONTAINERS)), cuts_of(30))
def test_cuts_make_no_difference_to_summaries(name: str, cuts: list[int]) -> None:
    X, y = soiled(30)
    whole, cut = private_mean(), private_mean()
    feed(whole, X, None, [0, 30], CONTAINERS[name])
    assert same(feed(cut, X, None, cuts, CONTAINERS[name]), whole)
    words = [{0: "mild", 1: "severe"}.get(label) for label in y.tolist()]
    histogram = private_histogram().partial_fit(words)
    assert same(feed(private_histogram(), words, None, cuts, list), histogram)


@pytest.mark.parametrize("first", ["dense", "float32", "sparse"])
def test_the_first_batch_fixes_the_form(first: str) -> None:
    """A stream of mixed batches is stored in one form, and predicts in it."""
    X, y = batch_for(None, records=30)
    face = classifier(SlidingWindowClassifier)
    face.partial_fit(CONTAINERS[first](X[:10]), y[:10])
    for i, name in enumerate(["sparse", "float32", "dense", "lists"]):
        part = slice(10 + 5 * i, 15 + 5 * i)
        face.partial_fit(CONTAINERS[name](X[part]), y[part])
        run = face._begun.run.steps.held[ONLY]
        held = run.read(Span(run.first, run.count)).X
        assert sparse.issparse(held) == (first == "sparse")
        assert held.dtype == (np.float32 if first == "float32" else np.float64)
    one, two = face.decision_function(X), face.decision_function(sparse.csr_array(X))
    assert np.array_equal(one, two)


def naive(
    plan: Any, lines: Iterable[Line], arrivals: Iterable[Any], records: Mapping[Any, Records]
) -> list[NDArray[np.float64]]:
    """The releases of a plan, each survey and each fit by hand from all records.

    Args:
        plan: The plan, of one stream or two.
        lines: All of its lines.
        arrivals: The stream of each step that is complete, in order.
        records: The records of each stream.
    """
    budget, bits, released, waiting = plan.budget, NotPrivateBits(SEED), [], list(lines)
    learner = OutputPerturbation() if budget.unit == "epsilon" else GradientPerturbation()
    raw = Task(loss=Logistic(), norm=10.0, regularization=1e-3)
    models: dict[int, NDArray[np.float64]] = {}
    folds: dict[int, Fold] = {}
    transforms: dict[int, Transform] = {}
    moments: dict[Any, Moments] = {}
    done: dict[Any, int] = {}
    for stream in arrivals:
        size = (plan.steps if stream is None else plan.schedule.steps[stream]).size
        step = np.arange(done.get(stream, 0), done.get(stream, 0) + size)
        done[stream] = int(step[-1]) + 1
        transform = None
        if plan.survey:
            spent = allowance_of(budget, plan.survey)
            slots = records[stream].take(step)
            seen = survey(slots, norm=10.0, classes=2, allowance=spent, bits=bits)
            before = moments.get(stream) or Moments.before_first(3, 2)
            moments[stream] = before.after(seen)
            transform = moments[stream].transform(norm=10.0, sparse=False)
        while waiting and (waiting[0].fit.stream, waiting[0].fit.at) == (stream, done[stream]):
            fit, share = waiting.pop(0)
            slots = records[stream].take(np.arange(*fit.span))
            spent = allowance_of(budget, share)
            if fit.sample is not None:
                slots = slots.take(draw(fit.sample, fit.span.size, bits))
                if spent.unit == "epsilon":
                    whole = epsilon_for_sample(spent.amount, fit.sample, fit.span.size)
                    spent = spent._replace(amount=whole)
            earlier = [
                None if fit.prior is None else models[fit.prior],
                None if fit.start is None else folds[fit.start].out_of(models[fit.start]),
            ]
            task, shares = raw, tuple[float, ...]()
            if transform is not None:
                task, shares = raw.centred(), moments[stream].class_shares
                slots = transform.records(slots)
                earlier = [
                    model
                    if model is None or number is None or transforms[number] is transform
                    else transform.carried(model, transforms[number])
                    for model, number in zip(earlier, (fit.prior, fit.start), strict=True)
                ]
                transforms[fit.number] = transform
            prior, start = earlier
            terms = Terms(
                allowance=spent, prior=prior, start=start, behind=fit.behind, class_shares=shares
            )
            if isinstance(learner, GradientPerturbation):
                models[fit.number], folds[fit.number] = learner.fitted(task, terms, slots, bits)
            else:
                models[fit.number] = learner.fit(task, terms, slots, bits)
                folds[fit.number] = Fold()
            if fit.released:
                released.append(models[fit.number])
    assert not waiting
    return released


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("sample", [None, 3])
@pytest.mark.parametrize(
    ("kind", "schedule"),
    [
        (SlidingWindowClassifier, SlidingWindow(window=12, step=4)),
        (SlidingWindowClassifier, SlidingWindow(window=28, step=4)),
        (ContinualClassifier, Continual(block=8, step=4)),
    ],
)
def test_releases_are_the_fits_of_the_plan(
    kind: type, schedule: Any, budget: Budget, sample: int | None
) -> None:
    X, y = soiled(64)
    named = {
        name: getattr(schedule, name) for name in ("window", "block") if hasattr(schedule, name)
    }
    face = classifier(kind, budget=budget, step=4, sample=sample, **named).partial_fit(X, y)
    public = type(schedule)(step=4, sample=sample, **named)
    plan = Plan(schedule=public, budget=budget, survey=default_survey(budget))
    records = {None: Intake(norm=10.0, predicted=Classes([0, 1])).records(X, y)}
    expected = naive(plan, plan.lines(until=64), [None] * 16, records)
    assert len(face.releases_) == len(expected) > 5
    for release, model in zip(face.releases_, expected, strict=True):
        assert np.array_equal(release.weights, model)
    for release, (fit, share) in zip(
        face.releases_, (line for line in plan.lines(64) if line.fit.released), strict=True
    ):
        assert (release.fit, release.share) == (fit, share)
    assert [release.number for release in face.releases_] == list(range(len(expected)))
    for record in range(64):
        assert face.ledger_.paid(record) == plan.paid(record, at=64)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("source", [Cumulative(block=10), SlidingWindow(window=12, step=4)])
def test_releases_of_two_streams(budget: Budget, source: Any) -> None:
    X, y = soiled(40)
    other_X, other_y = batch_for(None, records=40, seed=1)
    face = classifier(TwoStreamClassifier, budget=budget, source=source)
    arrivals: list[Any] = []
    for start in range(0, 40, 20):
        part = slice(start, start + 20)
        face.partial_fit(X[part], y[part], stream="source")
        face.partial_fit(other_X[part], other_y[part])
        arrivals += ["source"] * source.steps.complete(20) + ["target"] * 5
    two, paid = TwoStream(source=source, step=4), default_survey(budget)
    plan = TwoStreamPlan(schedule=two, budget=budget, survey=paid)
    intake = Intake(norm=10.0, predicted=Classes([0, 1]))
    records = {"source": intake.records(X, y), "target": intake.records(other_X, other_y)}
    expected = naive(plan, plan.lines(arrivals), arrivals, records)
    assert len(weights(face)) == len(expected) > 8
    for mine, model in zip(weights(face), expected, strict=True):
        assert np.array_equal(mine, model)
    ledgers = plan.ledgers()
    charged = list(plan.charge(ledgers, arrivals))
    assert {line.fit.stream for line in charged} == {"source", "target"}
    assert list(face.ledgers_.source.runs()) == list(ledgers.source.runs())
    assert list(face.ledgers_.target.runs()) == list(ledgers.target.runs())
    assert max(face.ledgers_.source.worst().share, face.ledgers_.target.worst().share) <= 1


def rows_of_streams(
    face: StreamEstimator, X: Any, y: Any, **options: Any
) -> dict[str, list[float]]:
    """What `fit` takes each row, known by its only feature, to be of."""
    taken: dict[str, list[float]] = {"source": [], "target": []}
    take = MemoryRun.take

    def watched(run: MemoryRun, records: Records, stream: Any) -> None:
        taken[stream] += records.X[:, 0].tolist()
        take(run, records, stream)

    with patch.object(MemoryRun, "take", watched):
        face.fit(X, y, **options)
    return taken


@given(
    st.none() | st.lists(st.sampled_from(["source", "target"]), min_size=40, max_size=40),
    st.sampled_from(["paper", "tapered"]),
)
@settings(max_examples=20)
def test_a_row_is_in_one_stream_and_pays_at_most_all(names: Any, allocation: str) -> None:
    """In both streams a row would pay nearly twice its budget."""
    X, y = np.arange(1, 41)[:, None] / 41, np.arange(40) % 2
    face = classifier(TwoStreamClassifier, budget=PureDP(1.0), allocation=allocation)
    taken = rows_of_streams(face, X, y, **({} if names is None else {"stream": names}))
    assert sorted(taken["source"] + taken["target"]) == X[:, 0].tolist()
    paid = dict.fromkeys(X[:, 0].tolist(), Fraction(0))
    for stream, rows in taken.items():
        for slot, row in enumerate(rows):
            paid[row] += face.ledgers_.of(stream).paid(slot)
    assert max(paid.values()) <= 1
    expected = names or ["source"] * 20 + ["target"] * 20
    for stream, rows in taken.items():
        assert rows == [row for row, name in zip(X[:, 0], expected, strict=True) if name == stream]


def test_the_target_refines_the_source() -> None:
    """Source and target differ: after target steps the model is of the target's mind."""
    rng = np.random.default_rng(3)
    y = rng.integers(2, size=4000)
    source = np.column_stack([4.0 * y - 2, np.zeros(4000)]) + rng.normal(size=(4000, 2)) / 4
    target = source[:, ::-1]
    face = classifier(
        TwoStreamClassifier,
        budget=PureDP(100.0),
        source=Cumulative(block=2000),
        step=1000,
        norm=3.0,
        regularization=0.01,
    )
    face.partial_fit(source, y, stream="source")
    assert face.score(source, y) > 0.95 > face.score(target, y)
    face.partial_fit(target, y)
    assert face.score(target, y) > 0.95
    assert {release.fit.stream for release in face.releases_} == {"source", "target"}


@pytest.mark.parametrize("budget", [PureDP(1.0), ApproxDP(3.0, 1e-6)], ids=str)
@pytest.mark.parametrize("kind", [PrivateClassifier, ContinualClassifier, SlidingWindowClassifier])
def test_learns_easy_data(kind: type, budget: Budget) -> None:
    """Without a seed, so with noise that differs from run to run.

    The least margin is more than 10 deviations of its noise: it fails far less often than 1e-6.
    """
    more: dict[Any, Any] = {
        PrivateClassifier: {},
        ContinualClassifier: {"block": 2000, "step": 2000},
        SlidingWindowClassifier: {"window": 6000, "step": 2000},
    }
    rng = np.random.default_rng(2)
    y = rng.integers(2, size=8000)
    X = np.column_stack([np.where(y, 1.0, -1.0), rng.normal(size=8000) / 10])
    face = classifier(
        kind, budget=budget, norm=1.0, regularization=0.1, not_private_seed=None, **more[kind]
    )
    assert face.fit(X, y).score(X, y) == 1.0
    assert all(release.private for release in face.releases_)
    assert all(release.card["private"] for release in face.releases_)


def test_a_seed_is_on_every_card() -> None:
    for kind in STREAMS:
        face = classifier(kind).fit(*batch_for(None))
        assert not any(release.private for release in face.releases_)
        unseeded = classifier(kind, not_private_seed=None).fit(*batch_for(None))
        assert all(release.private for release in unseeded.releases_)
    assert not any(release.private for release in private_mean().fit(batch_for(None)[0]).releases_)


@pytest.mark.parametrize("steps", [2, 3, 7])
def test_sliding_spends_all_and_no_more(steps: int) -> None:
    face = classifier(SlidingWindowClassifier, window=4 * steps, step=4)
    X, y = batch_for(face, records=24 * steps)
    worst = []
    for start in range(0, 24 * steps, 4):
        face.partial_fit(X[start : start + 4], y[start : start + 4])
        worst.append(face.ledger_.worst().share)
    assert worst == sorted(worst)
    assert worst[-1] == Fraction(1)
    assert face.certificate_.attained


def test_continual_stays_below_one() -> None:
    face = classifier(ContinualClassifier, block=4, step=4).fit(*batch_for(None, records=256))
    assert Fraction(9, 10) < face.ledger_.worst().share < 1
    assert not face.certificate_.attained


@pytest.mark.parametrize("size", [1, 3, 4, 50])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_only_the_window_is_held(size: int, container: Container) -> None:
    face = classifier(SlidingWindowClassifier, window=12, step=4)
    X, y = batch_for(face, records=100)
    for start in range(0, 100, size):
        face.partial_fit(container(X[start : start + size]), y[start : start + size])
        held = face._begun.run.steps.held[ONLY]
        done = held.count // 4 * 4
        assert held.first == face._begun.run.plan.needed(done) >= done - 12
        in_memory = sum(run.n for _, run in held._runs)
        assert in_memory <= 2 * (held.count - held.first)


def test_models_that_no_fit_needs_are_let_go() -> None:
    """Of those that are not released the newest of each level are held, however long it runs."""
    face = classifier(SlidingWindowClassifier, window=28, step=4)
    X, y = batch_for(face, records=200)
    for start in range(0, 200, 10):
        face.partial_fit(X[start : start + 10], y[start : start + 10])
        held = set(face._begun.run.steps._fits) - {release.fit.number for release in face.releases_}
        assert len(held) <= 2  # the base and level 1


def number_records(start: int, stop: int) -> Records:
    numbers = np.arange(start, stop)
    return Records(numbers[:, None].astype(np.float64), numbers, numbers % 3 > 0)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 12), st.integers(1, 12)), max_size=30))
def test_held_against_a_list(events: list[tuple[int, int, int]]) -> None:
    held, count, first = Held(), 0, 0
    for size, kept, read in events:
        held.append(number_records(count, count + size))
        count += size
        first = max(first, count - kept)
        held.forget(first)
        assert (held.first, held.count) == (first, count)
        if kept:
            span = Span(max(first, count - read), count)
            records = held.read(span)
            assert records.y.tolist() == list(range(*span))
            assert records.X.ravel().tolist() == list(range(*span))
            assert records.usable.tolist() == [number % 3 > 0 for number in range(*span)]
        for outside in (Span(first - 1, count), Span(first, count + 1), Span(count, count)):
            with pytest.raises(LookupError):
                held.read(outside)
        sizes = [run.n for _, run in held._runs]
        assert sizes[1:] == sorted(sizes[1:], reverse=True)


def test_small_batches_are_not_copied_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = []

    def counting(parts: Any) -> Records:
        joined = join(parts)
        copied.append(joined.n)
        return joined

    monkeypatch.setattr(held_module, "join", counting)
    held = Held()
    for record in range(4096):
        held.append(number_records(record, record + 1))
    assert sum(copied) == 4096 * 12  # once for every doubling


def slots_of(X: NDArray[Any], norm: float) -> NDArray[np.float64]:
    """The vectors that a mean reads: clipped, the origin for one that cannot be used."""
    slots = np.zeros(X.shape)
    for slot, row in zip(slots, X, strict=True):
        if np.isfinite(row).all():
            slot[:] = row * min(1, norm / np.linalg.norm(row))
    return slots


SCHEDULES = [
    Independent(step=8),
    SlidingWindow(window=24, step=8),
    Continual(block=16, step=8),
    Cumulative(block=8),
    MultiResolution(block=8),
    Basic(block=16, step=8),
]


def drawn(lines: Iterable[Line], slots: NDArray[np.float64], pull: float) -> list[Any]:
    """The means of a plan by numpy: (mean + lambda prior)/(1 + lambda)."""
    models: dict[int, Any] = {}
    released = []
    for fit, _ in lines:
        mean = slots[slice(*fit.span)].mean(axis=0)
        prior = None if fit.prior is None else models[fit.prior]
        models[fit.number] = mean if prior is None else (mean + pull * prior) / (1 + pull)
        released += [models[fit.number]] * fit.released
    return released


@pytest.mark.parametrize("budget", [PureDP(1e12), ApproxDP(1e12, 0.5, weak_delta=True)], ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", CONTAINERS)
def test_means_against_numpy(schedule: Any, name: str, budget: Budget) -> None:
    X, _ = soiled(64)
    face = private_mean(schedule=schedule, regularization=0.5, norm=2.0)
    face.set_params(budget=budget).partial_fit(CONTAINERS[name](X))
    slots = slots_of(X.astype(np.float32) if name == "float32" else X, 2.0)
    expected = drawn(Plan(schedule=schedule, budget=budget).lines(64), slots, 0.5)
    assert np.allclose(weights(face), expected, atol=1e-4)
    assert np.array_equal(face.mean_, weights(face)[-1])
    assert face.quarantined_ == 1


def test_a_mean_of_float32_is_exact() -> None:
    """Sums in float32 would be off by far more than this."""
    X = np.random.default_rng(0).uniform(size=(2**14, 1)).astype(np.float32)
    face = private_mean(schedule=Independent(step=2**14), norm=2.0)
    face.set_params(budget=PureDP(1e15)).partial_fit(X)
    assert abs(face.mean_[0] - X.mean(dtype=np.float64)) < 1e-11


@pytest.mark.parametrize("budget", [PureDP(1e12), ApproxDP(1e12, 0.5, weak_delta=True)], ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_histograms_against_numpy(schedule: Any, budget: Budget) -> None:
    """A record in no category counts in none, but in the number of records."""
    categories = ["mild", 3, None]
    values = np.random.default_rng(1).choice(np.array(["mild", 3, None, "other"], object), 64)
    face = private_histogram(schedule=schedule, categories=categories, regularization=0.5)
    face.set_params(budget=budget).partial_fit(values)
    slots = np.array([[value == category for category in categories] for value in values], float)
    expected = drawn(Plan(schedule=schedule, budget=budget).lines(64), slots, 0.5)
    assert np.allclose(weights(face), expected, atol=1e-4)
    assert face.quarantined_ == sum(value == "other" for value in values) > 5
    assert face.query([1, 0, 0]) == face.histogram_[0]
    assert np.isclose(face.query([1, 2, -3]), face.histogram_ @ [1, 2, -3])
    assert np.isclose(face.query(np.ones(3, bool)), face.histogram_.sum())


def test_batches_complete_steps() -> None:
    """A release comes with the record that completes its step, not before."""
    face = private_histogram(schedule=Independent(step=3))
    counts = [len(face.partial_fit(["mild"]).releases_) for _ in range(10)]
    assert counts == [0, 0, 1, 1, 1, 2, 2, 2, 3, 3]
    assert [release.fit.at for release in face.releases_] == [3, 6, 9]


@pytest.mark.parametrize("interrupted", range(1, 12))
def test_an_interrupt_anywhere_charges_and_publishes_once(
    interrupted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is stopped at its n-th call of any of its own parts, then goes on."""
    X, y = np.random.default_rng(1).normal(size=(24, 2)), np.arange(24) % 2
    options: dict[str, Any] = {
        "budget": PureDP(1.0),
        "window": 12,
        "step": 4,
        "classes": [0, 1],
        "norm": 1.0,
        "not_private_seed": 3,
    }
    smooth = SlidingWindowClassifier(**options).partial_fit(X, y)
    calls = 0

    def stopping(right: Any) -> Any:
        def call(*words: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == interrupted:
                raise KeyboardInterrupt
            return right(*words)

        return call

    for owner, name in ((Ledger, "post"), (Trainer, "train"), (TrainedFit, "release")):
        monkeypatch.setattr(owner, name, stopping(getattr(owner, name)))
    classifier = SlidingWindowClassifier(**options)
    with pytest.raises(KeyboardInterrupt):
        classifier.partial_fit(X[:20], y[:20])
    classifier.partial_fit(X[20:], y[20:])
    assert [release.fit for release in classifier.releases_] == [r.fit for r in smooth.releases_]
    assert [release.number for release in classifier.releases_] == [0, 1, 2, 3]
    assert classifier.ledger_.posted == smooth.ledger_.posted
    assert classifier.ledger_.worst() == smooth.ledger_.worst()


@pytest.mark.parametrize("interrupted", [(Trainer, "train"), (Ledger, "post")])
def test_an_interrupted_step_is_completed_before_one_of_the_other_stream(
    interrupted: tuple[type, str],
) -> None:
    """Fits of both would have the same number: neither may be taken for the other."""
    X, y = np.random.default_rng(1).normal(size=(40, 2)), np.arange(40) % 2

    def begun() -> TwoStreamClassifier:
        return TwoStreamClassifier(
            budget=PureDP(1.0),
            source=Cumulative(block=20),
            step=5,
            classes=[0, 1],
            norm=1.0,
            not_private_seed=3,
        ).partial_fit(X[:20], y[:20], stream="source")

    smooth, stopped = begun(), begun()
    smooth.partial_fit(X[20:], y[20:], stream="source").partial_fit(X[:10], y[:10])
    owner, name = interrupted
    right = getattr(owner, name)

    def after(*words: Any) -> None:
        right(*words)
        raise KeyboardInterrupt

    with patch.object(owner, name, after), pytest.raises(KeyboardInterrupt):
        stopped.partial_fit(X[20:], y[20:], stream="source")
    stopped.partial_fit(X[:10], y[:10])
    assert [release.fit for release in stopped.releases_] == [r.fit for r in smooth.releases_]
    for stream in ("source", "target"):
        ledger, expected = stopped.ledgers_.of(stream), smooth.ledgers_.of(stream)
        assert (ledger.posted, list(ledger.runs())) == (expected.posted, list(expected.runs()))


def test_copies_of_releases_are_read_only() -> None:
    clf = SlidingWindowClassifier(
        budget=PureDP(1.0), window=8, step=4, classes=[0, 1], norm=1.0, not_private_seed=3
    ).partial_fit(np.eye(8), np.arange(8) % 2)
    for release in (deepcopy(clf.releases_[0]), pickle.loads(pickle.dumps(clf)).releases_[0]):
        assert not release.weights.flags.writeable


def test_a_planted_share_publishes_no_more_than_the_budget_allows() -> None:
    """Whatever the plan says, the ledger has the last word."""
    clf = SlidingWindowClassifier(
        budget=PureDP(1.0), window=30, step=10, classes=[0, 1], norm=1.0, not_private_seed=1
    )
    X, y = np.ones((100, 2)), np.arange(100) % 2
    with patch.object(Shares, "of", lambda *_: Fraction(9, 10)), pytest.raises(LedgerError):
        clf.partial_fit(X, y)
    assert clf.ledger_.worst().share == Fraction(9, 10)
