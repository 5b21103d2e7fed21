"""Fits past memory and past one process: from the disk, and on two Dask workers.

TIDEGATE_BENCH_RECORDS says how many records the history has in place of 4 million.
"""

import multiprocessing
import os
import resource
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from rich.progress import track
from threadpoolctl import threadpool_limits

from tidegate.compute import Disk, Engine, Memory
from tidegate.data.records import Parts, Records, total
from tidegate.features import clip_rows
from tidegate.learn import Logistic, Solution
from tidegate.learn.objective import Objective
from tidegate.learn.solver import certified_minimum
from tidegate.run.engine import OnDisk
from tidegate.state.segment_folder import LocalFolder
from tidegate.state.segments import Stored, write
from tidegate_lab.bench.peers import module
from tidegate_lab.bench.table import faster, ms, number, say, seconds, show, within, yes

N = int(os.environ.get("TIDEGATE_BENCH_RECORDS", "4000000"))
D = 64
SEGMENT = 2**16
LAMBDA = 1e-3
TOLERANCE = 1e-6
ROUNDS = 3
FORM = np.empty((0, D), np.float32)


def history(folder: Path) -> list[Stored]:
    """A stream of two clouds, in segments as a store writes them."""
    rng = np.random.default_rng(0)
    pieces = []
    for start in track(range(0, N, SEGMENT), description="Writing the history"):
        n = min(SEGMENT, N - start)
        y = rng.integers(2, size=n)
        X = rng.standard_normal((n, D), np.float32) * np.geomspace(1, 0.05, D, dtype=np.float32)
        X[:, :8] += np.float32(0.3) * (2 * y - 1)[:, None]
        records = Records(clip_rows(X / np.float32(3), 1.0), y, np.ones(n, np.bool_))
        file, size, checksum = write(LocalFolder(folder), f"records-{start}", records)
        pieces.append(
            Stored(
                where=folder / file,
                data=None,
                size=size,
                checksum=checksum,
                count=n,
                slots=slice(0, n),
                sound=set(),
            )
        )
    return pieces


def objective(parts: Parts[Records]) -> Objective:
    return Objective(parts, Logistic(), regularization=LAMBDA, norm=1.0)


def fit(engine: Engine, pieces: Sequence[Stored]) -> Solution:
    """A base fit: the records are loaded, and the certified minimum is found."""
    return certified_minimum(objective(engine.parts(pieces, FORM)), TOLERANCE)


# --- out of core


class Cold(NamedTuple):
    """A fit whose every pass comes from the disk: seconds, passes, and megabytes that it took."""

    seconds: float
    passes: int
    megabytes: float


