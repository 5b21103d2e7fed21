"""Planted mistakes in how persons count: each must break a law, and the code as it is none."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pytest

from tests.laws.person_replay import (
    Ids,
    Scene,
    laws_broken,
    persons_setup,
    run,
    same_calls,
    slots_of,
)
from tests.laws.replay import Data, always
from tests.laws.scenes import R, blank
from tests.laws.test_replay import E1
from tidegate.data.records import Records, join
from tidegate.learn import (
    GradientPerturbation,
    Logistic,
    OutputPerturbation,
    gradient,
    slot_weights,
)
from tidegate.learn.exact import lattice_bits, truncate
from tidegate.learn.gradient import clipped_sum
from tidegate.learn.learner import Task, Terms
from tidegate.learn.refit import Exact
from tidegate.learn.slot_weights import Owned, with_persons
from tidegate.privacy.budget import Allowance
from tidegate.privacy.person import Person
from tidegate.run import held
from tidegate.run.held import owners_in
from tidegate.schedule import Fading, SlotWeight, Span
from tidegate.schedule.plan import Plan

Plant = Callable[[], Any]


def scene(schedule: str, learning: str, slots: Span, ids: Sequence[Any], **more: Any) -> Scene:
    """Ann's slots of a span change sides; nothing else pulls."""
    given: Ids = {None: list(ids)}
    return Scene(
        setup=persons_setup(schedule, learning, **more),
        data=blank(schedule, len(ids)),
        ids=given,
        slots=slots_of(given, "ann", slots),
        before=(R * E1, 1),
        after=(-R * E1, 1),
        script=always(np.zeros),
    )


# --- the ratio in place of the integral


def by_ratio(owned: Owned, runs: Sequence[tuple[int, float]]) -> Any:
    """e_i E / (sum of e): right for all of a person's slots, wrong for some of them."""
    weights = np.repeat([weight for _, weight in runs], [size for size, _ in runs])
    result = np.zeros(len(weights))
    for owner in np.unique(owned.owners[owned.admitted], axis=0):
        mine = owned.admitted & (owned.owners == owner).all(axis=1)
        result[mine] = weights[mine] * weights[mine].max() / weights[mine].sum()
    return result


# Fading by a third, memory 3: Ann is there once in each newer step and four times in an old one.
OFTEN = ["ann"] * 4 + ["ann", 1, 2, 3] + ["ann", 4, 5, 6] + [7, 8, 9, 10]
PERIOD = scene("fading", "mean, pure", Span(0, 4), OFTEN, period=1, contributions=1)


def test_the_ratio_is_caught_with_a_period() -> None:
    assert not laws_broken(PERIOD)
    with patch.object(slot_weights, "person_weights", by_ratio):
        assert "fit" in laws_broken(PERIOD)


# --- rows of weight 0


def test_a_row_that_does_not_count_but_is_read_is_caught() -> None:
    """Ann is admitted in the first step only; a preconditioner would still see her later rows."""
    ids = ["ann", 1, 2, 3] + ["ann", 4, 5, 6] * 2
    rng = np.random.default_rng(1)
    data: Data = {None: (rng.normal(size=(12, 2)).astype(object), np.array([0, 1] * 6, object))}
    late = replace(
        scene("sliding 2", "logistic, pure", Span(4, 12), ids, contributions=1),
        data=data,
        before=(R * E1, 1),
        after=(R * np.array([0.1, 0.9], object), 0),
    )
    assert not laws_broken(late)

    def still_read(records: Records, weights: Any) -> Records:
        return replace(records, owners=None, person_weights=weights)

    with patch.object(slot_weights, "with_weights", still_read):
        assert "span" in laws_broken(late)


# --- admission that looks at contents


def test_an_admission_that_counts_only_usable_records_is_caught() -> None:
    usable_only = scene("independent", "mean, pure", Span(0, 8), ["ann", 1, 2, 3] * 4)
    unusable = replace(usable_only, after=(np.array([np.nan, 0], object), 1))
    assert not laws_broken(unusable)

    def of_usable(pieces: Any) -> Any:
        owners = owners_in(pieces).copy()
        owners[~join(list(pieces)).usable] = 0
        return owners

    with patch.object(held, "owners_in", of_usable):
        assert laws_broken(unusable) == {"control flow"}


# --- the certificate's term


def weighed(plant: str = "") -> tuple[list[Fraction], list[Fraction], Fraction]:
    """What output perturbation weighs Ann's slots by, their slot weights, and theta."""
    task = Task(loss=Logistic(), norm=R, regularization=0.5)
    slot_weights = tuple(
        SlotWeight(Span(4 * age, 4 * age + 4), Fraction(2, 3) ** (5 - age)) for age in range(6)
    )
    terms = Terms(
        allowance=Allowance("epsilon", 0.1),
        slot_weights=slot_weights,
        protects=Person(contributions=1),
    )
    learner = OutputPerturbation(slack=0.25)
    tolerance = learner.settings(task, terms, n=24, d=2)["tolerance"]
    theta = Fraction(tolerance) * terms.mass(24) / Fraction(task.loss.lipschitz(task.norm))
    assert theta > Fraction(1, 100)  # else nothing would be seen
    made = learner.person_factors(task, terms, n=24, d=2)
    owned = Owned(np.ones((24, 2), np.uint64), np.ones(24, np.bool_))
    rows = Records(np.ones((24, 2)), np.zeros(24, np.intp), np.ones(24, np.bool_))
    given = None if plant else made
    [piece] = with_persons([rows], owned, slot_weights, given)
    found = [Fraction(float(each)) for each in np.asarray(piece.load().person_weights)]
    if plant == "after":
        found = [max(Fraction(0), (1 + theta) * each - theta) for each in found]
    return found, [part for span, part in slot_weights for _ in range(span.size)], theta


