"""Panels that are not in the paper: this library and the alternatives to it."""

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, Literal

from tidegate import ApproxDP, Paper, Plan, Tapered
from tidegate.compare import Method, Scheduled
from tidegate.learn import GradientPerturbation
from tidegate.schedule import (
    Continual,
    Fading,
    Growing,
    Independent,
    Schedule,
    SlidingWindow,
)
from tidegate_lab.methods.diffprivlib import MISSING, Diffprivlib, installed
from tidegate_lab.methods.ftrl import DPFTRL
from tidegate_lab.methods.nonprivate import NonPrivate
from tidegate_lab.methods.refit import NaiveSplitting, Overspent, WindowRefit
from tidegate_lab.methods.times import Times
from tidegate_lab.paper.experiment import Experiment
from tidegate_lab.paper.panels import Column, Kind, Line, Panel
from tidegate_lab.paper.sources import Digits, MovingArchives, MovingLabels, Source, TurningDigits

SURVEY = Fraction(1, 20)
"""The share of surveys under a Gaussian budget, as a Gate has it by default."""

BUDGET = ApproxDP(1.0, 1e-6)
BLOCK, STEP = 8192, 1024
WINDOW = 7 * STEP
SLIDING = SlidingWindow(window=WINDOW, step=STEP)
REFIT = SlidingWindow(window=WINDOW, step=STEP, refit=True)
LEADING = Fading(step=STEP, forget=Fraction(2, 5), memory=6, linger=Fraction(3, 4))
"""Forgets records fast and its model slowly; a lead makes up for the lag of that model."""

LEAD = 0.4
FADING = (
    Fading(step=STEP, forget=Fraction(3, 10), memory=8),
    LEADING,
    *(
        Fading(step=STEP, forget=Fraction(percent, 100), memory=memory)
        for percent, memory in ((20, 10), (13, 14), (7, 20))
    ),
)
"""The first is the one to use where nothing is known about the drift."""

MEMORYLESS = Fading(step=STEP, forget=Fraction(1, 5), memory=1)
"""Every record is read once, in its own step; the model alone remembers."""

SLOW = Fading(step=STEP, forget=Fraction(1, 10))
"""For a stream that does not drift."""

FTRL_RATES = tuple(DPFTRL.rate * factor for factor in (0.5, 1, 2))
"""The plot shows the best of them, chosen on the test records, which favours DP-FTRL."""

FTRL_SETTINGS: tuple[dict[str, Any], ...] = tuple(
    dict(zip(("batch", "rate", "clip", "momentum", "average", "matched"), each, strict=True))
    for each in (
        (256, 14.0, 0.28, 0.6, 0.7, True),
        (256, 28.0, 0.14, 0.6, 0.7, True),
        (512, 55.0, 0.14, 0.8, 0.0, True),
        (512, 110.0, 0.07, 0.8, 0.0, True),
        (512, 28.0, 0.14, 0.8, 0.7, True),
        (1024, 220.0, 0.07, 0.8, 0.7, True),
        (512, 55.0, 0.14, 0.6, 0.0, False),
    )
)
"""The best for DP-FTRL in one run of the drifting streams, of over 430 settings tried on each."""


