"""The same stream through a gate, whatever computes its fits."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.compute import Engine
from tidegate.data.records import Records
from tidegate.features import clip_rows
from tidegate.gate import Gate
from tidegate.learn.learner import Weights
from tidegate.run.config import Config
from tidegate.state.folder_store import FolderStore

N, D = 4096, 5


def records(n: int = N, *, seed: int = 0, dtype: Any = np.float32) -> Records:
    """Two clouds in the unit ball; a few slots cannot be used."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    X = clip_rows((rng.normal(size=(n, D)) + (2 * y - 1)[:, None]).astype(dtype), 1.0)
    usable = rng.random(n) < 0.95
    return Records(np.where(usable[:, None], X, X.dtype.type(0)), y * usable, usable)


def config(
    learner: str, *, sample: int | None = None, compute: str = "", kind: str = "continual"
) -> Config:
    delta, steps = ("delta = 1e-6", "steps = 8") if learner == "gradient" else ("", "")
    return Config.parse(f"""
        not_private_seed = 5
        [schedule]
        kind = "{kind}"
        block = 1024
        step = 1024
        {"" if sample is None else f"sample = {sample}"}
        [budget]
        epsilon = 2.0
        {delta}
        [records]
        classes = [0, 1]
        norm = 1.0
        [learner]
        kind = "{learner}"
        {steps}
        [compute]
        {compute}
        """)


def opened(folder: Path, told: Config) -> Gate:
    """A gate whose records are in many small files."""
    fresh = None if folder.exists() and any(folder.iterdir()) else told.to_json()
    return Gate(FolderStore(folder, fresh, segment_records=256), told)


def batches(given: Records) -> Iterator[tuple[Any, Any]]:
    """The records as they arrive."""
    X = np.where(given.usable[:, None], given.X, np.nan)
    for start in range(0, given.n, 700):
        yield X[start : start + 700], given.y[start : start + 700]


def weights(folder: Path, told: Config, engine: Engine) -> tuple[list[Weights], list[Any]]:
    """The models of a whole stream, and what was charged for them."""
    with opened(folder, told) as gate:
        gate.engine = engine
        for X, y in batches(records()):
            gate.ingest(X, y)
        return models(gate)


def models(gate: Gate) -> tuple[list[Weights], list[Any]]:
    """All models of a gate, and what was charged for them."""
    lines = list(gate.store.lines())
    return [gate.store.fit(line.fit.number) for line in lines], lines