def certified(plant: str = "") -> set[str]:
    """The laws that the weights of output perturbation break.

    A change of slots D of a person moves the certified minimiser by at most
    (G/M sum of D's weights + tau)/lambda. That must be at most max_D e (G/M + tau)/lambda: the sum
    is at most (1 + theta) max_D e - theta. And all of a person's slots together must reach it.
    """
    found, parts, theta = weighed(plant)
    laws = set()
    for start in range(0, 24, 4):
        for stop in range(start + 4, 25, 4):
            most = (1 + theta) * max(parts[start:stop]) - theta
            if sum(found[start:stop], Fraction(0)) > max(most, Fraction(0)):
                laws.add("sensitivity")
    if sum(found) < ((1 + theta) * max(parts) - theta) * (1 - Fraction(1, 2**30)):
        laws.add("counts for less than a record")
    return laws


def test_person_weights_made_before_theta_are_caught() -> None:
    assert not certified()
    assert "counts for less than a record" in certified("after")
    assert "sensitivity" in certified("without")


# --- a common clip


def one_person(n: int) -> tuple[Exact, int, float]:
    """Gradients of one person that nearly cancel, on the coarse lattice of many slots."""
    rng, clip = np.random.default_rng(4), 0.5
    X = rng.normal(size=(n, 2))
    X /= np.linalg.norm(X, axis=1)[:, None] * 1.0001
    X[1::2] = -X[::2] * 0.999
    owned = Owned(np.ones((n, 2), np.uint64), np.ones(n, np.bool_))
    records = Records(X, np.zeros(n, np.intp), np.ones(n, np.bool_))
    [piece] = with_persons([records], owned)
    x_bits, e_bits = lattice_bits(2**29, 1.0, clip)
    return Exact.of(piece.load(), bits=x_bits, persons=True), e_bits, clip


def norm_of(total: Any) -> Fraction:
    return sum((Fraction(float(each)) ** 2 for each in np.ravel(total)), Fraction(0))


def common_clip(part: Exact, *, w: Any, loss: Any, clip: float, bits: int) -> Any:
    """One factor for all of a person's slots, and each slot truncated after it."""
    residuals = loss.residual(w.T @ part.rows.T, part.y)
    whole = part.rows.T @ residuals
    scale = clip / max(float(np.linalg.norm(whole)), clip)
    return part.rows.T @ truncate(residuals * scale * (1 - 2.0**-24), bits)


def test_a_common_clip_truncated_slot_by_slot_is_caught() -> None:
    part, bits, clip = one_person(4096)
    caught = False
    for seed in range(20):
        w = np.random.default_rng(seed).normal(size=2)
        arguments: Any = {"w": w, "loss": Logistic(), "clip": clip, "bits": bits}
        assert norm_of(clipped_sum(part, **arguments)) <= Fraction(clip) ** 2
        caught |= norm_of(common_clip(part, **arguments)) > Fraction(clip) ** 2
    assert caught


# --- sizes that know owners


@contextmanager
def sized_by_owners(number: str) -> Iterator[None]:
    """Descents whose horizon, steps or start are taken from the sum of the person weights."""
    real = GradientPerturbation.fitted

    def fitted(self: Any, task: Any, terms: Any, records: Any, bits: Any) -> Any:
        summed = records.fold(lambda part: float(part.person_weights.sum()), float.__add__)
        typical = Fraction(terms.mass(records.n)) / max(1, round(summed))
        unchecked: Any = SimpleNamespace(persons=True, typical=typical)
        smaller = replace(terms, protects=unchecked)
        descent = self.descent_of(task, terms, records.n, records.d)
        planted = self.descent_of(task, smaller, records.n, records.d)
        mixed = replace(descent, **{number: getattr(planted, number)})
        if number == "steps":
            mixed = replace(mixed, sigma=planted.sigma)
        noise = partial(vars(gradient)["gaussian"], bits=bits)  # the recorder's
        return gradient.descend(task, terms, records, mixed, noise)

    with patch.object(GradientPerturbation, "fitted", fitted):
        yield
    assert GradientPerturbation.fitted is real


@pytest.mark.parametrize("number", ["", "steps", "rate", "keep"])
def test_sizes_from_the_sum_of_person_weights_are_caught(number: str) -> None:
    """Released models then tell how many slots each person has, which nobody pays for."""
    learner = GradientPerturbation()  # chooses steps, rate and keep itself
    if number == "keep":  # with an own rate it depends on the number of slots
        learner = GradientPerturbation(rate=0.02, steps=4)
    setup = persons_setup("fading", "logistic, gradient", contributions=1)
    large: Any = replace(
        cast("Plan", setup.plan), schedule=Fading(step=512, forget=Fraction(1, 3), memory=3)
    )
    setup = replace(setup, plan=large, learner=learner, batch=512)
    rng = np.random.default_rng(2)
    data: Data = {None: (rng.normal(size=(2048, 2)), rng.integers(2, size=2048))}
    few: Ids = {None: [i % 40 for i in range(2048)]}
    many: Ids = {None: list(range(2048))}

    def told() -> bool:
        """Whether scales, numbers of calls or models differ, at the same outputs."""
        one = run(setup, data, few, always(np.ones))
        other = run(setup, data, many, always(np.ones))
        return not same_calls(one, other) or not all(map(np.array_equal, one.models, other.models))

    if number:
        with sized_by_owners(number):
            assert told()
    else:
        assert not told()
