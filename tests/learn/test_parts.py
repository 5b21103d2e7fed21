"""Records in parts: the same sums, the same bounds, wherever they are cut and however merged."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from typing import Any, Generic

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.learn.problems import losses, records, seeds
from tidegate.learn import GradientPerturbation, Logistic, Loss, OutputPerturbation, Softmax
from tidegate.learn.gradient import Exact, clipped_sum, descend, lattice_bits
from tidegate.learn.learner import Learner, Task
from tidegate.learn.mean import HistogramPerturbation, MeanPerturbation
from tidegate.learn.objective import CHUNK, LARGEST_CHUNK, OverParts, rounding_bound
from tidegate.learn.parts import Cut, Part, Parts, Result, total
from tidegate.learn.records import Records
from tidegate.learn.solver import certified_minimum
from tidegate.privacy.bits import NotPrivateBits
from tidegate.privacy.budget import Allowance


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
legal = st.lists(st.integers(1, 7), max_size=6).map(lambda each: [CHUNK * c for c in each])


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
    task, spent = Task(loss=Softmax(5), norm=1.0, regularization=None), Allowance("mu", 1.0)
    learners: list[Learner[Task]] = [MeanPerturbation(), HistogramPerturbation(5)]
    for learner in learners:
        one, other = (
            learner.fit(task, each, allowance=spent, prior=None, bits=NotPrivateBits(seed))
            for each in both
        )
        assert np.array_equal(one, other)


@settings(max_examples=30)
@given(losses, legal, groupings, seeds)
def test_rounding_bound_holds_over_parts(
    loss: Loss, cuts: list[int], grouping: str, seed: int
) -> None:
    whole = problem(loss, 520, 3, seed)
    F = OverParts(cut(whole, cuts, grouping), loss, regularization=0.1, norm=1.0)
    w = np.random.default_rng(seed).normal(size=F.center.shape)
    w /= np.linalg.norm(w)
    wide, X = w.astype(np.longdouble), whole.X.astype(np.longdouble)
    data = (loss.residual((X @ wide).T, whole.y) * whole.usable) @ X
    exact = data.T / whole.n + 2 * np.longdouble(0.1) * wide
    bound = rounding_bound(
        loss, n=whole.n, d=3, norm=1.0, regularization=0.1, center_norm=0.0, tolerance=1e-9
    )
    assert 4 * np.linalg.norm(F.gradient(w) - exact) <= bound
    G = OverParts(whole, loss, regularization=0.1, norm=1.0)
    assert F.value(w) == pytest.approx(G.value(w), rel=1e-12)
    np.testing.assert_allclose(F.hessian_product(w, w), G.hessian_product(w, w), atol=1e-12)
    assert np.vdot(w, F.precondition(w)) > 0


@given(st.lists(st.integers(CHUNK, 500), min_size=1, max_size=60), st.integers(0, CHUNK - 1))
def test_no_summand_meets_more_additions_than_the_bound_counts(sizes: list[int], last: int) -> None:
    """Summed one part after the other, chunks as small as they may be: the worst case."""
    sizes = [*sizes, last] if last else sizes
    chunks = [-(-size // CHUNK) for size in sizes]
    worst = max(own + len(sizes) - 1 for own in chunks)
    assert LARGEST_CHUNK + worst + 2 <= LARGEST_CHUNK + sum(sizes) // CHUNK + 8


def test_a_second_short_part_is_refused() -> None:
    """Many of them would take more additions than the bound counts."""
    whole = problem(Logistic(), 200, 2, 0)
    OverParts(cut(whole, [150]), Logistic(), regularization=0.1, norm=1.0)
    with pytest.raises(RuntimeError, match="more than one part has fewer than 64 slots"):
        OverParts(cut(whole, [50, 150]), Logistic(), regularization=0.1, norm=1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_certified_minima_lie_within_their_certificates(dtype: Any) -> None:
    whole = problem(Softmax(3), 2000, 6, 1)
    whole = Records(whole.X.astype(dtype), whole.y, whole.usable)
    both: list[Parts[Records]] = [whole, cut(whole, [200, 700, 1900], "tree")]
    tolerance, pull = 1e-7, 0.01
    one, other = (
        certified_minimum(OverParts(each, Softmax(3), regularization=pull, norm=1.0), tolerance)
        for each in both
    )
    apart = np.linalg.norm(one.weights - other.weights)
    assert apart <= (one.gradient_norm + other.gradient_norm) / (2 * pull)


def test_private_fits_agree_across_parts() -> None:
    whole = problem(Logistic(), 3000, 4, 2)
    both: list[Parts[Records]] = [whole, cut(whole, [1000, 1100, 2990], "tree")]
    task = Task(loss=Logistic(), norm=1.0, regularization=0.05)
    learner, spent = OutputPerturbation(), Allowance("epsilon", 1.0)
    one, other = (
        learner.fit(task, each, allowance=spent, prior=None, bits=NotPrivateBits(3))
        for each in both
    )
    public = learner.settings(task, n=whole.n, d=4, allowance=spent, prior=None)
    rounded = 2.0**-13 * public["noise_scale"]  # each of four coordinates to its lattice
    assert np.linalg.norm(one - other) <= public["tolerance"] / 0.05 + rounded
    descent = GradientPerturbation().descent_of(task, whole.n, Allowance("mu", 0.5), None)
    one, other = (descend(task, each, descent, None, lambda S, _: S) for each in both)
    np.testing.assert_allclose(one, other, atol=1e-3)
