"""Trials: a method's releases over a stream in several runs, with their measures and time."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.study.curve import Curve, curve_of, tested
from tidegate.study.measured import yardstick_of
from tidegate.study.method import Method
from tidegate.study.study_stream import StudyStream

Floats = NDArray[np.float64]
Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What several runs of a method measured.

    Attributes:
        curve: All measures.
        seconds: How long each run trained, shape (runs,).
    """

    curve: Curve
    seconds: Floats


def attempt(
    method: Method,
    stream: StudyStream,
    seeds: Iterable[int],
    tick: Callable[[], None] = lambda: None,
    step: int | None = None,
) -> Trial:
    """Run a method once for each seed, and test every release; call `tick` after each run.

    With a `step`, the newest release is tested again every so many records, so that methods that
    release at other times are compared on the same records.
    """
    at: list[int] = []
    runs, seconds = [], []
    for seed in seeds:
        started = perf_counter()
        made = list(method.models(stream, seed))
        seconds.append(perf_counter() - started)
        if step is not None:
            made = newest_at(made, range(step, stream.n + 1, step))
        at = [time for time, _ in made]
        runs.append([tested(method, fitted, stream, time) for time, fitted in made])
        tick()
    curve = curve_of(method, yardstick_of(stream), at, runs)
    return Trial(curve=curve, seconds=np.array(seconds))


def best_attempt(
    methods: Sequence[Method],
    stream: StudyStream,
    seeds: Sequence[int],
    tick: Callable[[], None] = lambda: None,
    step: int | None = None,
) -> Trial:
    """The trial with the best mean; see `best_of` for what that choice means."""
    trials = [attempt(method, stream, seeds, tick, step) for method in methods]
    return max(trials, key=lambda trial: trial.curve.gain)


def newest_at(made: Sequence[tuple[int, Made]], times: Iterable[int]) -> list[tuple[int, Made]]:
    """The newest of what was made at each time: when something is made, and at the given times.

    >>> newest_at([(2, "a"), (4, "b"), (4, "c")], [1, 3, 6])
    [(2, 'a'), (3, 'a'), (4, 'c'), (6, 'c')]
    """
    at = [time for time, _ in made]
    wanted = sorted({*at, *(time for time in times if at and time >= at[0])})
    return [(time, made[bisect_right(at, time) - 1][1]) for time in wanted]
