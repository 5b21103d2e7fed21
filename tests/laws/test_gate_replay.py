"""Neighbouring streams break no law in a Gate that surveys every step and scores releases."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.laws.gate_replay import (
    QUALITY,
    SCHEDULES,
    GateScene,
    R,
    config_of,
    gate_laws_broken,
    zeros,
)
from tests.laws.replay import Call, Floats, Slot, honest
from tests.laws.test_replay import NEIGHBOURS
from tests.state.gatelife import TIME
from tidegate.gate import Gate
from tidegate.learn import private_accuracy, score_cells, target_scores
from tidegate.privacy.budget import up
from tidegate.schedule import Span
from tidegate.state.durable_run import DurableRun
from tidegate.state.store import Step

E1 = np.array([1.0, 0.0], object)
KINDS = ["other side and label", "far beyond the norm", "not a number", "unknown label", "zero"]


def some_records(schedule: str, length: int, classes: int) -> Any:
    """Random records, some of which cannot be used."""
    data = zeros(schedule, length)
    for seed, (X, y) in enumerate(data.values()):
        rng = np.random.default_rng(seed)
        X[:] = rng.normal(scale=R, size=X.shape)
        y[:] = rng.integers(classes, size=length)
        X[5, 0], y[9] = np.nan, 77
    return data


@pytest.mark.thorough
@pytest.mark.parametrize("classes", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_neighbour_breaks_a_law(schedule: str, pure: bool, classes: int) -> None:
    """Each of the Gate's lines, across restarts: surveys, scores and fits."""
    data = some_records(schedule, 20, classes)
    for stream in data:
        scene = GateScene(
            config=config_of(schedule, pure=pure, classes=classes),
            data=data,
            slot=Slot(stream, 10),
            script=honest(1),
        )
        assert not gate_laws_broken(scene, (R * E1, 1), *(NEIGHBOURS[kind] for kind in KINDS))


@pytest.mark.thorough
@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_neighbour_breaks_a_law_of_an_accuracy(schedule: str, pure: bool) -> None:
    """The same with `scores = false`: only the number of correct slots is released."""
    data = some_records(schedule, 20, 2)
    for stream in data:
        scene = GateScene(
            config=config_of(schedule, pure=pure, scores=False),
            data=data,
            slot=Slot(stream, 10),
            script=honest(1),
        )
        assert not gate_laws_broken(scene, (R * E1, 1), *(NEIGHBOURS[kind] for kind in KINDS))


TARGETS: dict[str, tuple[Any, Any]] = {
    "other side and end": (-R * E1, 3.0),
    "the same, far outside the range": (-1e200 * E1, 1e300),
    "in the middle": (0.1 * E1, 1.0),
    "no number": (R * E1, "late"),
    "no target": (R * E1, None),
    "infinite": (R * E1, np.inf),
    "no features": (np.array([np.nan, 0.0], object), -1.0),
}
"""What a record with the lowest target may be replaced by."""


SLOW = {"sliding", "growing"}


@pytest.mark.thorough
@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize(
    "schedule",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in SCHEDULES],
)
def test_no_neighbour_breaks_a_law_of_a_target(schedule: str, pure: bool) -> None:
    """The same for regressions: surveys of parts of the range, sums of errors, fits."""
    data = some_records(schedule, 20, 4)
    for stream, (_, y) in data.items():
        y[:] = y - 1.0
        y[3], y[9] = "?", 1e9
        scene = GateScene(
            config=config_of(schedule, pure=pure, target=True),
            data=data,
            slot=Slot(stream, 10),
            script=honest(1),
        )
        assert not gate_laws_broken(scene, (R * E1, -1.0), *TARGETS.values())


@pytest.mark.slow
@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_slot_breaks_a_law_of_a_target(schedule: str, pure: bool) -> None:
    data = some_records(schedule, 24, 4)
    for stream in data:
        for record in range(24):
            scene = GateScene(
                config=config_of(schedule, pure=pure, target=True),
                data=data,
                slot=Slot(stream, record),
                script=honest(record),
            )
            assert not gate_laws_broken(scene, (R * E1, -1.0), *TARGETS.values()), record


@pytest.mark.slow
@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_slot_and_no_record_breaks_a_law(schedule: str, pure: bool) -> None:
    data = some_records(schedule, 24, 2)
    for stream in data:
        for record in range(24):
            scene = GateScene(
                config=config_of(schedule, pure=pure, scores=record % 2 == 0),
                data=data,
                slot=Slot(stream, record),
                script=honest(record),
            )
            assert not gate_laws_broken(scene, (R * E1, 1), *NEIGHBOURS.values()), record


def sure(_: int, call: Call) -> Floats:
    """A model that is sure of every record, by the sign of its first feature."""
    result = np.zeros(call.center.shape)
    if call.line.fit.number >= 0:
        result[0] = -1e6 if call.mechanism == "gaussian" else 1e6
    return result


def sure_of_three(_: int, call: Call) -> Floats:
    """The same for three classes: it predicts class 1, or class 0."""
    result = np.zeros(call.center.shape)
    if call.line.fit.number >= 0 and result.ndim == 2:  # not of a refit
        result[0] = np.array([-1e6, 1e6, 0]) * (-1 if call.mechanism == "gaussian" else 1)
    return result


def scored(*, pure: bool, scores: bool = True, classes: int = 2) -> GateScene:
    return GateScene(
        config=config_of("fading", pure=pure, scores=scores, classes=classes),
        data=zeros("fading", 16),
        slot=Slot(None, 9),
        script=sure if classes == 2 else sure_of_three,
    )


