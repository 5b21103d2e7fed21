"""Many persons through a Gate: what admission and person weights add to a record, memory and disk.

`python -m tidegate_lab.bench persons` runs small sizes. The options of
`python -m tidegate_lab.bench.persons --help` also allow for the whole measurement of 10 million
persons and 40 million records.
"""

import multiprocessing
import os
import resource
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import psycopg

from tidegate import Config, Gate
from tidegate.learn import slot_weights as learn_weights
from tidegate.learn.learner import Trainer
from tidegate.sources import raw_batch
from tidegate.state import protected
from tidegate.state.folder_store import FolderStore
from tidegate.state.person_log import PersonLog
from tidegate_lab.bench.table import say, show, yes

WIDTH, MEMORY, CONTRIBUTIONS = 8, 8, 4
CHUNK = 2**16
MOST_TIME, MOST_MEMORY, MOST_DISK = 8.0, 200.0, 1500.0


class Life(NamedTuple):
    """What it took: seconds in all, of the processor, in training and by part; megabytes."""

    records: int
    total: float
    processor: float
    training: float
    parts: dict[str, float]
    peak: float
    disk: float
    slowest: float
    restart: float


def config(step: int, *, persons: bool, database: str | None) -> Config:
    """A Gate with a model at every step, which fades."""
    person = {"person": {"id": "who", "contributions": CONTRIBUTIONS}} if persons else {}
    return Config.of(
        {
            "schedule": {"kind": "fading", "step": step, "forget": "3/10", "memory": MEMORY},
            "budget": {"epsilon": 1.0, "delta": 1e-6},
            "records": {"classes": [0, 1], "norm": 4.0},
            "store": {} if database is None else {"database": database},
            **person,
        }
    )


class Timed:
    """Adds up the seconds spent in some functions."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*words: Any, **options: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*words, **options)
            finally:
                more = time.perf_counter() - began
                self.seconds[name] = self.seconds.get(name, 0.0) + more

        return timed


PARTS = [
    ("training", Trainer, "train"),
    ("keyed ids", protected, "owners_of"),
    ("admission", FolderStore, "admit"),
    ("admission", PersonLog, "store"),
    ("admission", PersonLog, "stored"),
    ("person weights", FolderStore, "owned"),
    ("person weights", learn_weights, "with_persons"),
]


def life(persons: int, records: int, step: int, database: str | None, protect: bool) -> Life:
    """Take in a stream in which each record is of a person drawn at random."""
    rng = np.random.default_rng(0)
    known = config(step, persons=protect, database=database)
    timed, slowest = Timed(), 0.0
    with TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder, ExitStack() as stack:
        for name, owner, attribute in PARTS:
            wrapped = timed.wrap(name, getattr(owner, attribute))
            stack.enter_context(patch.object(owner, attribute, wrapped))
        gate = stack.enter_context(Gate.open(Path(folder) / "state", known))
        total = processor = 0.0
        for start in range(0, records, CHUNK):
            size = min(CHUNK, records - start)
            X = rng.standard_normal((size, WIDTH), np.float32)
            ids = rng.integers(0, persons, size)
            y = (X[:, 0] > 0).astype(np.int64)
            began, busy = time.perf_counter(), time.process_time()
            gate.take(raw_batch(X, y, ids if protect else None))
            for _ in gate.advance():
                pass
            took = time.perf_counter() - began
            total, slowest = total + took, max(slowest, took)
            processor += time.process_time() - busy
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        disk = used(Path(folder)) if database is None else schema_size(database, Path(folder))
        gate.close()
        restart = 0.0
        if protect:
            with Gate.open(Path(folder) / "state", known) as again:
                X = np.zeros((step, WIDTH), np.float32)
                again.take(raw_batch(X, np.zeros(step, np.int64), np.arange(step)))
                began = time.perf_counter()
                list(again.advance())
                restart = time.perf_counter() - began
    training = timed.seconds.pop("training", 0.0)
    return Life(records, total, processor, training, timed.seconds, peak, disk, slowest, restart)


def used(folder: Path) -> float:
    """Megabytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def schema_size(database: str, folder: Path) -> float:
    """Megabytes of the segments, and of the tables of a new database on a server."""
    with psycopg.connect(database) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        return used(folder) + (row[0] if row else 0) / 1e6


def alone(*words: Any) -> Life:
    """The result of a life in a process of its own, whose peak memory is its alone."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found: Life = pool.apply(life, words)
        return found


def measure(persons: int, records: int, step: int, database: str | None = None) -> None:
    """Measure a stream with [person], and a shorter one without: a record costs the same there."""
    without = alone(persons, min(records, ENOUGH), step, database, False)
    protected = alone(persons, records, step, database, True)
    rows = [
        [
            label,
            *(f"{1e6 * seconds / each.records:.2f} us" for seconds in seconds_of(each)),
            f"{each.peak:.0f} MB",
            f"{each.disk:.0f} MB",
            f"{each.slowest:.2f} s",
        ]
        for label, each in (("without [person]", without), ("with [person]", protected))
    ]
    added, busy, *_ = (
        1e6 * (ours / protected.records - theirs / without.records)
        for ours, theirs in zip(seconds_of(protected), seconds_of(without), strict=True)
    )
    name = "SQLite" if database is None else "PostgreSQL"
    title = f"{name}: {persons:,} persons, {records:,} records, steps of {step:,}"
    show(title, rows, ("", "in all", "processor", "training", *NAMED, "peak", "disk", "slowest"))
    direct = 1e6 * sum(protected.parts.values()) / records
    more = protected.peak - without.peak
    say(
        f"Added to a record: {added:.2f} us in all, {busy:.2f} us of the processor, {direct:.2f} "
        f"us in the parts; bar {MOST_TIME:g}: {yes(added <= MOST_TIME)}"
    )
    say(f"Added memory: {more:+.0f} MB, bar {MOST_MEMORY:g}: {yes(more <= MOST_MEMORY)}")
    say(f"Disk: {protected.disk:.0f} MB, bar {MOST_DISK:g}: {yes(protected.disk <= MOST_DISK)}")
    say(f"The first step after a restart took {protected.restart:.1f} s, which makes the index.")


NAMED = ("keyed ids", "admission", "person weights")
ENOUGH = 2**22


def seconds_of(life: Life) -> list[float]:
    """In all, of the processor, in training, and in each part."""
    return [life.total, life.processor, life.training, *(life.parts.get(n, 0.0) for n in NAMED)]


def main(arguments: list[str] | None = None) -> None:
    """Measure the sizes that are asked for; without arguments, small ones."""
    given = options([] if arguments is None else arguments)
    measure(given.persons, given.records, given.step, given.database)
    if arguments is None:
        measure(100_000, 2**19, 1024)
        if url := postgres():
            measure(250_000, 2**20, 2**16, url)


def postgres() -> str:
    """The URL of a new server's database; empty without PostgreSQL, and outside of a clone."""
    try:
        from tests.state.postgres_server import BINARIES, server  # noqa: PLC0415
    except ModuleNotFoundError:
        return ""
    return server().url if BINARIES.exists() else ""


def options(arguments: list[str]) -> Namespace:
    """What to measure."""
    parser = ArgumentParser(prog="python -m tidegate_lab.bench.persons", description=__doc__)
    parser.add_argument("--persons", type=int, default=500_000)
    parser.add_argument("--records", type=int, default=2**21)
    parser.add_argument("--step", type=int, default=2**16)
    parser.add_argument("--database", help="URL of a PostgreSQL database, instead of SQLite")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
