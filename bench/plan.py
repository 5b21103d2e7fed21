"""One million steps of every schedule: planned, and planned and charged."""

import time
import tracemalloc
from collections import deque
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from tidegate.plan import Plan
from tidegate.privacy import PureDP, Tapered
from tidegate.privacy.allocation import OneStream
from tidegate.schedule import (
    Basic,
    Continual,
    Independent,
    MultiResolution,
    SlidingWindow,
)

STEPS = 1_000_000
SCHEDULES: list[OneStream] = [
    Independent(step=1),
    Basic(block=8, step=1),
    Continual(block=8, step=1),
    MultiResolution(block=1),
    SlidingWindow(window=7, step=1),
    SlidingWindow(window=1000, step=1),
    SlidingWindow(window=100_000, step=1),
]


def seconds(work: Iterable[object]) -> float:
    start = time.perf_counter()
    deque(work, maxlen=0)
    return time.perf_counter() - start


def peak_megabytes(plan: Plan) -> float:
    tracemalloc.start()
    deque(plan.charge(plan.ledger(), STEPS // 10), maxlen=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1e6


def main() -> None:
    table = Table(title="1 M steps (memory: of the first 100 k)")
    for name in ("schedule", "planned", "and charged", "ratio", "peak memory"):
        table.add_column(name)
    for schedule in SCHEDULES:
        plan = Plan(schedule=schedule, budget=PureDP(1.0), allocation=Tapered())
        planned = seconds(plan.lines(STEPS))
        charged = seconds(plan.charge(plan.ledger(), STEPS))
        table.add_row(
            str(schedule),
            f"{planned:.1f} s",
            f"{charged:.1f} s",
            f"{charged / planned:.2f}",
            f"{peak_megabytes(plan):.1f} MB",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