RIGHT, WRONG = (R * E1, 1), (-R * E1, 1)
SCALE, SCORE = score_cells._scale, DurableRun.score
Patch = AbstractContextManager[Any]


def alone(allowance: Any, *_: object) -> float:
    """The noise of a count or of a table, as if nothing else were released."""
    if allowance.unit == "epsilon":
        return up(2 / Fraction(allowance.amount))
    return float(np.nextafter(2**0.5 / allowance.amount, np.inf))


def of_the_step_before(run: DurableRun, stream: str, step: Span) -> Any:
    """Scores of the records that the newest release has read, charged to others."""
    return SCORE(run, stream, Span(step.start - step.size, step.start))


def not_charged(kind: str) -> Patch:
    def others(step: Step) -> list[Fraction]:
        survey = [] if step.survey_share is None or kind == "survey" else [step.survey_share]
        return survey if step.evaluation is None or kind == "scores" else [*survey, QUALITY]

    return patch.object(Step, "measured", property(others))


MISTAKES: dict[str, tuple[bool, Callable[[], Patch], str]] = {
    "counts and tables with noise of their own": (
        False,
        lambda: patch.object(score_cells, "_scale", alone),
        "fit",
    ),
    "counts and tables with noise of their own, pure": (
        True,
        lambda: patch.object(score_cells, "_scale", alone),
        "fit",
    ),
    "records that the release has read": (
        False,
        lambda: patch.object(DurableRun, "score", of_the_step_before),
        "span",
    ),
    "scores that nobody pays for": (False, lambda: not_charged("scores"), "ledger"),
    "surveys that nobody pays for": (True, lambda: not_charged("survey"), "ledger"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_breaks_a_law(mistake: str) -> None:
    pure, plant, law = MISTAKES[mistake]
    assert gate_laws_broken(scored(pure=pure), RIGHT, WRONG) == set()
    with plant(), patch("tests.laws.gate_replay.verify", return_value=[]):
        assert law in gate_laws_broken(scored(pure=pure), RIGHT, WRONG)


def twice(weights: Any, records: Any, transform: Any = None, *, norm: float) -> float:
    """The number of correct slots, counted twice."""
    return 2 * CORRECT(weights, records, transform, norm=norm)


CORRECT = private_accuracy.correct


@pytest.mark.parametrize("pure", [False, True])
def test_a_mistake_in_an_accuracy_breaks_a_law(pure: bool) -> None:
    """A record that moves the count by two pays for one."""
    scene = scored(pure=pure, scores=False)
    assert gate_laws_broken(scene, RIGHT, WRONG) == set()
    with patch.object(private_accuracy, "correct", twice):
        assert "fit" in gate_laws_broken(scene, RIGHT, WRONG)


@pytest.mark.parametrize("pure", [True, False])
def test_scores_noised_for_right_answers_alone_break_a_law(pure: bool) -> None:
    """Three classes: a right answer counts in fewer tables than a wrong one."""
    scene = scored(pure=pure, classes=3)
    assert gate_laws_broken(scene, RIGHT, WRONG) == set()
    wrong = patch.object(score_cells, "OUTCOMES", ("right",))
    with wrong, patch("tests.laws.gate_replay.verify", return_value=[]):
        assert "fit" in gate_laws_broken(scene, RIGHT, WRONG)


def too_little(allowance: Any) -> Any:
    """The noise of each sum of errors, as if nothing else were released."""
    one = up(2 / Fraction(allowance.amount))
    return target_scores.Kinds(*[one] * len(target_scores.Kinds._fields))


def unclipped(values: Any) -> Any:
    """Predictions as they are, if finite."""
    return np.nan_to_num(values, posinf=1e6, neginf=-1e6)


TARGET_MISTAKES: dict[str, tuple[bool, Callable[[], Patch]]] = {
    "sums with noise of their own": (
        False,
        lambda: patch.object(target_scores, "scales", too_little),
    ),
    "sums with noise of their own, pure": (
        True,
        lambda: patch.object(target_scores, "scales", too_little),
    ),
    "predictions that are not clipped": (
        False,
        lambda: patch.object(target_scores, "in_range", unclipped),
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("mistake", TARGET_MISTAKES)
def test_a_mistake_in_scores_of_a_target_breaks_a_law(mistake: str) -> None:
    pure, plant = TARGET_MISTAKES[mistake]
    scene = GateScene(
        config=config_of("fading", pure=pure, target=True),
        data=zeros("fading", 16),
        slot=Slot(None, 9),
        script=sure,
    )
    worst = (R * E1, 3.0), (R * E1, -1.0)
    assert gate_laws_broken(scene, *worst) == set()
    with plant(), patch("tests.laws.gate_replay.verify", return_value=[]):
        assert "fit" in gate_laws_broken(scene, *worst)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_release_is_scored_on_records_that_it_has_read(schedule: str, tmp_path: Path) -> None:
    """Nor on any that a model before it has read."""
    data = some_records(schedule, 32, 2)
    with Gate.open(tmp_path / "s", config_of(schedule, pure=False), clock=lambda: TIME) as gate:
        for stream, (X, y) in data.items():
            gate.ingest(X, y, stream=stream)
        scored = [step for step in gate.store.steps() if step.evaluation is not None]
        assert scored
        for step in scored:
            assert step.evaluation is not None
            newest = gate.store.release(step.evaluation.release).card["fit"]
            for line in gate.store.lines(step.stream):
                assert line.fit.number > newest or line.fit.span.stop <= step.span.start
