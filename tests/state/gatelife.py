"""A scripted life of a Gate that can be interrupted anywhere and always ends the same."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.gate import Gate
from tidegate.run.config import Config
from tidegate.sources import Batches

TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SIZES = (40, 1, 260, 99, 450, 7, 100, 143, 200, 400)
SLIDING = {"kind": "sliding", "window": 700, "step": 100}
TWO = {"kind": "twostream", "step": 100, "source": {"kind": "cumulative", "block": 200}}


def config(schedule: Any = None, **sections: Any) -> Config:
    """A small reproducible gate."""
    return Config.of(
        {
            "schedule": schedule or SLIDING,
            "budget": {"epsilon": 1.0},
            "records": {"classes": [0, 1], "norm": 1.5, "dtype": "float64"},
            "learner": {"regularization": 0.1},
            "quality": {"share": 0},
            "not_private_seed": 7,
        }
        | sections
    )


def opened(folder: Path, settings: Config) -> Gate:
    """A gate for which it is always the same time."""
    return Gate.open(folder, settings, clock=lambda: TIME)


def stream(n: int, start: int = 0) -> tuple[Any, Any]:
    """Records that can be told apart, a few of which cannot be used."""
    slots = np.arange(start, start + n)
    y = slots % 2
    X = np.column_stack([2.0 * y - 1, np.cos(slots), slots % 11 / 11])
    X[slots % 37 == 5, 1] = np.nan
    return X, y


def batches(two: bool) -> list[tuple[Any, Any, str | None]]:
    """The script: batches of any sizes, of one stream or of two in turns."""
    found, starts = [], {"source": 0, "target": 0}
    for index, size in enumerate(SIZES):
        name = ("source", "target")[index % 3 == 1 or index % 3 == 2]
        at = starts[name] if two else sum(SIZES[:index])
        starts[name] += size
        found.append((*stream(size, at), name if two else None))
    return found


def live(
    folder: Path, failpoint: str = "", two: bool = False, store: dict[str, str] | None = None
) -> None:
    """Go through the script, from its start each time: what is there already is not added."""
    os.environ["TIDEGATE_FAILPOINT"] = failpoint
    publish = {"folder": str(folder.with_suffix(".out"))}
    measured = {"quality": {"share": "1/20"}, "survey": {"share": "1/20"}}
    more = {"publish": publish, "store": store or {}, **measured}
    with opened(folder, config(TWO if two else None, **more)) as gate:
        for index, (X, y, name) in enumerate(batches(two)):
            gate.ingest(X, y, stream=name, key=str(index))


def go_on(folder: Path) -> None:
    """A stream of small and large batches that goes on for a while."""
    publish = {"folder": str(folder.with_suffix(".out"))}
    with opened(folder, config(publish=publish, quality={"share": "1/20"})) as gate:
        for start in range(0, 4800, 600):
            gate.ingest(*stream(600, start))


def sources(two: bool) -> dict[str, Batches]:
    """The script as a source for each stream, which yields all of it each time."""
    pairs: dict[str, list[tuple[Any, Any]]] = {}
    for X, y, name in batches(two):
        pairs.setdefault(name or "records", []).append((X, y))
    return {name: Batches(name=f"script of {name}", pairs=each) for name, each in pairs.items()}


def run(folder: Path, failpoint: str = "", two: bool = False, target: bool = False) -> None:
    """Run on the script from where the last life ended, noting each release as it is handed out."""
    os.environ["TIDEGATE_FAILPOINT"] = failpoint
    more: dict[str, Any] = {"quality": {"share": "1/20"}}
    if target:
        more["records"] = {"target": [0, 1], "norm": 1.5, "dtype": "float64"}
    with (
        opened(folder, config(TWO if two else None, **more)) as gate,
        folder.with_suffix(".notes").open("a", buffering=1) as notes,
    ):
        for release in gate.run(sources(two)):
            notes.write(f"{release.hash}\n")
