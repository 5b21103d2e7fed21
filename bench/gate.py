"""Records from Parquet through a sliding-window Gate: time, memory, and how soon it is back."""

import multiprocessing
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.table import number, show, yes
from tidegate.features import clip_rows
from tidegate.gate.config import Config
from tidegate.gate.gate import Gate
from tidegate.learn.trainer import Trainer

SIZES = (1_000_000, 3_000_000, 10_000_000)
WIDTH = 32
COLUMNS = [f"x{index}" for index in range(WIDTH)]
CHUNK = 2**16


def write(path: Path, n: int) -> None:
    rng = np.random.default_rng(0)
    schema = pa.schema([*((name, pa.float32()) for name in COLUMNS), ("y", pa.int64())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n, CHUNK):
            size = min(CHUNK, n - start)
            X = rng.standard_normal((size, WIDTH), np.float32)
            writer.write_table(pa.table([*X.T, rng.integers(2, size=size)], schema=schema))


def config(path: Path) -> Config:
    return Config.of(
        {
            "schedule": {"kind": "sliding", "window": 458_752, "step": 65_536},
            "budget": {"epsilon": 1.0, "delta": 1e-6},
            "records": {"classes": [0, 1], "norm": 4.0, "columns": COLUMNS, "label": "y"},
            "source": {"type": "parquet", "path": str(path)},
        }
    )


def read_and_clip(path: Path) -> float:
    start = time.perf_counter()
    for batch in pq.ParquetFile(path).iter_batches(CHUNK):
        X = np.column_stack([batch.column(name).to_numpy() for name in COLUMNS])
        norms = np.sqrt(np.einsum("ij,ij->i", X, X))
        X *= np.minimum(1, 4.0 / norms)[:, None]
    return time.perf_counter() - start


def read_and_clip_exactly(path: Path) -> float:
    start = time.perf_counter()
    for batch in pq.ParquetFile(path).iter_batches(CHUNK):
        clip_rows(np.column_stack([batch.column(name).to_numpy() for name in COLUMNS]), 4.0)
    return time.perf_counter() - start


def through_the_gate(path: Path, state: Path) -> tuple[float, float, float]:
    """Seconds with and without training, and peak megabytes."""
    training, train = 0.0, Trainer.train

    def timed(*words: Any) -> Any:
        nonlocal training
        began = time.perf_counter()
        made = train(*words)
        training += time.perf_counter() - began
        return made

    start = time.perf_counter()
    known = config(path)
    with patch.object(Trainer, "train", timed), Gate.open(state, known) as gate:
        (source,) = known.sources().values()
        for raw in source.batches(None):
            gate.take(raw, source=source.name)
            for _ in gate.advance():
                pass
    total = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return total, total - training, peak


def restart(state: Path) -> float:
    start = time.perf_counter()
    with Gate.open(state) as gate:
        list(gate.advance())
    return time.perf_counter() - start


def measured(sizes: tuple[int, ...]) -> Iterator[tuple[int, dict[str, float]]]:
    for n in sizes:
        with TemporaryDirectory() as folder:
            path, state = Path(folder) / "records.parquet", Path(folder) / "state"
            write(path, n)
            with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
                total, ingest, peak = pool.apply(through_the_gate, (path, state))
                yield (
                    n,
                    {
                        "total": total,
                        "ingest": ingest,
                        "peak": peak,
                        "plain": pool.apply(read_and_clip, (path,)),
                        "exact": pool.apply(read_and_clip_exactly, (path,)),
                        "restart": pool.apply(restart, (state,)),
                    },
                )


def main() -> None:
    found = dict(measured(SIZES))
    rows = [
        [
            f"{n:,} x {WIDTH}",
            f"{f['ingest']:.1f} s",
            f"{f['plain']:.1f} s",
            f"{number(f['ingest'] / f['plain'])} x, bar 3: {yes(f['ingest'] <= 3 * f['plain'])}",
            f"{f['exact']:.1f} s",
            f"{1e6 * f['total'] / n:.2f} us",
            f"{f['peak']:.0f} MB",
            f"{f['restart']:.2f} s, bar 1: {yes(f['restart'] < 1)}",
        ]
        for n, f in found.items()
    ]
    columns = ("what", "no training", "read, clip", "ratio", "exact clip", "each, trained")
    title = "From Parquet through a sliding-window Gate, against pyarrow and numpy: read and clip"
    show(title, rows, (*columns, "peak", "restart"))
