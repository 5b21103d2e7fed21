"""Record and replay of whole Gates, which survey every step, score releases and restart.

See `replay`. A Gate is opened again for every batch, so no state but the stored one is used.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.laws.replay import (
    Data,
    Recorder,
    Script,
    Setup,
    Slot,
    Transcript,
    again,
    broken,
    measured,
    neighbour,
)
from tests.state.gatelife import TIME
from tidegate.gate import Gate
from tidegate.learn.learner import Trainer
from tidegate.run.config import Config
from tidegate.schedule import Span
from tidegate.schedule.progress import ONLY
from tidegate.state.durable_run import DurableRun
from tidegate.state.verification import verify

R = 2.0
SURVEY, QUALITY = Fraction(1, 10), Fraction(1, 5)
SCHEDULES: dict[str, dict[str, Any]] = {
    "fading": {"kind": "fading", "step": 4, "forget": "1/3", "memory": 3},
    "sliding": {"kind": "sliding", "window": 12, "step": 4},
    "growing": {"kind": "growing", "block": 8, "step": 4},
    "two streams": {"kind": "twostream", "step": 4, "source": {"kind": "cumulative", "block": 4}},
}


def config_of(
    schedule: str, *, pure: bool, classes: int = 2, scores: bool = True, target: bool = False
) -> Config:
    predicted = {"target": [-1, 3]} if target else {"classes": [*range(classes)]}
    learner = (
        {"kind": "output", "regularization": 0.5} if pure else {"kind": "gradient", "steps": 2}
    )
    return Config.of(
        {
            "schedule": SCHEDULES[schedule],
            "budget": {"epsilon": 1.0}
            if pure
            else {"epsilon": 1.0, "delta": 1e-3, "weak_delta": True},
            "records": {**predicted, "norm": R, "dtype": "float64"},
            "learner": learner,
            "survey": {"share": str(SURVEY)},
            "quality": {"share": str(QUALITY), "scores": scores},
            "not_private_seed": 7,
        }
    )


@dataclass(frozen=True, kw_only=True)
class GateScene:
    """A Gate, its records, and the record that is replaced."""

    config: Config
    data: Data
    slot: Slot
    script: Script
    batch: int = 5


def gate_transcript(scene: GateScene, data: Data, script: Script) -> Transcript:
    """Run a Gate on records, with the script in place of the noise."""
    recorder, slot = Recorder(script), scene.slot
    with TemporaryDirectory() as name, recorder.instead_of_noise(), watched(recorder):
        folder = Path(name)
        config = replace(scene.config, publish=published_to(folder / "out"))
        for start in range(0, max(len(y) for _, y in data.values()), scene.batch):
            for stream, (X, y) in data.items():
                part = slice(start, start + scene.batch)
                if len(y[part]):
                    with Gate.open(folder / "state", config, clock=lambda: TIME) as gate:
                        gate.ingest(X[part], y[part], stream=stream)
        with Gate.look(folder / "state") as gate:
            assert list(verify(gate)) == []
            paid = gate.ledgers()[slot.stream or ONLY].paid(slot.record)
            made = [*shown(gate), *files(folder / "out")]
    return Transcript(calls=recorder.calls, models=made, paid=paid)


def published_to(folder: Path) -> Any:
    return Config.of(
        {
            "schedule": SCHEDULES["fading"],
            "budget": {"epsilon": 1.0},
            "records": {"classes": [0, 1], "norm": R},
            "publish": {"folder": str(folder)},
        }
    ).publish


@contextmanager
def watched(recorder: Recorder) -> Iterator[None]:
    """Tells the recorder which line pays for what a Gate does."""
    train, survey, evaluation = Trainer.train, DurableRun.survey, DurableRun.score

    def of_fit(trainer: Any, line: Any, *rest: Any) -> Any:
        recorder.line = line
        return train(trainer, line, *rest)

    def of_survey(run: DurableRun, stream: str, step: Span) -> Any:
        recorder.line = measured("survey", stream, step, run.plan.survey)
        return survey(run, stream, step)

    def of_scores(run: DurableRun, stream: str, step: Span) -> Any:
        recorder.line = measured("scores", stream, step, run.plan.reserve)
        return evaluation(run, stream, step)

    with (
        patch.object(Trainer, "train", of_fit),
        patch.object(DurableRun, "survey", of_survey),
        patch.object(DurableRun, "score", of_scores),
    ):
        yield


def shown(gate: Gate) -> Iterator[Any]:
    """All that a Gate shows: the hash chain of releases covers their cards."""
    for release in gate.releases():
        yield release.hash
        yield release.weights
    for step in gate.store.steps():
        survey = gate.store.survey(step.stream, step.span.stop)
        yield repr(step)
        if survey is not None:
            yield from (survey.cells, survey.moments, survey.pairs, survey.mean_pairs)


def files(folder: Path) -> Iterator[Any]:
    """The files that a Gate publishes."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.name
            yield path.read_bytes()


def gate_laws_broken(scene: GateScene, before: Any, *after: Any) -> set[str]:
    """The laws that are broken when one record is replaced by any of others."""
    config, slot = scene.config, scene.slot
    setup = Setup(plan=config.plan(), task=config.task(), learner=config.learner.build())
    first = gate_transcript(scene, neighbour(scene.data, slot, *before), scene.script)
    assert first.calls
    laws: set[str] = set()
    for record in after:
        other = neighbour(scene.data, slot, *record)
        try:
            second = gate_transcript(scene, other, again(first.calls))
        except IndexError:  # more calls than in the first run
            return {"control flow"}
        laws |= broken(setup, first, second, slot)
    return laws


def zeros(schedule: str, length: int, d: int = 2) -> Data:
    """Records that pull nowhere."""
    names: Any = ("source", "target") if schedule == "two streams" else (None,)
    return {name: (np.zeros((length, d), object), np.zeros(length, object)) for name in names}
