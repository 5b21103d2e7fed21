"""Mistakes with surveys, transforms and refits, planted one at a time: each breaks a law.

Two mistakes break none, because they cost no privacy: an unusable record that counts as a class
too, and one that keeps the constant column. tests/learn/ finds those.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.laws.replay import Call, Floats, Scene, Setup, Slot, always, laws_broken
from tests.laws.scenes import R, blank, setup_of
from tests.learn.test_survey import opposite
from tidegate.data.intake import clean
from tidegate.data.records import Parts, Records, total
from tidegate.learn import preparation, refit, survey
from tidegate.learn.learner import Task
from tidegate.privacy import Ledger, LedgerError
from tidegate.run.memory_run import MemoryRun
from tidegate.schedule import Span

SHARE = Fraction(1, 5)
GRADIENT, OUTPUT = "logistic, gradient", "huber, pure"
Patch = AbstractContextManager[Any]


def scene(schedule: str, learning: str, *, d: int = 2, **changes: Any) -> Scene:
    usual = Scene(
        setup=setup_of(schedule, learning, survey=SHARE),
        data=blank(schedule, 24, d),
        slot=Slot(None, 9),
        before=([R, *[0] * (d - 1)], 1),
        after=([-R, *[0] * (d - 1)], 0),
        script=always(np.zeros),
    )
    return replace(usual, **changes)


def in_units(*values: float) -> list[float]:
    return [R * value for value in values]


HALVES, THREES = math.sqrt(0.5), math.sqrt(1.5)
SQUARES = scene(
    "independent",
    GRADIENT,
    before=(in_units((THREES + HALVES) / 2, (THREES - HALVES) / 2), 1),
    after=(in_units((HALVES - THREES) / 2, (-HALVES - THREES) / 2), 0),
)
"""The records whose squares cost most beside their sums, if they weigh as much."""

PRODUCTS = scene(
    "independent",
    GRADIENT,
    before=(in_units(HALVES, HALVES), 1),
    after=(in_units(HALVES, -HALVES), 0),
)
"""The records whose product of features moves most."""


FARTHEST, FARTHEST_FROM_IT = (
    [R * value for value in row] for row in opposite(16).reshape(2, 16).tolist()
)
"""The rows that are farthest apart in sums, squares and length together, in the L1 norm."""


def all_sure(_: int, call: Call) -> Floats:
    """A model that is sure of class 1 everywhere, and knows the first feature well."""
    if call.center.shape != (4,):  # a survey or a round of the refit
        return np.zeros(call.center.shape)
    return -1e6 * np.array([1.0, 0.0, 0.0, 1e3])


def refit_scene(schedule: str) -> Scene:
    """Opposite gradients, and opposite ends of the refit's range."""
    return scene(
        schedule, GRADIENT, d=3, before=([R, 0, 0], 0), after=([-R, 0, 0], 0), script=all_sure
    )


SCALES, CELLS, PRODUCTS_OF = survey.scales, survey.cells_of, survey._products
SENSITIVITY = survey.sensitivity
TAKE_SURVEY, SURVEY, CENTRED = Ledger.take_survey, MemoryRun.survey, Task.centred


def squares_as_sums(*given: Any, **more: Any) -> Any:
    """As much noise for squares as for sums."""
    right = SCALES(*given, **more)
    return right._replace(squares=right.sums)


def everywhere(records: Records, **given: Any) -> Floats:
    """Unusable slots enter their own cell and all others."""
    cells = CELLS(replace(records, usable=np.ones(records.n, bool)), **given)
    cells[2 * records.d + given["classes"]] = np.count_nonzero(~records.usable)
    return cells


class KeepsRows(Setup):
    """Keeps the features of a record whose label is unknown."""

    def records(self, X: Any, y: Any) -> Records:
        usable = super().records(X, y).usable
        return replace(
            clean(X, y * usable, classes=self.classes, norm=self.task.norm), usable=usable
        )


def kept_rows(original: Scene) -> Scene:
    return replace(original, setup=KeepsRows(**vars(original.setup)))


def exactly(records: Parts[Records], **given: Any) -> Any:
    """A survey that pays for its noise, and returns the sums without it."""
    seen = REAL(records, **given)
    work = partial(
        CELLS, norm=given["norm"], classes=seen.classes, bits=survey.lattice_bits(records.n)
    )
    return replace(seen, cells=total(records, work))


REAL = survey.survey


def one_later(run: MemoryRun, stream: str, step: Span) -> Any:
    """The survey of the next step, if its records are there."""
    later = Span(step.stop, step.stop + step.size)
    return SURVEY(run, stream, later if run.steps.count(stream) >= later.stop else step)


