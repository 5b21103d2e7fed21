"""Tables as they come: flights from their CSV file, late or not and how late, and ingest."""

import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from tidegate import (
    ApproxDP,
    Config,
    ContinualClassifier,
    ContinualRegressor,
    FadingClassifier,
    FadingRegressor,
    Gate,
    GrowingClassifier,
    GrowingRegressor,
    SlidingWindowClassifier,
    SlidingWindowRegressor,
)
from tidegate.features import Category, Columns, Number, Time
from tidegate_lab.bench.flight_data import LATE, PACKAGE, installed
from tidegate_lab.bench.table import say, show, yes

BUDGET = ApproxDP(1.0, 1e-6)
STEP = 4096
WINDOW = 7 * STEP
FORGET = Fraction(1, 10)
"""What Fading forgets at a step: seasons change slowly. Chosen on these flights."""

EVERY = 3
"""Every so many releases are tested, beside a model without privacy."""

SEEDS = int(os.environ.get("TIDEGATE_BENCH_SEEDS", "3"))
RANGE = (-60.0, 180.0)
"""Minutes late: the public range of the regressions. Numbers outside count as its ends."""

COLUMNS = Columns(
    [
        Category(
            "carrier",
            values=[
                "9E",
                "AA",
                "AS",
                "B6",
                "DL",
                "EV",
                "F9",
                "FL",
                "HA",
                "MQ",
                "OO",
                "UA",
                "US",
                "VX",
                "WN",
                "YV",
            ],
        ),
        Category("origin", values=["EWR", "JFK", "LGA"]),
        Category("dest", hash=64),
        Number("distance", low=0, high=3000),
        Number("hour", low=0, high=24),
        Time("time_hour"),
    ]
)
"""What is known before a flight leaves: the columns of the tutorial, with weekday and month."""

Floats = NDArray[np.float64]


