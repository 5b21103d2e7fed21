"""Panels that are not in the paper: this library and the alternatives to it."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from tidegate.learn import GradientPerturbation
from tidegate.plan import Plan
from tidegate.privacy import ApproxDP, Paper, Tapered
from tidegate.schedule import Continual, Growing, Independent, Schedule, SlidingWindow
from tidegate.study.baselines.diffprivlib import MISSING, Diffprivlib, installed
from tidegate.study.baselines.ftrl import DPFTRL
from tidegate.study.baselines.nonprivate import NonPrivate
from tidegate.study.baselines.refit import NaiveSplitting, Overspent, Times, WindowRefit
from tidegate.study.experiment import Experiment
from tidegate.study.method import Method, Scheduled
from tidegate.study.panels import Column, Kind, Line, Panel
from tidegate.study.study_sources import Digits, MovingArchives, MovingLabels, Source, TurningDigits

BUDGET = ApproxDP(1.0, 1e-6)
BLOCK, STEP = 8192, 1024
WINDOW = 7 * STEP
SLIDING = SlidingWindow(window=WINDOW, step=STEP)
FTRL_RATES = tuple(DPFTRL.rate * factor for factor in (0.5, 1, 2))
"""The plot shows the best of them, chosen on the test records, which favours DP-FTRL."""


def contests(
    folder: Path | None, kaggle: Path | None = None, *, quick: bool = False
) -> list[Panel]:
    """The panels that compare methods; for the arguments see `panels`.

    Quick panels use pixels instead of their scattering, and shorter streams.
    """
    features: Literal["pixels", "scattering"] = "pixels" if quick else "scattering"
    n = 10_240 if quick else 32_768
    digits = Digits(folder=folder, features=features, records=n)
    moving: dict[str, Source] = {
        "rotating digits": TurningDigits(folder=folder, records=n),
        "digits come and go": MovingLabels(folder=folder, records=n),
        "arXiv by date": MovingArchives(folder=folder, kaggle=kaggle, records=min(n, 28_672)),
    }
    return [
        replace(
            _panel("accuracy", "MNIST, all records so far", *_all_records(digits)),
            without="" if installed() else MISSING,
        ),
        _panel("window", f"MNIST, the newest {WINDOW} records", _newest_records(digits)),
        _panel(
            "drift",
            "streams that drift",
            *(_drift(title, source) for title, source in moving.items()),
        ),
    ]


def _panel(name: str, title: str, *columns: Column) -> Panel:
    budget = f"ε = {BUDGET.epsilon:g}, δ = {BUDGET.delta:.0e}"
    return Panel(name=name, title=f"{title}; {budget}", claim="", columns=columns, runs=5)


def seldom(times: Times) -> Times:
    """Every fourth release: enough to place a model without privacy, at a quarter of the cost.

    diffprivlib gains by it: its budget is split over a quarter as many releases.

    >>> seldom(Times(first=8, step=1)).spans(16)
    [Span(start=0, stop=8), Span(start=0, stop=12), Span(start=0, stop=16)]
    """
    return replace(times, step=4 * times.step)


def _all_records(source: Source) -> tuple[Column, Column]:
    """The strongest methods on a scale of their own, and the others beside the best of them."""
    times = Times(first=BLOCK, step=STEP)
    naive = NaiveSplitting(budget=BUDGET, times=times, learner=GradientPerturbation())
    overspent = Overspent(budget=BUDGET, times=seldom(times), learner=GradientPerturbation())
    diffprivlib = Diffprivlib(budget=BUDGET, times=seldom(times), regularization=0.1)
    rates = [DPFTRL(budget=BUDGET, times=times, rate=rate) for rate in FTRL_RATES]
    both = (
        _line(source, "not private", "not private", NonPrivate(times=seldom(times))),
        _line(source, "growing", "gradient", _ours(Growing(block=BLOCK, step=STEP))),
    )
    strongest = (
        replace(_line(source, overspent.name, "overspent", overspent), seldom=True),
        _line(source, "continual", "gradient", _ours(Continual(block=BLOCK, step=STEP))),
        _line(source, "DP-FTRL, the best rate", "baseline", *rates),
        _line(source, "naive splitting, exact", "baseline", naive),
    )
    others = (
        _line(source, "naive splitting, ε/T", "baseline", replace(naive, simple=True)),
        _line(source, "independent", "baseline", _ours(Independent(step=STEP))),
        replace(_line(source, "diffprivlib, ε/T", "baseline", diffprivlib), seldom=True),
    )
    return (
        Column(title="the strongest", lines=(*both, *strongest), near=True),
        Column(title="others", lines=(*both, *(others if installed() else others[:-1]))),
    )


def _newest_records(source: Source) -> Column:
    times = Times(first=WINDOW, step=STEP, window=WINDOW)
    refit = WindowRefit(budget=BUDGET, times=times, learner=GradientPerturbation())
    return Column(
        title=f"{source.shape[0]} features",
        lines=(
            _line(source, "not private", "not private", NonPrivate(times=seldom(times))),
            _line(source, "sliding window", "gradient", _ours(SLIDING)),
            _line(source, "window refit", "baseline", refit),
            _line(source, "independent", "baseline", _ours(Independent(step=STEP))),
        ),
    )


def _drift(title: str, source: Source) -> Column:
    """Methods on a drifting stream; the model without privacy learns the window, too."""
    times = Times(first=WINDOW, step=STEP, window=WINDOW)
    return Column(
        title=title,
        lines=(
            _line(source, "not private", "not private", NonPrivate(times=times)),
            _line(source, "sliding window", "gradient", _ours(SLIDING)),
            _line(source, "continual", "gradient", _ours(Continual(block=BLOCK, step=STEP))),
            _line(source, "independent", "gradient", _ours(Independent(step=STEP))),
        ),
    )


def _ours(schedule: Schedule) -> Method:
    allocation = Tapered() if schedule.allocated else Paper()
    return Scheduled(
        name=type(schedule).__name__,
        plan=Plan(schedule=schedule, budget=BUDGET, allocation=allocation),
        learner=GradientPerturbation(),
    )


def _line(source: Source, label: str, kind: Kind, *methods: Method) -> Line:
    first, *others = (Experiment(source=source, method=method) for method in methods)
    return Line(label=label, kind=kind, experiment=first, others=tuple(others))