def weighed_before_clipping(part: Any, **given: Any) -> Floats:
    """A sum of vectors that count for less before they are clipped."""
    weights, two = part.slot_weights, refit._two
    if weights is None:
        return SUMMED(part, **given)
    with patch.object(refit, "_two", lambda *a: two(*a) * weights):
        return SUMMED(part._replace(slot_weights=None), **given)


SUMMED = refit.summed


def without(function: Any) -> Callable[..., None]:
    """Notes that the survey was taken, but charges nothing."""

    def note(ledger: Ledger, span: Span) -> None:
        with patch.object(Ledger, "_charge"):
            function(ledger, span)

    return note


def twice(ledger: Ledger, span: Span) -> None:
    TAKE_SURVEY(ledger, span)
    ledger._surveyed -= 1
    TAKE_SURVEY(ledger, span)


SMALL = scene("sliding 5", OUTPUT, after=([-R, 0], 1))
SMALL = replace(SMALL, setup=replace(SMALL.setup, task=replace(SMALL.setup.task, norm=0.5)))
LATE = scene("sliding 2", GRADIENT, slot=Slot(None, 12))
LATE = replace(LATE, setup=replace(LATE.setup, batch=24))

MISTAKES: dict[str, tuple[Scene, Callable[[], Patch], str]] = {
    "squares weigh as much as sums": (
        SQUARES,
        lambda: patch.object(survey, "scales", squares_as_sums),
        "fit",
    ),
    "products of features count twice": (
        PRODUCTS,
        lambda: patch.object(survey, "_products", lambda *rows: 2 * PRODUCTS_OF(*rows)),
        "fit",
    ),
    "unusable slots are in every cell": (
        kept_rows(scene("independent", GRADIENT, after=([-R, 0], 7))),
        lambda: patch.multiple(survey, cells_of=everywhere),
        "fit",
    ),
    "rows are not divided by the norm": (
        scene("independent", GRADIENT),
        lambda: patch.object(survey, "cells_of", lambda part, **g: CELLS(part, **{**g, "norm": 1})),
        "fit",
    ),
    "half of the noise of counts": (
        scene("independent", GRADIENT),
        lambda: patch.object(
            survey, "scales", lambda *a, **k: SCALES(*a, **k)._replace(counts=SCALES(*a, **k).sums)
        ),
        "fit",
    ),
    "the L2 sensitivity under Laplace noise": (
        scene("independent", OUTPUT, d=16, before=([R / 4] * 16, 1), after=([-R / 4] * 16, 0)),
        lambda: patch.object(survey, "sensitivity", lambda *_, **__: SENSITIVITY("mu", features=1)),
        "fit",
    ),
    "squares and length for nothing under Laplace noise": (
        scene("independent", OUTPUT, d=16, before=(FARTHEST, 1), after=(FARTHEST_FROM_IT, 0)),
        lambda: patch.object(survey, "sensitivity", lambda *_, **__: 2 * math.sqrt(16) + 1),
        "fit",
    ),
    "a transform of exact sums": (
        scene("fading", GRADIENT),
        lambda: patch.object(preparation, "survey", exactly),
        "post-processing",
    ),
    "the survey of the next step": (
        LATE,
        lambda: patch.object(MemoryRun, "survey", one_later),
        "span",
    ),
    "the norm of raw rows in a surveyed fit": (
        SMALL,
        lambda: patch.object(Task, "centred", lambda task: replace(CENTRED(task), norm=task.norm)),
        "fit",
    ),
    "a refit that clips what was weighed": (
        refit_scene("fading"),
        lambda: patch.object(refit, "summed", weighed_before_clipping),
        "fit",
    ),
    "a refit that the descent does not pay for": (
        refit_scene("independent"),
        lambda: patch.object(refit, "left_for_descent", lambda mu: mu),
        "fit",
    ),
    "a survey that is not charged": (
        scene("fading", GRADIENT),
        lambda: patch.object(Ledger, "take_survey", without(TAKE_SURVEY)),
        "ledger",
    ),
    "a survey that is charged twice": (
        scene("cumulative", OUTPUT, setup=setup_of("cumulative", OUTPUT, survey=Fraction(1, 40))),
        lambda: patch.object(Ledger, "take_survey", twice),
        "ledger",
    ),
}


def test_the_ledger_refuses_what_a_second_survey_leaves_no_room_for() -> None:
    """Under a schedule whose records spend all of their budget."""
    with patch.object(Ledger, "take_survey", twice), pytest.raises(LedgerError):
        laws_broken(scene("fading", GRADIENT))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_breaks_a_law(mistake: str) -> None:
    found, plant, law = MISTAKES[mistake]
    assert laws_broken(found) == set()
    with plant():
        assert law in laws_broken(found)
