"""Records from Parquet through a Gate: time, memory, what a record costs, how soon it is back."""

import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.progress import track

from tidegate import Config, Gate, Plan
from tidegate.features import clip_rows
from tidegate.learn.learner import Trainer
from tidegate_lab.bench.table import number, say, show, yes

SIZES = (1_000_000, 3_000_000, 10_000_000)
WIDTH = 32
COLUMNS = [f"x{index}" for index in range(WIDTH)]
CHUNK = 2**16
SCHEDULES: dict[str, dict[str, Any]] = {
    "sliding window": {"kind": "sliding", "window": 7 * 2**16, "step": 2**16},
    "fading": {"kind": "fading", "step": 2**16, "forget": "3/10", "memory": 8},
    "continual, sampled": {"kind": "continual", "block": 2**17, "step": 2**14, "sample": 2**16},
    "continual": {"kind": "continual", "block": 2**17, "step": 2**14},
}


class Life(NamedTuple):
    """What it took to take in a stream: seconds in all and without training, peak megabytes."""

    total: float
    ingest: float
    peak: float


class Found(NamedTuple):
    """What was measured on a stream of one length."""

    lives: dict[str, Life]
    plain: float
    exact: float
    restart: float


def write(path: Path, n: int) -> None:
    rng = np.random.default_rng(0)
    schema = pa.schema([*((name, pa.float32()) for name in COLUMNS), ("y", pa.int64())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n, CHUNK):
            size = min(CHUNK, n - start)
            X = rng.standard_normal((size, WIDTH), np.float32)
            writer.write_table(pa.table([*X.T, rng.integers(2, size=size)], schema=schema))


def config(path: Path, schedule: dict[str, Any]) -> Config:
    return Config.of(
        {
            "schedule": schedule,
            "budget": {"epsilon": 1.0, "delta": 1e-6},
            "records": {"classes": [0, 1], "norm": 4.0, "columns": COLUMNS, "label": "y"},
            "source": {"type": "parquet", "path": str(path)},
        }
    )


def read_and(clip: Callable[[Any], object], path: Path) -> float:
    start = time.perf_counter()
    for batch in pq.ParquetFile(path).iter_batches(CHUNK):
        clip(np.column_stack([batch.column(name).to_numpy() for name in COLUMNS]))
    return time.perf_counter() - start


def plainly(X: Any) -> None:
    norms = np.sqrt(np.einsum("ij,ij->i", X, X))
    X *= np.minimum(1, 4.0 / norms)[:, None]


def exactly(X: Any) -> None:
    clip_rows(X, 4.0)


def through_the_gate(known: Config, state: Path) -> Life:
    training, train = 0.0, Trainer.train

    def timed(*words: Any) -> Any:
        nonlocal training
        began = time.perf_counter()
        made = train(*words)
        training += time.perf_counter() - began
        return made

    start = time.perf_counter()
    with patch.object(Trainer, "train", timed), Gate.open(state, known) as gate:
        (source,) = known.sources().values()
        for raw in source.batches(None):
            gate.take(raw, source=source.name)
            for _ in gate.advance():
                pass
    total = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Life(total, total - training, peak)


def restart(state: Path) -> float:
    start = time.perf_counter()
    with Gate.open(state) as gate:
        list(gate.advance())
    return time.perf_counter() - start


def alone(run: Callable[..., Any], *words: Any) -> Any:
    """The result of a run in a process of its own, whose peak memory is its alone."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(run, words)


def measured(n: int) -> Found:
    with TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        path = Path(folder) / "records.parquet"
        write(path, n)
        lives = {}
        for name, schedule in SCHEDULES.items():
            state = Path(folder) / name
            lives[name] = alone(through_the_gate, config(path, schedule), state)
        return Found(
            lives=lives,
            plain=alone(read_and, plainly, path),
            exact=alone(read_and, exactly, path),
            restart=alone(restart, state),  # of continual, which keeps every record
        )


def ingest_rows(found: dict[int, Found]) -> Iterator[list[str]]:
    for n, (lives, plain, exact, back) in found.items():
        life = lives["sliding window"]
        yield [
            f"{n:,} x {WIDTH}",
            f"{life.ingest:.1f} s",
            f"{plain:.1f} s",
            f"{number(life.ingest / plain)} x, bar 3: {yes(life.ingest <= 3 * plain)}",
            f"{exact:.1f} s",
            f"{life.peak:.0f} MB",
            f"{back:.2f} s, bar 1: {yes(back < 1)}",
        ]


def reads(schedule: dict[str, Any], n: int) -> float:
    """How often fits read a record on average, by the plan: less while the first are to come."""
    plan = config(Path("records.parquet"), schedule).plan()
    assert isinstance(plan, Plan)
    return sum(fit.sample or fit.span.size for fit, _ in plan.lines(n)) / n


def cost_rows(found: dict[int, Found]) -> Iterator[list[str]]:
    for name, schedule in SCHEDULES.items():
        costs = {n: 1e6 * known.lives[name].total / n for n, known in found.items()}
        times = {n: reads(schedule, n) for n in costs}
        told = (f"{costs[n]:.2f} us for {times[n]:.2f} reads" for n in costs)
        each = [costs[n] / times[n] for n in costs]
        yield [name, *told, f"{number(max(each) / each[0])} x a read"]


def main() -> None:
    found = {n: measured(n) for n in track(SIZES, "Streams through the Gate")}
    shortest, *_, longest = (known.lives["sliding window"].peak for known in found.values())
    columns = ("what", "no training", "read, clip", "ratio", "exact clip", "peak", "restart")
    title = "From Parquet through a sliding-window Gate, against pyarrow and numpy: read and clip"
    show(title, ingest_rows(found), columns)
    flat = yes(longest <= 1.1 * shortest)
    say(f"Peak memory, longest against shortest: {longest / shortest:.2f} x, bar 1.1: {flat}")
    names = ("schedule", *(f"{n:,} records" for n in found), "most against first")
    show("What a record costs, training included", cost_rows(found), names)
