"""Tuning a baseline: the best of several settings, chosen by the very accuracy it is judged by."""

from collections.abc import Callable, Iterable

from tidegate.study.curve import Curve, measure
from tidegate.study.method import Method
from tidegate.study.study_stream import StudyStream


def best_of(
    methods: Iterable[Method],
    stream: Callable[[int], StudyStream],
    seeds: Iterable[int],
    tick: Callable[[], None] = lambda: None,
) -> tuple[Method, Curve]:
    """The method whose curve has the largest mean, with its curve.

    Choosing by the test records flatters: nobody can do so with private records. It is done for
    baselines only, so that what is ahead of them is ahead of the best they can be.

    Args:
        methods: One for each setting.
        stream: The stream of a run, given its seed.
        seeds: One for each run.
        tick: Called after each run, for progress.
    """
    runs = list(seeds)
    curves = [(method, measure(method, stream, runs, tick)) for method in methods]
    return max(curves, key=lambda pair: pair[1].mean)