@cache
def flights() -> pa.Table:
    """The file of the package as it is: cancelled flights included, months in its own order."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"needs {PACKAGE} (pip install {PACKAGE})")
    packed = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with ZipFile(packed) as folder, folder.open("flights.csv") as file:
        return pa.csv.read_csv(
            file,
            convert_options=pa.csv.ConvertOptions(
                column_types={"time_hour": pa.string(), "arr_delay": pa.float64()},
                null_values=["NA", ""],
            ),
        )


@cache
def delays() -> Floats:
    """Minutes late; NaN for a flight that did not arrive as planned."""
    return np.asarray(flights()["arr_delay"].to_numpy())


@cache
def features() -> NDArray[np.float32]:
    return np.asarray(COLUMNS.transform(flights()))


@cache
def twin_features() -> Any:
    """What scikit-learn makes of the same columns, without privacy."""
    frame = flights().select(COLUMNS.names).to_pandas()
    times = pd.to_datetime(frame.pop("time_hour")).dt
    cycles = {"hour": (times.hour, 24), "weekday": (times.weekday, 7), "month": (times.month, 12)}
    for name, (place, size) in cycles.items():
        frame[f"{name} cos"] = np.cos(2 * np.pi * place / size)
        frame[f"{name} sin"] = np.sin(2 * np.pi * place / size)
    codes = ["carrier", "origin", "dest"]
    numbers = [name for name in frame if name not in codes]
    made = ColumnTransformer([("codes", OneHotEncoder(), codes), ("n", StandardScaler(), numbers)])
    return made.fit_transform(frame).tocsr()


@dataclass(frozen=True)
class Method:
    """An estimator of streams, and which records its twin without privacy reads."""

    classifier: Any
    regressor: Any
    own: Mapping[str, Any]
    window: int | None = None
    forget: float = 0.0

    def weights(self, at: int) -> tuple[NDArray[np.intp], Floats]:
        """The records that arrived as planned before a time, and what they count in the twin."""
        start = 0 if self.window is None else max(0, at - self.window)
        rows = np.flatnonzero(~np.isnan(delays()[start:at])) + start
        return rows, np.asarray((1 - self.forget) ** ((at - 1 - rows) // STEP), np.float64)


METHODS: Mapping[str, Method] = {
    "fading": Method(
        FadingClassifier, FadingRegressor, {"step": STEP, "forget": FORGET}, 22 * STEP, 0.1
    ),
    "growing": Method(GrowingClassifier, GrowingRegressor, {"block": WINDOW, "step": STEP}),
    "sliding": Method(
        SlidingWindowClassifier, SlidingWindowRegressor, {"window": WINDOW, "step": STEP}, WINDOW
    ),
    "sliding, refit": Method(
        SlidingWindowClassifier,
        SlidingWindowRegressor,
        {"window": WINDOW, "step": STEP, "refit": True},
        WINDOW,
    ),
    "continual": Method(ContinualClassifier, ContinualRegressor, {"block": 8 * STEP, "step": STEP}),
}


def releases(estimator: Any, y: Any) -> Iterator[int]:
    """Feed the flights step by step; yield when a release is to be tested."""
    X, made = features(), 0
    for at in range(STEP, len(X) - STEP + 1, STEP):
        estimator.partial_fit(X[at - STEP : at], y[at - STEP : at])
        now = len(getattr(estimator, "releases_", ()))
        if now > made and at >= WINDOW and (now % EVERY == 0 or at % (8 * STEP) == 0):
            yield at
        made = now


def next_step(at: int) -> NDArray[np.intp]:
    return np.flatnonzero(~np.isnan(delays()[at : at + STEP])) + at


def late_run(name: str, seed: int) -> list[tuple[int, float, float]]:
    """When a method released, and its AUC and log-loss on the next step."""
    late = np.where(np.isnan(delays()), np.nan, delays() > LATE)
    estimator = METHODS[name].classifier(
        budget=BUDGET, classes=[0, 1], norm=COLUMNS.norm, not_private_seed=seed, **METHODS[name].own
    )
    found = []
    for at in releases(estimator, late):
        test = next_step(at)
        P = estimator.predict_proba(features()[test])[:, 1]
        found.append((at, roc_auc_score(late[test], P), log_loss(late[test], P)))
    return found


def late_twin(name: str, times: Sequence[int]) -> tuple[float, float]:
    """The same without privacy, on the same records, by scikit-learn."""
    X, late = twin_features(), delays() > LATE
    model, found = LogisticRegression(max_iter=300, warm_start=True), []
    for at in times:
        rows, weights = METHODS[name].weights(at)
        test = next_step(at)
        model.fit(X[rows], late[rows], sample_weight=weights)
        P = model.predict_proba(X[test])[:, 1]
        found.append((roc_auc_score(late[test], P), log_loss(late[test], P)))
    return mean(auc for auc, _ in found), mean(loss for _, loss in found)


def minutes() -> Floats:
    return np.asarray(np.clip(delays(), *RANGE))


def errors(truth: Floats, predicted: Floats) -> tuple[float, float]:
    away = predicted - truth
    return float(np.sqrt((away**2).mean())), float(np.abs(away).mean())


def minutes_run(name: str, seed: int) -> list[tuple[int, float, float]]:
    """When a method released, and its RMSE and MAE on the next step, in minutes."""
    estimator = METHODS[name].regressor(
        budget=BUDGET, target=RANGE, norm=COLUMNS.norm, not_private_seed=seed, **METHODS[name].own
    )
    found = []
    for at in releases(estimator, delays()):
        test = next_step(at)
        found.append((at, *errors(minutes()[test], estimator.predict(features()[test]))))
    return found


def minutes_twin(name: str, times: Sequence[int]) -> tuple[float, float]:
    """Ridge regression without privacy, on the same records."""
    X, y, found = twin_features(), minutes(), []
    for at in times:
        rows, weights = METHODS[name].weights(at)
        test = next_step(at)
        model = Ridge(alpha=1.0).fit(X[rows], y[rows], sample_weight=weights)
        found.append(errors(y[test], model.predict(X[test])))
    return mean(rmse for rmse, _ in found), mean(mae for _, mae in found)


def compared(pool: ProcessPoolExecutor, run: Any, twin: Any) -> Iterator[tuple[str, Any, Any]]:
    """Each method's medians over runs of the means over its releases, and those of its twin."""
    jobs = {name: [pool.submit(run, name, seed) for seed in range(SEEDS)] for name in METHODS}
    twins = {}
    for name, runs in jobs.items():
        twins[name] = pool.submit(twin, name, [at for at, *_ in runs[0].result()])
    for name, runs in jobs.items():
        means = [[mean(each[i] for each in one.result()) for i in (1, 2)] for one in runs]
        yield name, [median(each) for each in zip(*means, strict=True)], twins[name].result()


def late_rows(pool: ProcessPoolExecutor) -> Iterator[list[str]]:
    for name, (auc, loss), (twin_auc, twin_loss) in compared(pool, late_run, late_twin):
        below, above = (0.01, 0.02) if name in {"fading", "growing"} else (0.03, 0.03)
        met = auc >= twin_auc - below and loss <= twin_loss + above
        bar = f"-{below:g}, +{above:g}"
        yield [name, f"{auc:.3f} ({twin_auc:.3f})", f"{loss:.3f} ({twin_loss:.3f})", bar, yes(met)]


def minutes_rows(pool: ProcessPoolExecutor) -> Iterator[list[str]]:
    for name, ours, twin in compared(pool, minutes_run, minutes_twin):
        above = [one / other - 1 for one, other in zip(ours, twin, strict=True)]
        barred = name in {"fading", "growing"}
        cells = [f"{a:.1f} ({b:.1f}), {c:+.1%}" for a, b, c in zip(ours, twin, above, strict=True)]
        yield [name, *cells, "3 %" if barred else "", yes(max(above) <= 0.03) if barred else ""]


