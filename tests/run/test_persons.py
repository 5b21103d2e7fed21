"""Fits that protect persons, whose slots lie in many parts, on every engine."""

from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.run.streams import records
from tidegate import ApproxDP, FadingClassifier, PureDP
from tidegate.compute import Disk, Engine, Memory
from tidegate.data.records import NOT_PACKED, PieceOf, Records, Slots, total
from tidegate.learn import GradientPerturbation, Logistic, OutputPerturbation
from tidegate.learn.gradient import clipped_sum
from tidegate.learn.learner import Task, Terms
from tidegate.learn.mean import MeanPerturbation
from tidegate.learn.refit import Exact
from tidegate.learn.slot_weights import AdmittedStep, Owned, PersonPiece
from tidegate.learn.transform import UNTRANSFORMED, Prepared, Transform
from tidegate.privacy.budget import Allowance
from tidegate.privacy.noise import NotPrivateBits
from tidegate.privacy.person import EACH_RECORD, Person
from tidegate.run import engine as engines
from tidegate.run.executor import reader
from tidegate.schedule import SlotWeight, Span

N, STEP = 600, 100
RNG = np.random.default_rng(8)
OWNERS = RNG.integers(1, 40, size=(N, 1)).astype(np.uint64) * np.ones((1, 2), np.uint64)
ADMITTED = RNG.random(N) < 0.7
ADMITTED[N - STEP :] = False  # not published yet
NEWEST = AdmittedStep(Span(N - STEP, N), RNG.random(STEP) < 0.5)
SLOT_WEIGHTS = tuple(
    SlotWeight(Span(STEP * age, STEP * (age + 1)), Fraction(2, 3) ** (5 - age)) for age in range(6)
)


class Stored(PieceOf):
    """A piece that is not in memory."""

    def load(self) -> Records:
        return self.piece.load()


class Shelf:
    """A store of pieces of odd sizes, with their owners."""

    def __init__(self, whole: Records) -> None:
        self.whole = whole

    def form(self, stream: str) -> Any:
        del stream
        return self.whole.form

    def owned(self, stream: str, span: Span) -> Owned:
        del stream
        return Owned(OWNERS[slice(*span)], ADMITTED[slice(*span)])

    def pieces(self, stream: str, span: Span, slots: Slots | None = None) -> Any:
        del stream, slots
        ends = [span.start, *range(span.start + 37, span.stop, 97), span.stop]
        return [Stored(self.whole.take(slice(*each))) for each in pairwise(ends)]


def fetch_with(engine: Engine, transform: Prepared = UNTRANSFORMED) -> Any:
    return reader(
        Shelf(records(N)),
        "records",
        engine,
        transform=transform,
        counted=NEWEST,
        packing=NOT_PACKED,
    )


def read(engine: Engine, transform: Prepared = UNTRANSFORMED, factors: Any = None) -> Any:
    fetch = fetch_with(engine, transform)
    return fetch(Span(0, N), None, SLOT_WEIGHTS, factors)


DISK = Disk(small=8)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "BLOCK", 1)


def test_every_engine_reads_the_same_person_weights() -> None:
    parts = [read(engine) for engine in (Memory(), DISK)]
    one, other = (part.fold(lambda each: [each], lambda a, b: [*a, *b]) for part in parts)
    assert len(one) == 1
    assert len(other) > 3
    joined = np.concatenate([part.person_weights for part in other])
    np.testing.assert_array_equal(one[0].person_weights, joined)
    assert all(part.owners is None for part in (*one, *other))
    counted = ADMITTED.copy()
    counted[N - STEP :] = NEWEST.admitted
    assert ((joined > 0) == counted).all()
    for person in np.unique(OWNERS[:, 0]):
        mine = (OWNERS[:, 0] == person) & counted
        weights = [SLOT_WEIGHTS[slot // STEP].part for slot in np.flatnonzero(mine)]
        assert sum(map(Fraction, joined[mine])) <= max(weights, default=0)


def test_rows_that_do_not_count_are_zero_after_a_transform() -> None:
    whole = records(N)
    transform = Transform.of(np.full(whole.d, 0.1), np.full(whole.d, 2.0))
    part = read(Memory(), transform)
    out = part.person_weights == 0
    assert out.any()
    assert not part.X[out].any()  # not even the constant
    assert not part.usable[out].any()
    assert not part.y[out].any()
    assert part.X[part.usable].any(axis=1).all()
    assert part.usable.any()


def test_sums_of_gradients_are_the_same_on_every_engine() -> None:
    work = partial(clipped_sum, w=np.full(records(N).d, 0.3), loss=Logistic(), clip=0.1, bits=20)
    make = partial(Exact.of, bits=20, weighted=True, persons=True)
    one, other = (total(read(engine).map(make), work) for engine in (Memory(), DISK))
    np.testing.assert_allclose(one, other, atol=1e-4)  # margins may be rounded differently


def test_a_piece_carries_nothing_but_its_own_weights() -> None:
    seen = []

    class Watching:
        def parts(self, pieces: Any, form: Any) -> Any:
            seen.extend(pieces)
            return Memory().parts(pieces, form)

        def close(self) -> None: ...

    read(Watching())
    assert [piece.weights.size for piece in seen] == [piece.n for piece in seen]
    assert all(isinstance(piece, PersonPiece) for piece in seen)


TASK = Task(loss=Logistic(), norm=1.0, regularization=0.1)


@pytest.mark.parametrize(
    "learner", [GradientPerturbation(steps=2), OutputPerturbation(), MeanPerturbation()]
)
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("expected", [True, False])
def test_learners_refuse_what_they_do_not_expect(
    learner: Any, weighted: bool, expected: bool
) -> None:
    """Person weights are on the records if and only if the fit protects persons."""
    weights = SLOT_WEIGHTS if weighted else ()
    terms = Terms(
        allowance=Allowance("mu", 1.0),
        slot_weights=weights,
        protects=Person(contributions=1) if expected else EACH_RECORD,
    )
    fetch = fetch_with(Memory())
    protected: Any = fetch(Span(0, N), None, weights)
    plain = Records(protected.X, protected.y, protected.usable, slot_weights=protected.slot_weights)
    owned = Records(plain.X, plain.y, plain.usable, plain.slot_weights, owners=OWNERS)
    good, *bad = (protected, plain) if expected else (plain, protected)
    assert np.isfinite(learner.fit(TASK, terms, good, NotPrivateBits(1))).all()
    for each in (*bad, owned):
        with pytest.raises(ValueError, match="person_weights must be on"):
            learner.fit(TASK, terms, each, NotPrivateBits(1))


@pytest.mark.parametrize("budget", [PureDP(8.0), ApproxDP(8.0, 1e-3)])
def test_estimators_make_the_same_models_from_pieces(budget: Any) -> None:
    whole, found = records(N), []
    for engine in (Memory(), DISK):
        clf = FadingClassifier(
            budget=budget, step=STEP, classes=[0, 1], norm=1.0, contributions=3, typical=3,
            not_private_seed=5,
        )  # fmt: skip
        clf.compute = engine
        found.append(clf.fit(whole.X, whole.y, persons=OWNERS[:, 0]))
    one, other = (clf.releases_ for clf in found)
    assert len(one) == len(other) == N // STEP
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(mine.weights, theirs.weights, atol=1e-2)
