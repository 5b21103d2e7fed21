"""Make the states that later versions must be able to open: run once for each layout.

    python -m tests.state.states.make

It writes `<layout>-<name>.tar.gz` beside this file. What is there is never made again: a state of
an old layout must come from the version that had it.
"""

import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.state.postgres_server import BINARIES, server
from tidegate.gate import Gate
from tidegate.run.config import Config
from tidegate.state import person_rows
from tidegate.state.layout import LAYOUT

HERE = Path(__file__).parent
STATE, PUBLISHED, DUMP = "gate.state", "out", "schema.sql"
FIRST, MORE = 470, 250
"""Records that a state has taken in, and those that come later."""

SCHEDULES: dict[str, Any] = {
    "sliding": {"kind": "sliding", "window": 300, "step": 100},
    "growing": {"kind": "growing", "block": 200, "step": 50, "growth": "1/4"},
    "twostream": {"kind": "twostream", "step": 100, "source": {"kind": "cumulative", "block": 200}},
}
PERSONS: dict[str, dict[str, Any]] = {
    "life": {"id": "who", "contributions": 2},
    "period": {"id": "who", "contributions": 2, "period": 4},
}
"""States that protect persons."""


def names(layout: int) -> list[str]:
    """A state of each schedule that keeps something of its own, and one on PostgreSQL."""
    return [*SCHEDULES, "postgres", *(PERSONS if layout >= 6 else ())]


def config(name: str, **sections: Any) -> Config:
    """What the gate of a state is told, relative to the folder that the state is in."""
    schedule = SCHEDULES.get(name, SCHEDULES["sliding"])
    if name in PERSONS:
        schedule = {"kind": "fading", "step": 50, "forget": "1/2", "memory": 3}
    protected = {"person": PERSONS[name]} if name in PERSONS else {}
    file = "visits" if name in PERSONS else "records"
    two = {stream: {"type": "csv", "path": f"{stream}.csv"} for stream in ("source", "target")}
    return Config.of(
        {
            "schedule": schedule,
            "budget": {"epsilon": 1.0, "delta": 1e-6},
            "records": {"classes": [0, 1], "norm": 1.5, "columns": ["a", "b"], "label": "y"},
            "quality": {"share": "1/20"},
            "source": two if name == "twostream" else {"type": "csv", "path": f"{file}.csv"},
            "publish": {"folder": PUBLISHED},
        }
        | protected
        | sections
    )


def lines(start: int, stop: int, owned: bool) -> Iterator[str]:
    """Lines of CSV, some of which cannot be used; if wanted, with whose they are."""
    for slot in range(start, stop):
        value = "none" if slot % 37 == 5 else f"{np.cos(slot):.3f}"
        whose = f",p{slot * 7919 % 211}" if owned else ""
        yield f"{2 * (slot % 2) - 1},{value},{slot % 2}{whose}\n"


def grow(folder: Path, start: int, stop: int) -> None:
    """Let the sources have more records."""
    for name in ("records", "source", "target", "visits"):
        path = folder / f"{name}.csv"
        if start == 0:
            path.write_text("a,b,y,who\n" if name == "visits" else "a,b,y\n")
        with path.open("a") as file:
            file.writelines(lines(start, stop, owned=name == "visits"))


def run(folder: Path, settings: Config) -> int:
    """Take in what the sources have, and a batch with a name; how many releases there are."""
    soon = patch.object(
        person_rows, "MAX_UNMERGED_ROWS", 4
    )  # for few steps to have merged runs too
    with chdir(folder), soon, Gate.open(STATE, settings) as gate:
        for stream, source in settings.sources().items():
            for batch in source.batches(gate.store.offset(source.name)):
                gate.take(batch, source=source.name, stream=stream)
                for _ in gate.advance():
                    pass
            X = np.array([[1.0, 0.5], [np.nan, 1.0]])
            persons = None if settings.person is None else ["p7", None]
            gate.ingest(X, np.array([1, 0]), persons=persons, stream=stream, key="by hand")
        return sum(1 for _ in gate.releases())


def make(name: str, where: Path) -> None:
    """Make one state, and put it in an archive."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        grow(folder, 0, FIRST)
        store = {"store": {"database": server().url}} if name == "postgres" else {}
        run(folder, config(name, **store))
        kept = [STATE, PUBLISHED]
        if name == "postgres":
            schema = json.loads((folder / STATE / "elsewhere.json").read_text())["name"]
            dump(folder / DUMP, schema)
            kept.append(DUMP)
        with tarfile.open(where, "w:gz") as archive:
            for each in kept:
                archive.add(folder / each, each)


def dump(path: Path, schema: str) -> None:
    """All of a schema as SQL."""
    words = ["-h", str(server().folder), "-U", "tidegate", "--no-owner", "--inserts"]
    program = [str(BINARIES / "pg_dump"), *words, f"--schema={schema}", "postgres"]
    with path.open("wb") as file:
        subprocess.run(program, check=True, stdout=file, env={"PATH": os.defpath})


if __name__ == "__main__":
    for each in names(LAYOUT):
        target = HERE / f"{LAYOUT}-{each}.tar.gz"
        if not target.exists():
            make(each, target)
            print(target.name, target.stat().st_size)