# --- ingest

ROWS = int(os.environ.get("TIDEGATE_BENCH_ROWS", "10_000_000"))
SIZES = (3, 5, 16, 12, 100, 30)
"""How many values each of the six categories has."""

TABLE = """
[schedule]
kind = "sliding"
window = 7000000000
step = 1000000000
[budget]
epsilon = 1.0
delta = 1e-6
[records]
classes = [0, 1]
label = "y"
"""


def made_table(n: int, seed: int) -> pa.Table:
    """Eight numbers with gaps, six categories and a time."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    for i in range(8):
        gaps = rng.random(n) < 0.02
        columns[f"n{i}"] = pa.array(np.round(rng.normal(50, 20, n), 2), mask=gaps)
    for i, size in enumerate(SIZES):
        names = np.array([f"v{j:03d}" for j in range(size)])
        columns[f"c{i}"] = pa.array(names[rng.integers(size, size=n)])
    start = np.datetime64("2013-01-01T00:00:00") + np.timedelta64(seed * n * 15, "s")
    times = start + (np.arange(n) * 15).astype("timedelta64[s]")
    columns["t"] = pa.array(times).cast(pa.timestamp("s"))
    columns["y"] = pa.array(rng.integers(2, size=n))
    return pa.table(columns)


def configuration(kind: str, path: Path) -> Config:
    numbers = [
        f'[[columns]]\nname = "n{i}"\nkind = "number"\nlow = 0\nhigh = 100' for i in range(8)
    ]
    codes = [
        f'[[columns]]\nname = "c{i}"\nkind = "category"\nvalues = {[f"v{j:03d}" for j in range(n)]}'
        for i, n in enumerate(SIZES)
    ]
    time = '[[columns]]\nname = "t"\nkind = "time"'
    source = f'[source]\ntype = "{kind}"\npath = "{path}"'
    return Config.parse("\n".join([TABLE, *numbers, *codes, time, source]))


def read_by_arrow(kind: str, path: Path) -> float:
    """Seconds that pyarrow takes to read the table and to dictionary-encode its categories."""
    start = perf_counter()
    table = pa.csv.read_csv(path) if kind == "csv" else pa.parquet.read_table(path)
    for i in range(len(SIZES)):
        table.column(f"c{i}").dictionary_encode()
    return perf_counter() - start


def ingested(kind: str, path: Path, state: Path) -> float:
    """Seconds that a gate takes to make all records durable."""
    with Gate.open(state, configuration(kind, path)) as gate:
        start = perf_counter()
        for _ in gate.run():
            pass
        return perf_counter() - start


def ingest_rows() -> Iterator[list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        parts = max(1, ROWS // 1_000_000)
        for kind in ("csv", "parquet"):
            path = Path(folder) / f"table.{kind}"
            _write(kind, path, parts)
            theirs = median(read_by_arrow(kind, path) for _ in range(3))
            ours = ingested(kind, path, Path(folder) / kind)
            path.unlink()
            ratio = ours / theirs
            rate = f"{ROWS / ours / 1e6:.2f} M records/s"
            yield [
                kind,
                f"{ours:.1f} s, {rate}",
                f"{theirs:.1f} s",
                f"{ratio:.2f}",
                "<= 3",
                yes(ratio <= 3),
            ]


def _write(kind: str, path: Path, parts: int) -> None:
    """Write the table a part at a time."""
    schema = made_table(1, 0).schema
    if kind == "csv":
        plain = pa.csv.WriteOptions(quoting_style="none")
        with pa.csv.CSVWriter(path, schema, write_options=plain) as writer:
            for part in range(parts):
                writer.write_table(made_table(ROWS // parts, part))
        return
    with pa.parquet.ParquetWriter(path, schema) as writer:
        for part in range(parts):
            writer.write_table(made_table(ROWS // parts, part))


def main() -> None:
    if installed():
        spawned = multiprocessing.get_context("spawn")
        how = f"step {STEP:,}, (1, 1e-6), tested on the next step; in brackets: scikit-learn"
        with ProcessPoolExecutor(os.cpu_count(), spawned, threadpool_limits, (1,)) as pool:
            head = ("schedule", "AUC", "log-loss", "bar", "met")
            show(f"Late flights from the CSV as it is, {how}", late_rows(pool), head)
            head = ("schedule", "RMSE, minutes", "MAE, minutes", "bar", "met")
            show(f"Minutes late from the CSV as it is, {how}", minutes_rows(pool), head)
    else:
        say(f"No flights: needs {PACKAGE} (pip install {PACKAGE})")
    title = f"Ingest of {ROWS:,} records of 8 numbers, 6 categories and a time"
    ingest = ("file", "Tidegate", "pyarrow, read and dictionary-encode", "ratio", "bar", "met")
    show(title, ingest_rows(), ingest)
