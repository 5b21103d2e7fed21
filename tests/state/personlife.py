"""A scripted life of a Gate that protects persons."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from tests.state.gatelife import TWO, config, opened, stream
from tidegate.gate import Gate
from tidegate.run.config import Config

STEP = 100
FADING = {"kind": "fading", "step": STEP, "forget": "1/2", "memory": 3}
SIZES = (40, 260, 99, 1, 450, 150, 200)
KINDS: dict[str, dict[str, Any]] = {
    "life": {"schedule": FADING, "contributions": 2},
    "period": {"schedule": FADING, "contributions": 2, "period": 4},
    "twostream": {"schedule": TWO, "contributions": 2},
}


def settings(kind: str = "life", **sections: Any) -> Config:
    """A small reproducible gate that protects persons."""
    person = dict(KINDS[kind])
    schedule = person.pop("schedule")
    measured = {"quality": {"share": "1/20"}, "survey": {"share": "1/20"}}
    budget = {"epsilon": 1.0, "delta": 1e-6}
    return config(
        schedule, **{**measured, "budget": budget, "person": {"id": "who", **person}, **sections}
    )


def ids(start: int, n: int) -> list[Any]:
    """Whose the slots are: some at every step, others once, a few nobody's."""
    slots = np.arange(start, start + n)
    return [
        None if slot % 53 == 7 else "often" if slot % 10 == 0 else f"p{slot * 7919 % 401}"
        for slot in slots.tolist()
    ]


def batches(two: bool) -> list[tuple[int, int, str | None]]:
    """Starts and sizes of batches, of one stream or of two in turns."""
    found, starts = [], {"source": 0, "target": 0}
    for index, size in enumerate(SIZES):
        name = ("source", "target")[index % 3 == 1]
        found.append((starts[name] if two else sum(SIZES[:index]), size, name if two else None))
        starts[name] += size
    return found


def feed(gate: Gate, two: bool = False) -> None:
    """Give the gate the script; what it has already is not taken again."""
    for index, (start, size, name) in enumerate(batches(two)):
        X, y = stream(size, start)
        gate.ingest(X, y, persons=ids(start, size), stream=name, key=str(index))


def live(
    folder: Path, failpoint: str = "", kind: str = "life", store: dict[str, str] | None = None
) -> None:
    """Go through the script, from its start each time."""
    os.environ["TIDEGATE_FAILPOINT"] = failpoint
    publish = {"folder": str(folder.with_suffix(".out"))}
    with opened(folder, settings(kind, publish=publish, store=store or {})) as gate:
        feed(gate, kind == "twostream")


PEOPLE = ["often", *(f"p{number}" for number in range(401))]


def ledger(gate: Gate) -> dict[str, list[tuple[int, int]]]:
    """In which steps persons are admitted."""
    found = {each: gate.store.person(gate.persons.owner(each)) for each in PEOPLE}
    return {each: steps for each, steps in found.items() if steps}