def contests(
    folder: Path | None, kaggle: Path | None = None, *, quick: bool = False
) -> list[Panel]:
    """The panels that compare methods; for the arguments see `panels`.

    Quick panels use pixels instead of their scattering, and shorter streams.
    """
    features: Literal["pixels", "scattering"] = "pixels" if quick else "scattering"
    n = 10_240 if quick else 32_768
    digits = Digits(folder=folder, features=features, records=n)
    archives = MovingArchives(folder=folder, kaggle=kaggle, records=min(n, 28_672))
    moving: dict[str, tuple[Source, Fraction]] = {
        "rotating digits": (TurningDigits(folder=folder, records=n), SURVEY),
        "digits come and go": (MovingLabels(folder=folder, records=n), SURVEY),
        "arXiv by date": (archives, Fraction(0)),  # sparse rows gain nothing by a survey
    }
    return [
        replace(
            _panel("accuracy", "MNIST, all records so far", *_all_records(digits)),
            without="" if installed() else MISSING,
        ),
        _panel("window", f"MNIST, the newest {WINDOW} records", _newest_records(digits)),
        _panel("still", "MNIST, a stream that does not drift", _still(digits)),
        _panel(
            "drift",
            "streams that drift",
            *(_drift(title, *moves) for title, moves in moving.items()),
        ),
        _panel(
            "forget",
            "streams that drift, by what a step forgets",
            *(_forget(title, *moves) for title, moves in moving.items()),
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


def _still(source: Source) -> Column:
    """What forgetting costs where there is nothing to forget."""
    times = Times(first=BLOCK, step=STEP)
    return Column(
        title=f"{source.shape[0]} features",
        lines=(
            _line(source, "not private", "not private", NonPrivate(times=seldom(times))),
            _line(source, "growing", "gradient", _ours(Growing(block=BLOCK, step=STEP))),
            _line(source, _title(SLOW), "gradient", _ours(SLOW)),
            _line(source, _title(FADING[0]), "gradient", _ours(FADING[0])),
            _line(source, "sliding window", "gradient", _ours(SLIDING)),
            _line(source, "sliding window, refit", "gradient", _ours(REFIT)),
        ),
        near=True,
        since=BLOCK,
    )


def _drift(title: str, source: Source, survey: Fraction) -> Column:
    """Methods on a drifting stream; the model without privacy learns the window, too."""

    def ours(label: str, *schedules: Schedule) -> Line:
        return _line(source, label, "gradient", *(_ours(each, survey) for each in schedules))

    return Column(
        title=title,
        lines=(
            _window_not_private(source),
            ours(_title(FADING[0]), FADING[0]),
            ours("fading, the best of five", *FADING),
            ours("fading, memory 1", MEMORYLESS),
            ours("sliding window", SLIDING),
            ours("sliding window, refit", REFIT),
            ours("continual", Continual(block=BLOCK, step=STEP)),
            ours("independent", Independent(step=STEP)),
            _line(source, "DP-FTRL that forgets", "baseline", *_ftrl(*_forgets(FADING))),
            _line(source, "DP-FTRL", "baseline", *_ftrl(0.0)),
        ),
        since=BLOCK,
    )


def _forgets(schedules: Iterable[Fading]) -> list[float]:
    return [float(each.forget) for each in schedules]


def _ftrl(*forget: float) -> list[DPFTRL]:
    """DP-FTRL with each of these forget rates; the plot shows the best, by the test records."""
    base = DPFTRL(budget=BUDGET, times=Times(first=BLOCK, step=STEP))
    return [
        replace(base, forget=rate, **settings) for rate, settings in product(forget, FTRL_SETTINGS)
    ]


def _forget(title: str, source: Source, survey: Fraction) -> Column:
    """The five settings of which `drift` shows the best, each on its own."""
    lines = (_line(source, _title(each), "gradient", _ours(each, survey)) for each in FADING)
    return Column(title=title, lines=(_window_not_private(source), *lines), since=BLOCK)


def _window_not_private(source: Source) -> Line:
    times = Times(first=WINDOW, step=STEP, window=WINDOW)
    return _line(source, "not private", "not private", NonPrivate(times=times))


def _title(schedule: Fading) -> str:
    """The label of a line.

    >>> _title(FADING[0])
    'fading, forget 3/10, memory 8'
    >>> _title(LEADING)
    'fading, forget 2/5, memory 6, lead 0.4'
    """
    lead = f", lead {LEAD}" if schedule == LEADING else ""
    return f"fading, forget {schedule.forget}, memory {schedule.memory}{lead}"


def _ours(schedule: Schedule, survey: Fraction = Fraction(0)) -> Method:
    allocation = Tapered() if schedule.allocated else Paper()
    return Scheduled(
        name=type(schedule).__name__,
        plan=Plan(schedule=schedule, budget=BUDGET, allocation=allocation, survey=survey),
        learner=GradientPerturbation(lead=LEAD if schedule == LEADING else None),
    )


def _line(source: Source, label: str, kind: Kind, *methods: Method) -> Line:
    first, *others = (Experiment(source=source, method=method) for method in methods)
    return Line(label=label, kind=kind, experiment=first, others=tuple(others))
