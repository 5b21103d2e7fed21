"""Panels that the paper does not have: this library beside what one would use instead."""

from pathlib import Path

from tidegate.learn import GradientPerturbation
from tidegate.plan import Plan
from tidegate.privacy import ApproxDP
from tidegate.privacy.allocation import OneStream
from tidegate.schedule import Continual, Independent, SlidingWindow
from tidegate.study.baselines import DPFTRL, NaiveSplitting, NonPrivate, WindowRefit
from tidegate.study.baselines.refit import Times
from tidegate.study.experiment import Experiment
from tidegate.study.method import Method, Scheduled
from tidegate.study.panels import Column, Kind, Line, Panel
from tidegate.study.sources import Digits, Source

BUDGET = ApproxDP(1.0, 1e-6)
BLOCK, STEP = 8192, 1024
FTRL_RATES = (2.0, 4.0, 8.0, 16.0)
"""The best of them is shown: chosen by the test records, which flatters it."""


def contests(folder: Path | None, *, quick: bool = False) -> list[Panel]:
    """The panels of the contest.

    Args:
        folder: Where the data sets are.
        quick: Pixels instead of their scattering, and a shorter stream.
    """
    if quick:
        source = Digits(folder=folder, features="pixels", records=12_288)
    else:
        source = Digits(folder=folder, features="scattering", records=32_768)
    return [_accuracy(source), _window(source)]


def _accuracy(source: Source) -> Panel:
    """All records so far."""
    times = Times(first=BLOCK, step=STEP)
    learner = GradientPerturbation()
    naive = NaiveSplitting(budget=BUDGET, times=times, learner=learner)
    lines = (
        _not_private(source, times),
        _line(source, "continual", "gradient", _ours(Continual(block=BLOCK, step=STEP))),
        _line(
            source,
            "DP-FTRL, the best rate",
            "baseline",
            *(DPFTRL(budget=BUDGET, times=times, rate=rate) for rate in FTRL_RATES),
        ),
        _line(source, "naive splitting", "baseline", naive),
        _line(source, "independent", "baseline", _ours(Independent(step=STEP))),
    )
    return _panel("accuracy", "MNIST, all records so far", lines)


def _window(source: Source) -> Panel:
    """The newest records."""
    size = 7 * STEP
    times = Times(first=size, step=STEP, window=size)
    refit = WindowRefit(budget=BUDGET, times=times, learner=GradientPerturbation())
    lines = (
        _not_private(source, times),
        _line(source, "sliding window", "gradient", _ours(SlidingWindow(window=size, step=STEP))),
        _line(source, "window refit", "baseline", refit),
        _line(source, "independent", "baseline", _ours(Independent(step=STEP))),
    )
    return _panel("window", "MNIST, the newest 7 168 records", lines)


def _panel(name: str, title: str, lines: tuple[Line, ...]) -> Panel:
    column = Column(title=f"ε = {BUDGET.epsilon:g}, δ = {BUDGET.delta:.0e}", lines=lines)
    return Panel(name=name, title=title, claim="", columns=(column,), runs=5)


def _ours(schedule: OneStream) -> Method:
    return Scheduled(
        name=type(schedule).__name__,
        plan=Plan(schedule=schedule, budget=BUDGET),
        learner=GradientPerturbation(),
    )


def _not_private(source: Source, times: Times) -> Line:
    return _line(source, "not private", "not private", NonPrivate(times=times))


def _line(source: Source, label: str, kind: Kind, *methods: Method) -> Line:
    first, *others = (Experiment(source=source, method=method) for method in methods)
    return Line(label=label, kind=kind, experiment=first, others=tuple(others))
