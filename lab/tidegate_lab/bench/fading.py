"""A step of Fading beside the same records in a window; a long stream: memory, cost per record."""

import os
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from tidegate import Gate, Plan
from tidegate.compute import Memory
from tidegate.data.records import Records
from tidegate.learn import GradientPerturbation, Softmax
from tidegate.learn.learner import Task, Terms, Trainer
from tidegate.privacy import ApproxDP
from tidegate.privacy.budget import allowance_of
from tidegate.privacy.noise import SystemBits
from tidegate.run.memory_run import MemoryRun
from tidegate.run.settings import Settings
from tidegate.schedule import Fading, Schedule, SlidingWindow
from tidegate_lab.bench.data import D, K, images
from tidegate_lab.bench.gate import alone, config, write
from tidegate_lab.bench.table import number, say, show, within, yes

STEP, RETAINED = 1024, 8
"""Records of a step, and steps that each method retains."""

STEPS, COUNTED = 24, 16
"""Steps of the stream, and how many of the last are measured: whole periods of the chain."""

BUDGET = ApproxDP(1.0, 1e-6)
TASK = Task(loss=Softmax(K), norm=1.0, regularization=None)
LEARNER = GradientPerturbation()
WINDOW = RETAINED * STEP
FADING = {
    "Fading, forget 3/10": Fading(step=STEP, forget=Fraction(3, 10), memory=RETAINED),
    "Fading, forget 2/5, linger 3/4": Fading(
        step=STEP, forget=Fraction(2, 5), memory=RETAINED, linger=Fraction(3, 4)
    ),
}
SCHEDULES: dict[str, Schedule] = {
    **FADING,
    "SlidingWindow, its chain": SlidingWindow(window=WINDOW, step=STEP),
    "SlidingWindow, refit": SlidingWindow(window=WINDOW, step=STEP, refit=True),
}
SCRATCH = "the window refitted from scratch"
BARS = {"SlidingWindow, refit": 0.75, SCRATCH: 0.75}
"""Of the other's passes and time that Fading may take."""

LONG = {"kind": "fading", "step": 2**14, "forget": "3/10", "memory": 8}
RECORDS, POINTS = 3 * 2**20, 6
"""Length of the long stream, and where its memory and time are read."""


class Cost(NamedTuple):
    """What a step costs: how often its passes read a record, and seconds of one core."""

    reads: float
    seconds: float


def plan(schedule: Schedule) -> Plan:
    return Plan(schedule=schedule, budget=BUDGET)


def settings(schedule: Schedule) -> Settings:
    return Settings(plan=plan(schedule), task=TASK, learner=LEARNER)


def trainer() -> Trainer[Task]:
    return Trainer(task=TASK, learner=LEARNER, budget=BUDGET, bits=SystemBits())


def scratch_terms() -> Terms:
    """A fit of the whole window for the share step/window, which starts at the origin."""
    return Terms(allowance=allowance_of(BUDGET, Fraction(1, RETAINED)))


def reads(schedule: Schedule) -> float:
    """Records that all passes of a step read, per record of a step, by public numbers alone."""
    trains = trainer()
    late = (STEPS - COUNTED) * STEP
    read = sum(
        line.fit.span.size
        * LEARNER.descent_of(TASK, trains.terms(line, None), line.fit.span.size, D).steps
        for line in plan(schedule).lines(STEPS * STEP)
        if line.fit.at > late
    )
    return read / (COUNTED * STEP)


def batches() -> Iterator[Records]:
    X, y = images().train
    for start in range(0, STEPS * STEP, STEP):
        part = slice(start, start + STEP)
        yield Records(X[part], y[part], np.ones(STEP, np.bool_))


def from_scratch() -> Callable[[Records], object]:
    """Refit the newest steps at every batch."""
    held: list[Records] = []

    def take(records: Records) -> None:
        held.append(records)
        del held[:-RETAINED]
        if len(held) == RETAINED:
            window = Memory().parts(held, held[0].form)
            LEARNER.fit(TASK, scratch_terms(), window, SystemBits())

    return take


def core_seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def costs() -> dict[str, Cost]:
    """The cost of a step of each method, measured in turns on one thread."""
    takes: dict[str, Callable[[Records], object]] = {
        name: MemoryRun(settings(schedule)).take for name, schedule in SCHEDULES.items()
    }
    takes[SCRATCH] = from_scratch()
    read = {name: reads(schedule) for name, schedule in SCHEDULES.items()}
    read[SCRATCH] = RETAINED * LEARNER.descent_of(TASK, scratch_terms(), WINDOW, D).steps
    times: dict[str, list[float]] = {name: [] for name in takes}
    with threadpool_limits(1):
        for records in batches():
            for name, take in takes.items():
                times[name].append(core_seconds(lambda: take(records)))  # noqa: B023 (called now)
    return {name: Cost(read[name], mean(times[name][-COUNTED:])) for name in takes}


def step_rows(found: dict[str, Cost]) -> Iterator[list[str]]:
    for (own, ours), (name, theirs) in product(found.items(), found.items()):
        if own not in FADING or name in FADING:
            continue
        bar = BARS.get(name)
        ratio = ours.reads / theirs.reads
        goal = [] if bar is None else [f"<= {bar:g}", yes(ratio <= bar)]
        yield [
            f"{own}: reads of a record by a step",
            name,
            number(ours.reads),
            number(theirs.reads),
            f"{number(ratio)} x",
            *goal,
        ]
        yield within(f"{own}: core time of a step", name, ours.seconds, theirs.seconds, bar)


class Point(NamedTuple):
    """How far the stream is, resident megabytes then, core seconds since the point before."""

    records: int
    megabytes: float
    seconds: float


def resident() -> float:
    """Megabytes of this process in memory now; Linux only."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def long_stream(path: Path, state: Path) -> list[Point]:
    """Feed a Gate, and measure on the way."""
    known = config(path, LONG)
    points: list[Point] = []
    began = time.process_time()
    with threadpool_limits(1), Gate.open(state, known) as gate:
        (source,) = known.sources().values()
        for raw in source.batches(None):
            done = gate.take(raw, source=source.name)
            for _ in gate.advance():
                pass
            if done * POINTS // RECORDS > len(points):
                now = time.process_time()
                points.append(Point(done, resident(), now - began))
                began = time.process_time()
    return points


def long_rows(points: list[Point]) -> Iterator[list[str]]:
    before = 0
    for at, megabytes, taken in points:
        each = 1e6 * taken / (at - before)
        before = at
        yield [f"{at:,}", f"{megabytes:.0f} MB", f"{number(each)} us"]


def long_line(points: list[Point]) -> str:
    """The last point beside the second: the first contains imports and the first fits."""
    _, early, *_, last = points
    memory = last.megabytes / early.megabytes
    records = RECORDS / POINTS
    time_ratio = last.seconds / early.seconds
    return (
        f"Last point against the second: memory {number(memory)} x, bar 1.1: {yes(memory <= 1.1)}; "
        f"core time per record {number(time_ratio)} x, bar 1.1: {yes(time_ratio <= 1.1)} "
        f"({records:,.0f} records between two points)"
    )


def main() -> None:
    title = f"A step of {STEP}, {RETAINED} steps retained, {images().name}, {STEPS} steps, one core"
    show(title, step_rows(costs()))
    with TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        path = Path(folder) / "records.parquet"
        write(path, RECORDS)
        points: list[Any] = alone(long_stream, path, Path(folder) / "state")
    columns = ("records so far", "resident memory", "core time per record since")
    show(f"{RECORDS:,} records through a Gate with Fading", long_rows(points), columns)
    say(long_line(points))
