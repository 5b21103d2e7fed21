"""The demo's ring: private ways to keep a model fresh, five runs with fixed seeds each."""

import time
from collections.abc import Iterator
from fractions import Fraction
from statistics import mean, median
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from tidegate import Plan
from tidegate.compare import Labelled, LabelledStream, Method, Scheduled
from tidegate.demo.demo_state import BUDGET, FORGET, STEP, WINDOW, DriftingStream, Floats, Labels
from tidegate.features import NormClip
from tidegate.learn import GradientPerturbation
from tidegate.schedule import Fading, Schedule, SlidingWindow
from tidegate_lab.bench.table import show
from tidegate_lab.methods.refit import NaiveSplitting, WindowRefit
from tidegate_lab.methods.times import Times

RUNS = 5
TESTS = 2000
"""Fresh records that a release is tested on, as in the demo."""

SURVEY = Fraction(1, 20)
RING = DriftingStream()
TURNING = RING.still * RING.records
MEMORY = WINDOW // STEP

SCHEDULES: dict[str, Schedule] = {
    "fading": Fading(step=STEP, forget=FORGET, memory=MEMORY),
    "sliding refit": SlidingWindow(window=WINDOW, step=STEP, refit=True),
    "fading, memory 1, forget 1/10": Fading(step=STEP, forget=Fraction(1, 10), memory=1),
    "fading, linger 0": Fading(step=STEP, forget=FORGET, memory=MEMORY, linger=Fraction(0)),
    "sliding window": SlidingWindow(window=WINDOW, step=STEP),
    "fading, forget 1/10": Fading(step=STEP, forget=Fraction(1, 10)),
    "sliding refit, window 7,168": SlidingWindow(window=2 * WINDOW, step=STEP, refit=True),
    "sliding window, window 7,168": SlidingWindow(window=2 * WINDOW, step=STEP),
}


class Result(NamedTuple):
    """Mean accuracy before and after the ring starts to rotate, and seconds of one core."""

    still: float
    rotating: float
    seconds: float


def stream() -> LabelledStream:
    """The demo's stream, and its fresh records at each time."""
    batches = [RING.batch(start, STEP) for start in range(0, RING.records, STEP)]
    X, y = (np.concatenate(column) for column in zip(*batches, strict=True))
    return LabelledStream(
        records=clipped(X, y),
        classes=RING.classes,
        norm=RING.norm,
        test=lambda at: clipped(*RING.fresh(at, TESTS)),
    )


def clipped(X: Floats, y: Labels) -> Labelled:
    return Labelled(X=NormClip(RING.norm).fit_transform(X).astype(np.float32), y=y)


def methods() -> Iterator[tuple[str, str, Method]]:
    """Each method with its name and whether it surveys."""
    times = Times(first=WINDOW, step=STEP, window=WINDOW)
    learner = GradientPerturbation()
    for name, schedule in SCHEDULES.items():
        for survey, text in ((SURVEY, "with"), (Fraction(0), "without")):
            plan = Plan(schedule=schedule, budget=BUDGET, survey=survey)
            yield name, text, Scheduled(name=name, plan=plan, learner=learner)
    window = WindowRefit(budget=BUDGET, times=times, learner=learner)
    yield "window refit, from scratch", "without", window
    naive = NaiveSplitting(budget=BUDGET, times=times, learner=learner)
    yield "naive splitting, exact", "without", naive
    simple = NaiveSplitting(budget=BUDGET, times=times, learner=learner, simple=True)
    yield "naive splitting", "without", simple


def run(method: Method, records: LabelledStream, seed: int) -> Result:
    """One run; testing is not timed."""
    began, tested = time.process_time(), 0.0
    still: list[float] = []
    rotating: list[float] = []
    for at, model in method.models(records, seed):
        start = time.process_time()
        (rotating if at > TURNING else still).append(records.test(at).score(model))
        tested += time.process_time() - start
    return Result(mean(still), mean(rotating), time.process_time() - began - tested)


def main() -> None:
    records = stream()
    rows = []
    with threadpool_limits(1):
        for name, survey, method in methods():
            results = [run(method, records, seed) for seed in range(RUNS)]
            rotating = [each.rotating for each in results]
            rows.append(
                [
                    name,
                    survey,
                    f"{mean(each.still for each in results):.2%}",
                    f"{mean(rotating):.2%}",
                    f"{min(rotating):.2%} to {max(rotating):.2%}",
                    f"{median(each.seconds for each in results):.1f} s",
                ]
            )
            print(*rows[-1], flush=True)
    columns = ("method", "survey", "ring stands still", "ring rotates", "runs", "CPU time")
    show("Accuracy on fresh records", rows, columns)


if __name__ == "__main__":
    main()
