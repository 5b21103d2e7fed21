"""Mistakes with targets that break a law: see `replay` and test_planted."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.laws.replay import Data, Floats, Scene, Script, Setup, Slot, always, laws_broken
from tests.laws.scenes import DOWN, TARGET, UP, R, blank, confident, setup_of
from tidegate.checks import InvalidValueError
from tidegate.data import predicted
from tidegate.data.intake import clean
from tidegate.data.predicted import BITS, Target
from tidegate.data.records import Records
from tidegate.learn import gradient, output
from tidegate.learn.learner import Task, Terms, Weights
from tidegate.learn.loss import HuberError, SquaredError
from tidegate.learn.output import OutputPerturbation
from tidegate.learn.solver import Solution
from tidegate.privacy.noise import Bits

SURVEY = Fraction(1, 5)
Patch = AbstractContextManager[Any]


ZEROS, FAR_OFF = always(np.zeros), always(confident)
"""Released models: one that predicts the middle, and one that is far off."""


def scene(
    learning: str,
    *,
    schedule: str = "continual",
    before: tuple[Any, Any] = (UP, 1),
    after: tuple[Any, Any] = (DOWN, 1),
    script: Script = ZEROS,
    data: Data | None = None,
    **options: Any,
) -> Scene:
    return Scene(
        setup=setup_of(schedule, f"target {learning}", **options),
        data=blank(schedule, 24) if data is None else data,
        slot=Slot(None, 9),
        before=before,
        after=after,
        script=script,
    )


def with_h(found: Scene, h: float) -> Scene:
    assert isinstance(found.setup.task, Task)
    task = replace(found.setup.task, loss=HuberError(h=h))
    return replace(found, setup=replace(found.setup, task=task))


def not_clipped(residuals: Floats, lengths: Floats, clip: Any) -> Floats:
    del lengths, clip
    return residuals.clip(-4.0, 4.0)  # finite sums stay exact


def one_norm(_: HuberError, norm: float) -> float:
    return norm


RESIDUAL = HuberError.residual


def doubled(loss: HuberError, margins: Any, y: Any) -> Any:
    return 2 * RESIDUAL(loss, margins, y)


PLANTED: dict[str, tuple[Scene, Callable[[], Patch]]] = {
    "the clip forgotten, squared": (
        scene("squared, gradient"),
        lambda: patch.object(gradient, "clipped", not_clipped),
    ),
    "the clip forgotten, with surveys": (
        scene("squared, gradient", survey=SURVEY),
        lambda: patch.object(gradient, "clipped", not_clipped),
    ),
    **{
        f"G without h, {kind}": (
            with_h(scene(f"huber, {kind}", script=FAR_OFF), 4.0),
            lambda: patch.object(HuberError, "lipschitz", one_norm),
        )
        for kind in ("pure", "gaussian")
    },
    "residuals of twice the size that h allows": (
        scene("huber, pure", script=FAR_OFF),
        lambda: patch.object(HuberError, "residual", doubled),
    ),
    "half of the noise missing, squared": (
        scene("squared, gradient"),
        lambda: patch.object(gradient, "deviation", lambda c, j, mu: c * j**0.5 / mu),
    ),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_breaks_a_law(mistake: str) -> None:
    honest, plant = PLANTED[mistake]
    assert laws_broken(honest) == set()
    with plant():
        assert laws_broken(honest) & {"fit", "budget", "control flow"}


def test_squared_errors_with_noise_on_the_solution_break_a_law() -> None:
    """The learner refuses them; without that refusal, a law would find it."""
    honest = scene("huber, gaussian", script=FAR_OFF)
    assert isinstance(honest.setup.task, Task)
    task = replace(honest.setup.task, loss=SquaredError())
    squared = replace(honest, setup=replace(honest.setup, task=task))
    with pytest.raises(InvalidValueError, match="loss must be one with bounded gradients"):
        laws_broken(squared)
    with (
        patch.object(SquaredError, "lipschitz", lambda _, norm: norm),
        patch.object(SquaredError, "residual_error", 1e-12),
        patch.object(output, "certified_minimum", _exactly),
    ):
        assert "fit" in laws_broken(squared)


def _exactly(objective: Any, tolerance: float) -> Any:
    """The minimiser of squared errors, which a certificate could not vouch for here."""
    records, lam = objective.records, objective.regularization
    A = (records.X * records.usable[:, None]).astype(float)
    t = records.y * predicted.RESOLUTION * records.usable
    left = A.T @ A / objective.mass + 2 * lam * np.eye(A.shape[1])
    right = A.T @ t / objective.mass + 2 * lam * objective.center
    return Solution(weights=np.linalg.solve(left, right), gradient_norm=tolerance)


class RangeOffTheBatch(Setup):
    """Reads the range of the target off each batch."""

    def records(self, X: Any, y: Any) -> Records:
        seen = [float(each) for each in y]
        ends = Target(min([*seen, 0.0]), max([*seen, 0.5]))
        return clean(X, y, target=ends, norm=self.task.norm)


class Dropping(Setup):
    """Drops records whose targets cannot be used."""

    def records(self, X: Any, y: Any) -> Records:
        records = super().records(X, y)
        return records.take(np.flatnonzero(records.usable))


class Raising(Setup):
    """Refuses a batch for one target."""

    def records(self, X: Any, y: Any) -> Records:
        records = super().records(X, y)
        if not records.usable.all():
            raise ValueError("y contains NaN")
        return records


def busy(label: float = 0.5) -> Data:
    """Records of one kind: if their targets move, all move in one direction."""
    X = np.zeros((24, 2), object)
    X[:, 1] = R
    return {None: (X, np.full(24, label, object))}


@pytest.mark.parametrize(
    ("mistake", "found", "law"),
    [
        (
            RangeOffTheBatch,
            scene("squared, gradient", data=busy(), after=([R, 0.0], 50.0)),
            "fit",
        ),
        (Dropping, scene("huber, pure", data=busy(), after=([R, 0.0], None)), "control flow"),
        (Dropping, scene("squared, gradient", data=busy(), after=([R, 0.0], "x")), "control flow"),
        (Raising, scene("huber, gaussian", after=([R, 0.0], np.nan)), "control flow"),
    ],
)
def test_a_mistake_with_targets_breaks_a_law(mistake: type[Setup], found: Scene, law: str) -> None:
    fields = {**vars(found.setup), "batch": 4}
    assert laws_broken(replace(found, setup=Setup(**fields))) == set()
    assert law in laws_broken(replace(found, setup=mistake(**fields)))


def unbounded(self: Target, numbers: Any) -> Any:
    """Codes that are not clipped into the range."""
    usable = np.isfinite(numbers)
    scaled = (np.where(usable, numbers, self.middle) - self.middle) / self.half
    return np.rint(scaled * 2.0**BITS).astype(np.intp), usable


def test_a_target_that_is_not_clipped_breaks_a_law() -> None:
    """Surveys count parts of the range: a target beyond it has none, and stops the run."""
    honest = scene("huber, pure", survey=SURVEY, before=(UP, 0.5), after=(UP, 7))
    wide = patch.object(
        predicted, "part_of", lambda codes: (codes + 2**BITS) // (2 ** (BITS + 1) // Target.parts)
    )
    assert laws_broken(honest) == set()
    with patch.object(Target, "codes_of", unbounded), wide:
        assert "control flow" in laws_broken(honest)


def by_own_range(records: Records) -> Records:
    """Parts of the range of the step's targets, not of the public range."""
    low, high = int(records.y.min()), int(records.y.max())
    return replace(records, y=(records.y - low) * Target.parts // (high - low + 1))


def test_parts_read_off_the_step_break_a_law() -> None:
    """One target moves the part of all others in its step."""
    alike: Data = {None: (np.zeros((24, 2), object), np.full(24, 0.6, object))}
    own: dict[str, Any] = {"survey": SURVEY, "data": alike, "schedule": "fading"}
    honest = scene("huber, gaussian", before=(UP, 0), after=(DOWN, 0.6), **own)
    assert laws_broken(honest) == set()
    with patch("tidegate.learn.learner.by_part", by_own_range):
        assert laws_broken(honest) & {"fit", "budget"}


class MeanOfTheUsable(OutputPerturbation):
    """Divides by the number of usable records, which is private."""

    def fit(self, task: Task, terms: Terms, records: Any, bits: Bits) -> Weights:
        share = records.n / max(1, int(records.usable.sum()))
        made: Weights = super().fit(task, terms, records, bits) * share
        return made


def test_an_unusable_target_that_changes_the_divisor_breaks_a_law() -> None:
    honest = scene("huber, pure", after=([R, 0.0], None), script=always(np.ones))
    assert laws_broken(honest) == set()
    planted = replace(honest, setup=replace(honest.setup, learner=MeanOfTheUsable()))
    assert "post-processing" in laws_broken(planted)


def test_the_targets_of_a_scene_have_their_range() -> None:
    """So that labels of 0 and 1 are its ends, and 7 is beyond it."""
    codes, usable = TARGET.codes([0, 1, 7, "Ann", None])
    assert codes.tolist() == [-(2**BITS), 2**BITS, 2**BITS, 0, 0]
    assert usable.tolist() == [True, True, True, False, False]