def evict(pieces: Sequence[Stored]) -> None:
    """Have the kernel forget the files, so that they are read from the disk again."""
    for piece in pieces:
        file = os.open(piece.where, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def read(pieces: Sequence[Stored]) -> None:
    """One plain pass over the bytes: as fast as this disk can be read by one thread."""
    buffer = bytearray(2**22)
    for piece in pieces:
        with Path(piece.where).open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def cold_fit(pieces: Sequence[Stored], allowed: int) -> Cold:
    """Called in a process of its own: what it may map beyond its start is limited."""
    small = pieces[:1]
    fit(Disk(small=0), small)  # what is imported and allocated once is there before
    started = _mapped()
    resource.setrlimit(resource.RLIMIT_AS, (started + allowed, resource.RLIM_INFINITY))
    evicting, passes, original = 0.0, 0, OnDisk.fold

    def fold(self: OnDisk[Any], *work: Any) -> Any:
        nonlocal evicting, passes
        evicting += seconds(partial(evict, pieces))
        passes += 1
        return original(self, *work)

    with patch.object(OnDisk, "fold", fold):
        taken = seconds(partial(fit, Disk(), pieces)) - evicting
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Cold(taken, passes, peak)


def _mapped() -> int:
    """Bytes of address space that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def cold_rows(pieces: Sequence[Stored]) -> list[list[str]]:
    size = sum(piece.size for piece in pieces)
    allowed = size // 4
    read_times, fits = [], []
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for _ in track(range(ROUNDS), description="Fitting from the disk"):
            for _ in range(3):
                evict(pieces)
                read_times.append(seconds(partial(read, pieces)))
            fits.append(pool.apply(cold_fit, (pieces, allowed)))
    each = median(one.seconds / one.passes for one in fits)
    what = f"a pass of a fit, {fits[0].passes} passes"
    against = f"reading {size / 2**20:.0f} MiB, {allowed / 2**20:.0f} allowed"
    rate = f"{size / median(read_times) / 1e9:.1f} GB/s"
    return [
        within(what, against, each, median(read_times), 1.5),
        ["peak memory of that process", f"the disk reads {rate}", f"{fits[0].megabytes:.0f} MB"],
    ]


# --- Dask


@contextmanager
def cluster(workers: int) -> Iterator[Any]:
    from tidegate.run.cluster import Dask  # noqa: PLC0415

    engine = Dask(workers=workers)
    try:
        engine.client().wait_for_workers(workers)
        yield engine
    finally:
        engine.close()


def nothing(records: Records) -> np.ndarray[Any, Any]:
    del records
    return np.zeros(D)


def overhead(parts: Parts[Records]) -> float:
    """The time of a pass that computes nothing."""
    total(parts, nothing)  # the parts are loaded
    return median(seconds(partial(total, parts, nothing)) for _ in range(100))


class Peer(NamedTuple):
    """What a peer took, and the gradient norm that it reached."""

    seconds: float
    reached: float


def peer_fit(engine: Any, pieces: Sequence[Stored], parts: Parts[Records]) -> Peer | None:
    """dask-ml on the same workers, records in place, to the gradient norm that we certify.

    If it stops before, with every tolerance it is told, its shortest run is taken.
    """
    models, array = module("dask_ml.linear_model"), module("dask.array")
    if models is None:
        return None
    client, half = engine.client(), -(-len(pieces) // 2)
    F = objective(parts)
    with client.as_current(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        groups = [pieces[:half], pieces[half:]]
        loaded = [client.submit(_joined, group, pure=False) for group in groups]
        sizes = [sum(piece.n for piece in group) for group in groups]
        X, y = (
            array.concatenate(
                [
                    array.from_delayed(client.submit(_column, one, at), shape, dtype)
                    for one, shape in zip(loaded, shapes, strict=True)
                ]
            ).persist()
            for at, shapes, dtype in (
                ("X", [(n, D) for n in sizes], np.float32),
                ("y", [(n,) for n in sizes], np.float32),
            )
        )
        runs: list[Peer] = []
        for loose in (1, 0.5, 0.25, 0.125):
            model = models.LogisticRegression(
                solver="lbfgs",
                fit_intercept=False,
                C=1 / (2 * N * LAMBDA),
                tol=loose * N * TOLERANCE,  # its objective is a sum
                max_iter=1000,
                solver_kwargs={"normalize": False},
            )
            taken = seconds(partial(model.fit, X, y))
            reached = float(np.linalg.norm(F.gradient(np.asarray(model.coef_, np.float64))))
            say(f"dask-ml: {taken:.2f} s to gradient norm {reached:.2g}")
            runs.append(Peer(taken, reached))
            if reached <= TOLERANCE:
                return runs[-1]
    return min(runs)


def _joined(pieces: Sequence[Stored]) -> Records:
    return Memory().parts(pieces, FORM)


def _column(records: Records, name: str) -> Any:
    return np.asarray(getattr(records, name), np.float32)


# --- the model of docs/scale.md


class Rates(NamedTuple):
    """Bytes of records a second that one core works off, in passes of either precision."""

    draft: float
    exact: float


class Passes(NamedTuple):
    """How a fit went: its seconds, and its passes of either precision."""

    seconds: float
    draft: int
    exact: int


def rates(pieces: Sequence[Stored]) -> Rates:
    """Measured on a part of the history, in memory, on one thread."""
    with threadpool_limits(1):
        records = Memory().parts(pieces, FORM)
        F, w = objective(records), np.full(D, 0.1)
        taken = [
            min(seconds(partial(F.gradient, w, draft=draft)) for _ in range(5))
            for draft in (True, False)
        ]
    return Rates(*(records.X.nbytes / each for each in taken))


def counted(parts: Parts[Records]) -> Passes:
    """A fit whose passes are counted; the first pass, which loads the parts, is made before."""
    total(parts, nothing)
    with patch.object(
        Objective, "gradient", autospec=True, side_effect=Objective.gradient
    ) as gradient:
        taken = seconds(lambda: certified_minimum(objective(parts), TOLERANCE))
    drafts = sum(call.kwargs.get("draft", False) for call in gradient.call_args_list)
    return Passes(taken, drafts, gradient.call_count - drafts)


def modelled(known: Rates, passes: Passes, n: int, *, workers: int, overhead: float) -> float:
    """Seconds that a fit with these passes should take."""
    size = 4 * D * n / workers
    return (
        passes.draft * (size / known.draft + overhead)
        + passes.exact * (size / known.exact + overhead)
        + overhead  # the preconditioner
    )


def model_rows(pieces: Sequence[Stored], known: Rates, engine: Any) -> list[list[str]]:
    """Fits of several sizes beside what the model says of them."""
    rows = []
    for part in (4, 2, 1):
        some = pieces[: len(pieces) // part]
        parts = engine.parts(some, FORM)
        empty, made = overhead(parts), counted(parts)
        expected = modelled(known, made, parts.n, workers=len(parts.sizes), overhead=empty)
        what = f"fit of {parts.n:,}: {made.draft} + {made.exact} passes"
        rows.append(within(what, f"the model, {ms(empty)} a pass", made.seconds, expected))
    return rows


class Workers(NamedTuple):
    """A base fit on some workers: in all, with the records there; and a pass of nothing."""

    whole: float
    resident: float
    overhead: float
    solution: Solution
    peer: Peer | None
    models: list[list[str]]


def on_workers(count: int, pieces: Sequence[Stored], *, peers: bool) -> Workers:
    with cluster(count) as engine:
        fit(engine, pieces[: 2 * count])  # what is imported once is there before
        whole = median(seconds(partial(fit, engine, pieces)) for _ in range(ROUNDS))
        parts = engine.parts(pieces, FORM)
        empty = overhead(parts)
        F, found = objective(parts), []
        resident = median(
            seconds(lambda: found.append(certified_minimum(F, TOLERANCE))) for _ in range(ROUNDS)
        )
        models = model_rows(pieces, rates(pieces[: max(1, len(pieces) // 16)]), engine)
        peer = peer_fit(engine, pieces, parts) if peers else None
    return Workers(whole, resident, empty, found[-1], peer, models)


def dask_rows(pieces: Sequence[Stored]) -> list[list[str]]:
    print("Fitting on one worker, then on two")
    one = on_workers(1, pieces, peers=False)
    two = on_workers(2, pieces, peers=True)
    known = rates(pieces[: max(1, len(pieces) // 16)])
    say(f"One core: {known.draft / 1e9:.1f} GB/s in drafts, {known.exact / 1e9:.1f} GB/s exactly")
    start = time.perf_counter()
    memory = fit(Memory(), pieces)
    alone = time.perf_counter() - start
    apart = float(np.linalg.norm(two.solution.weights - memory.weights))
    allowed = (two.solution.gradient_norm + memory.gradient_norm) / (2 * LAMBDA)
    rows = [
        faster("base fit, 2 workers", "1 worker", two.whole, one.whole, 1.5),
        faster("the same, records there", "1 worker", two.resident, one.resident),
        faster("base fit, 2 workers", "in memory", two.whole, alone),
        [
            "a pass of nothing",
            "2 workers",
            ms(two.overhead),
            "",
            "",
            "< 25 ms",
            yes(two.overhead < 0.025),
        ],
        [
            "weights",
            "in memory",
            f"{apart:.2g} apart",
            f"{allowed:.2g}",
            f"{number(apart / allowed)} x",
            "<= 1",
            yes(apart <= allowed),
        ],
    ]
    if two.peer is not None:
        what = "fit, 2 workers, records there"
        against = f"dask-ml, lbfgs, to {two.peer.reached:.1g}"
        rows.append(faster(what, against, two.resident, two.peer.seconds, 1))
    return rows + two.models


def main() -> None:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the processes that are begun
    with TemporaryDirectory(dir=".") as folder:
        pieces = history(Path(folder).absolute())
        title = f"Logistic, n={N:,} d={D} float32 lambda={LAMBDA:g}, gradient norm <= {TOLERANCE:g}"
        show(title, cold_rows(pieces) + dask_rows(pieces))
