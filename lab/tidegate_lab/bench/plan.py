"""One million steps of every schedule: planned, and planned and charged."""

import tracemalloc
from collections import deque
from collections.abc import Iterable
from functools import partial

from tidegate import Plan
from tidegate.privacy import Paper, PureDP, Tapered
from tidegate.schedule import (
    Basic,
    Continual,
    Fading,
    Independent,
    MultiResolution,
    Schedule,
    SlidingWindow,
)
from tidegate_lab.bench.table import seconds, show

STEPS = 1_000_000
SCHEDULES: list[Schedule] = [
    Independent(step=1),
    Basic(block=8, step=1),
    Continual(block=8, step=1),
    MultiResolution(block=1),
    SlidingWindow(window=7, step=1),
    SlidingWindow(window=7, step=1, refit=True),
    Fading(step=1, memory=8),
    SlidingWindow(window=1000, step=1),
    SlidingWindow(window=100_000, step=1),
]


def exhaust(work: Iterable[object]) -> None:
    deque(work, maxlen=0)


def peak_megabytes(plan: Plan) -> float:
    tracemalloc.start()
    exhaust(plan.charge(plan.ledger(), STEPS // 10))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1e6


def row(schedule: Schedule) -> list[str]:
    allocation = Tapered() if schedule.allocated else Paper()
    plan = Plan(schedule=schedule, budget=PureDP(1.0), allocation=allocation)
    planned = seconds(partial(exhaust, plan.lines(STEPS)))
    charged = seconds(partial(exhaust, plan.charge(plan.ledger(), STEPS)))
    return [
        str(schedule),
        f"{planned:.1f} s",
        f"{charged:.1f} s",
        f"{charged / planned:.2f}",
        f"{peak_megabytes(plan):.1f} MB",
    ]


def main() -> None:
    columns = ("schedule", "planned", "and charged", "ratio", "peak memory")
    show("1 M steps (memory: of the first 100 k)", map(row, SCHEDULES), columns)
