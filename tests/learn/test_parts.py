"""Records in parts: the same sums, the same bounds, wherever they are cut and however merged."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce
from itertools import pairwise
from typing import Any, Generic

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.learn.problems import losses, records, seeds
from tidegate.data.records import MERGES, Cut, Part, Parts, Records, Result, merged, total
from tidegate.learn import (
    GradientPerturbation,
    Logistic,
    Loss,
    OutputPerturbation,
    Softmax,
    objective,
)
from tidegate.learn.exact import lattice_bits
from tidegate.learn.gradient import clipped_sum, descend
from tidegate.learn.learner import Learner, Task, Terms
from tidegate.learn.mean import HistogramPerturbation, MeanPerturbation
from tidegate.learn.objective import (
    GROUP,
    SAMPLE,
    Objective,
    _evenly_spaced,
    _thinned,
    rounding_bound,
)
from tidegate.learn.refit import Exact
from tidegate.learn.slot_weights import weighted
from tidegate.learn.solver import certified_minimum
from tidegate.privacy.budget import Allowance
from tidegate.privacy.noise import NotPrivateBits
from tidegate.schedule import SlotWeight, Span


@dataclass(frozen=True, kw_only=True)
class Listed(Cut, Generic[Part]):
    """The plainest parts there are: a list, merged from the left, the right or the middle."""

    parts: tuple[Part, ...]
    grouping: str = "left"

    def map(self, make: Callable[[Part], Any]) -> Parts[Any]:
        made = tuple(map(make, self.parts))
        return Listed(parts=made, sizes=self.sizes, form=self.form, grouping=self.grouping)

    def fold(
        self, work: Callable[[Part], Result], merge: Callable[[Result, Result], Result]
    ) -> Result:
        made = list(map(work, self.parts))
        if self.grouping == "left":
            return reduce(merge, made)
        if self.grouping == "right":
            return reduce(lambda late, early: merge(early, late), reversed(made))
        while len(made) > 1:
            made = [reduce(merge, made[i : i + 2]) for i in range(0, len(made), 2)]
        return made[0]


def cut(whole: Records, cuts: list[int], grouping: str = "left") -> Parts[Records]:
    places = [0, *sorted({c for c in cuts if 0 < c < whole.n}), whole.n]
    parts = tuple(whole.take(slice(*ends)) for ends in pairwise(places))
    sizes = tuple(part.n for part in parts)
    return Listed(parts=parts, sizes=sizes, form=whole.form, grouping=grouping)


def problem(loss: Loss, n: int, d: int, seed: int) -> Records:
    X, y = records(loss, n, d, seed)
    return Records(X, y, np.random.default_rng(seed).random(n) < 0.9)


groupings = st.sampled_from(["left", "right", "tree"])
anywhere = st.lists(st.integers(1, 299), max_size=12)


@settings(max_examples=50)
@given(losses, anywhere, groupings, seeds)
def test_clipped_sums_are_exact_in_any_grouping(
    loss: Loss, cuts: list[int], grouping: str, seed: int
) -> None:
    whole = problem(loss, 300, 5, seed)
    a, b = lattice_bits(whole.n, 1.0, 0.5)
    w = np.random.default_rng(seed).normal(size=loss.shape(5))
    work = partial(clipped_sum, w=w, loss=loss, clip=0.5, bits=b)
    one, other = (
        total(cut(whole, cuts, each).map(partial(Exact.of, bits=a)), work)
        for each in (grouping, "left")
    )
    assert np.array_equal(one, other)
    units = one * 2.0 ** (a + b)
    assert np.array_equal(units, np.round(units))
    # a row's margin may be rounded otherwise beside others, and then its residual cut otherwise
    whole_sum = total(whole.map(partial(Exact.of, bits=a)), work)
    np.testing.assert_allclose(one, whole_sum, atol=whole.n * 2.0**-b)


@settings(max_examples=30)
@given(anywhere, groupings, seeds)
def test_means_and_histograms_are_the_same_in_parts(
    cuts: list[int], grouping: str, seed: int
) -> None:
    whole = problem(Softmax(5), 300, 4, seed)
    both: list[Parts[Records]] = [whole, cut(whole, cuts, grouping)]
    task = Task(loss=Softmax(5), norm=1.0, regularization=None)
    terms = Terms(allowance=Allowance("mu", 1.0))
    learners: list[Learner[Task]] = [MeanPerturbation(), HistogramPerturbation(5)]
    for learner in learners:
        one, other = (learner.fit(task, terms, each, NotPrivateBits(seed)) for each in both)
        assert np.array_equal(one, other)


@settings(max_examples=30)
@given(losses, anywhere, groupings, seeds)
def test_rounding_bound_holds_over_parts(
    loss: Loss, cuts: list[int], grouping: str, seed: int
) -> None:
    whole = problem(loss, 300, 3, seed)
    F = Objective(cut(whole, cuts, grouping), loss, regularization=0.1, norm=1.0)
    w = np.random.default_rng(seed).normal(size=F.center.shape)
    w /= np.linalg.norm(w)
    wide, X = w.astype(np.longdouble), whole.X.astype(np.longdouble)
    data = (loss.residual((X @ wide).T, whole.y) * whole.usable) @ X
    exact = data.T / whole.n + 2 * np.longdouble(0.1) * wide
    bound = rounding_bound(loss, d=3, norm=1.0, regularization=0.1, center_norm=0.0, tolerance=1e-9)
    assert 4 * np.linalg.norm(F.gradient(w) - exact) <= bound
    assert np.vdot(w, F.precondition(w)) > 0


@given(st.integers(1, 5000))
def test_no_result_is_merged_more_often_than_the_bound_counts(count: int) -> None:
    """Merged one after the other, the first of them would be merged count - 1 times."""
    merges = merged([0] * count, lambda one, other: 1 + max(one, other))
    assert merges <= 2 * math.log2(count) + 1
    assert merged(range(count), lambda one, other: one + other) == count * (count - 1) // 2
    assert 2 * math.log2(2**47) + 1 <= MERGES  # more results than there can be records in chunks


@pytest.mark.parametrize("rows", [1, 640, 640 * GROUP, 640 * GROUP + 1])
def test_chunks_are_added_to_groups_and_groups_in_a_tree(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[Any] = []

    def seen(results: Any, merge: Any) -> Any:
        groups.extend(results)
        return merged(groups, merge)

    monkeypatch.setattr(objective, "merged", seen)
    whole = problem(Logistic(), rows, 2, 0)
    Objective(whole, Logistic(), regularization=1.0, norm=1.0).gradient(np.zeros(2))
    assert len(groups) == -(-rows // (640 * GROUP))


def test_many_parts_give_few_rows_to_the_preconditioner() -> None:
    whole = problem(Logistic(), 3000, 3, 0)
    parts = cut(whole, list(range(1, 3000)), "tree")  # 3000 parts of one slot
    F = Objective(parts, Logistic(), regularization=0.1, norm=1.0)
    one = Objective(whole, Logistic(), regularization=0.1, norm=1.0)
    np.testing.assert_allclose(F.precondition(np.ones(3)), one.precondition(np.ones(3)), rtol=0.5)
    few = parts.fold(partial(_evenly_spaced, stride=12), _thinned)
    assert SAMPLE <= few.n <= 2 * SAMPLE


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_certified_minima_lie_within_their_certificates(dtype: Any) -> None:
    whole = problem(Softmax(3), 2000, 6, 1)
    whole = Records(whole.X.astype(dtype), whole.y, whole.usable)
    both: list[Parts[Records]] = [whole, cut(whole, [200, 700, 1900], "tree")]
    tolerance, pull = 1e-7, 0.01
    one, other = (
        certified_minimum(Objective(each, Softmax(3), regularization=pull, norm=1.0), tolerance)
        for each in both
    )
    apart = np.linalg.norm(one.weights - other.weights)
    assert apart <= (one.gradient_norm + other.gradient_norm) / (2 * pull)


def test_private_fits_agree_across_parts() -> None:
    whole = problem(Logistic(), 3000, 4, 2)
    both: list[Parts[Records]] = [whole, cut(whole, [1000, 1100, 2990], "tree")]
    task = Task(loss=Logistic(), norm=1.0, regularization=0.05)
    learner, terms = OutputPerturbation(), Terms(allowance=Allowance("epsilon", 1.0))
    one, other = (learner.fit(task, terms, each, NotPrivateBits(3)) for each in both)
    public = learner.settings(task, terms, n=whole.n, d=4)
    rounded = 2.0**-13 * public["noise_scale"]  # each of four coordinates to its lattice
    assert np.linalg.norm(one - other) <= public["tolerance"] / 0.05 + rounded
    terms = Terms(allowance=Allowance("mu", 0.5))
    descent = GradientPerturbation().descent_of(task, terms, whole.n, whole.d)
    one, other = (descend(task, terms, each, descent, lambda S, _: S).weights for each in both)
    np.testing.assert_allclose(one, other, atol=1e-3)


def test_emphasis_goes_by_the_slot_however_slots_are_cut() -> None:
    whole = problem(Logistic(), 600, 3, 4)
    slot_weights = (
        SlotWeight(Span(0, 500), Fraction(1, 4)),
        SlotWeight(Span(500, 600), Fraction(1)),
    )
    task = Task(loss=Logistic(), norm=1.0, regularization=0.0)
    terms = Terms(allowance=Allowance("mu", 0.5), slot_weights=slot_weights)
    descent = GradientPerturbation(steps=4).descent_of(task, terms, whole.n, whole.d)
    told = weighted([whole], slot_weights)[0].load()
    both: list[Parts[Records]] = [told, cut(told, [200, 501], "tree")]
    one, other = (descend(task, terms, each, descent, lambda S, _: S).weights for each in both)
    assert np.array_equal(one, other)
