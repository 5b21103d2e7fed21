"""Log-loss, bias and AUC of private models of a year of flights, beside models without privacy."""

import inspect
import multiprocessing
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from statistics import mean, median
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from tidegate import (
    ApproxDP,
    ContinualClassifier,
    FadingClassifier,
    GrowingClassifier,
    PrivateClassifier,
    SlidingWindowClassifier,
)
from tidegate.learn import minimize
from tidegate_lab.bench.data import Data, Part, images
from tidegate_lab.bench.flight_data import ODD_NORM, PACKAGE, flights, installed, odd_units, rare
from tidegate_lab.bench.table import say, show, yes
from tidegate_lab.paper.sources import Digits

BUDGET = ApproxDP(1.0, 1e-6)
STEP = 4096
WINDOW = 7 * STEP
SEEDS = int(os.environ.get("TIDEGATE_BENCH_SEEDS", "3"))
"""Figures are medians over so many runs, each with noise of a seed: NOT PRIVATE, but repeatable."""

FITS = 2 * SEEDS + 1
"""Runs of each single fit, which are cheap."""

Floats = NDArray[np.float64]
Survey = Literal["default", "off"]


@dataclass(frozen=True)
class Measures:
    """How good probabilities are; bias and AUC are nan for more than two classes.

    Attributes:
        log_loss: The mean of -ln P(the label).
        bias: The mean predicted share of the second class minus the true share.
        auc: The area under the ROC curve.
        accuracy: The share of right answers.
        majority: The share of the most frequent class: the accuracy of a constant.
        constant: The log-loss of predicting the class shares of the training records.
    """

    log_loss: float
    bias: float
    auc: float
    accuracy: float
    majority: float
    constant: float


def measured(probabilities: Floats, test: Part, trained: NDArray[np.intp]) -> Measures:
    """Measure probabilities, shape (n, K), of a model of records with the labels `trained`."""
    P = probabilities
    n, K = P.shape
    two = K == 2
    shares = np.bincount(trained, minlength=K) / len(trained)
    counts = np.bincount(test.y, minlength=K)
    return Measures(
        log_loss=_loss(P[np.arange(n), test.y]),
        bias=float(P[:, 1].mean() - test.y.mean()) if two else np.nan,
        auc=float(roc_auc_score(test.y, P[:, 1])) if two else np.nan,
        accuracy=float((P.argmax(axis=1) == test.y).mean()),
        majority=float(counts.max() / n),
        constant=_loss(shares[test.y]),
    )


def _loss(p: Floats) -> float:
    return float(-np.log(np.maximum(p, 1e-15)).mean())


def over(measures: Iterable[Measures], by: Any) -> Measures:
    """The mean or the median of each measure."""
    found = list(measures)
    return Measures(*(float(by([getattr(m, f.name) for m in found])) for f in fields(Measures)))


def surveys() -> tuple[Survey, ...]:
    """Ways to run an estimator; those before surveys have one."""
    return ("default", "off") if "survey" in _parameters() else ("off",)


def _parameters() -> Mapping[str, object]:
    return inspect.signature(PrivateClassifier).parameters


def settings(survey: Survey) -> dict[str, Any]:
    """The arguments of an estimator, beside its own."""
    off = {"survey": 0} if survey == "off" and "survey" in _parameters() else {}
    return {"budget": BUDGET, "norm": 1.0, **off}


@dataclass(frozen=True)
class Method:
    """An estimator of streams, and its twin without privacy on the same records.

    Attributes:
        estimator: Its class.
        own: Its arguments.
        window: How many of the newest records the twin reads; all so far if None.
        forget: The fraction of its weight that a step loses when the next one arrives.
    """

    estimator: Any
    own: Mapping[str, int]
    window: int | None = None
    forget: float = 0.0

    def models(self, survey: Survey, seed: int) -> Iterator[tuple[int, Any]]:
        """Each release: how many records had arrived, and the estimator then."""
        X, y = flights()
        model = self.estimator(
            **settings(survey), **self.own, classes=range(2), not_private_seed=seed
        )
        before = 0
        for at in range(STEP, len(y) - STEP + 1, STEP):
            model.partial_fit(X[at - STEP : at], y[at - STEP : at])
            released = len(getattr(model, "releases_", ()))
            if released > before and at >= WINDOW:
                yield at, model
            before = released

    def private(self, survey: Survey, seed: int) -> list[tuple[int, Measures]]:
        """Test every release on the step after it."""
        return [(at, self._tested(at, model)) for at, model in self.models(survey, seed)]

    def twin(self, times: Sequence[int]) -> Measures:
        """The mean over models without privacy, fitted and tested at the same times."""
        X, y = flights()
        model = LogisticRegression(max_iter=1000, warm_start=True)
        found = []
        for at in times:
            start = self._start(at)
            age = (at - 1 - np.arange(start, at)) // STEP
            model.fit(X[start:at], y[start:at], sample_weight=(1 - self.forget) ** age)
            found.append(self._tested(at, model))
        return over(found, mean)

    def _start(self, at: int) -> int:
        return max(0, at - (self.window or at))

    def _tested(self, at: int, model: Any) -> Measures:
        X, y = flights()
        test = Part(X[at : at + STEP], y[at : at + STEP])
        return measured(model.predict_proba(test.X), test, y[self._start(at) : at])


METHODS: Mapping[str, Method] = {
    "sliding": Method(SlidingWindowClassifier, {"window": WINDOW, "step": STEP}, WINDOW),
    "continual": Method(ContinualClassifier, {"block": 8 * STEP, "step": STEP}),
    "growing": Method(GrowingClassifier, {"block": WINDOW, "step": STEP}),
    "fading": Method(FadingClassifier, {"step": STEP}, WINDOW, 0.3),  # 7 steps are the default
}


def pixels(n: int) -> Data:
    """MNIST, cut to n records."""
    name, train, test = images()
    return Data(f"{name} pixels, {n:,}", Part(train.X[:n], train.y[:n]), test)


@cache
def single(name: str) -> Data:
    """The records of a single fit."""
    if name.startswith("pixels"):
        return pixels(int(name.removeprefix("pixels").replace(",", "")))
    return rare() if name == "rare" else odd_units()


def single_fit(name: str, survey: Survey, seed: int) -> Measures:
    """One private fit."""
    _, train, test = single(name)
    norm = {"norm": ODD_NORM} if name == "odd" else {}
    model = PrivateClassifier(
        **{**settings(survey), **norm}, classes=range(train.y.max() + 1), not_private_seed=seed
    )
    return measured(model.fit(*train).predict_proba(test.X), test, train.y)


def single_twin(name: str) -> Measures:
    """The same without privacy; only this twin may look at the records for their units."""
    _, train, test = single(name)
    steps = [StandardScaler()] if name == "odd" else []
    model = make_pipeline(*steps, LogisticRegression(max_iter=1000)).fit(*train)
    return measured(model.predict_proba(test.X), test, train.y)


SCATTERED = (16_384, 32_768)
"""Records after which `scattered` is tested."""


def _digits(seed: int) -> tuple[Part, Part]:
    folder = Path(os.environ["TIDEGATE_DATA"])
    stream = Digits(folder=folder, features="scattering", records=SCATTERED[-1]).stream(seed)
    test = stream.test(0)
    parts = [(stream.records.X, stream.records.y), (test.X, test.y)]
    train, tests = (Part(np.asarray(X), np.asarray(y)) for X, y in parts)
    return train, tests


def scattered(survey: Survey, seed: int) -> list[Measures]:
    """Growing on MNIST after the scattering transform."""
    (X, y), test = _digits(seed)
    model = GrowingClassifier(
        **settings(survey), block=8192, step=1024, classes=range(10), not_private_seed=seed
    )
    found = []
    for start, stop in zip((0, *SCATTERED), SCATTERED, strict=False):
        model.partial_fit(X[start:stop], y[start:stop])
        found.append(measured(model.predict_proba(test.X), test, y[:stop]))
    return found


def scattered_twin() -> list[Measures]:
    """The same without privacy, hardly regularized; scikit-learn would take long."""
    (X, y), test = _digits(0)
    found = []
    for n in SCATTERED:
        weights = minimize("softmax", X[:n], y[:n], regularization=3e-6, tolerance=3e-4).weights
        margins = test.X @ weights
        P = np.exp(margins - margins.max(axis=1, keepdims=True))
        found.append(measured(P / P.sum(axis=1, keepdims=True), test, y[:n]))
    return found


Pair = tuple[Measures, Measures]
"""A private model's measures, and those of its twin."""

COLUMNS = ("model", "survey", "log-loss", "bias", "AUC", "right", "majority", "constant")
BRACKETS = "in brackets: not private, same records"
BARS = (
    "Bars of the year of flights: log-loss at most .02 above not private, bias at most .02, AUC at "
    "most .005 below that with the survey off."
)
ABOVE = {"rare": 0.010, "odd": 0.009}
"""Bars of single fits: log-loss above not private."""

LEAST = {
    "pixels 8,192": 0.850,
    "pixels 32,768": 0.895,
    "scattered 16,384": 0.963,
    "scattered 32,768": 0.969,
}
"""Bars of single fits: share of right answers."""


def stream_row(name: str, survey: Survey, pair: Pair, before: Measures) -> list[str]:
    """A row of the year of flights; `before` is the same method without a survey."""
    ours, twin = pair
    met = (
        ours.log_loss <= twin.log_loss + 0.02
        and abs(ours.bias) <= 0.02
        and ours.auc >= before.auc - 0.005
    )
    return [name, survey, *_cells(*pair), yes(met)]


def single_row(name: str, survey: Survey, pair: Pair) -> list[str]:
    ours, twin = pair
    if name in ABOVE:
        bar = twin.log_loss + ABOVE[name]
        goal = [f"<= {_short(bar, '.3f')}", yes(ours.log_loss <= bar)]
    else:
        goal = [f">= {LEAST[name]:.1%}", yes(ours.accuracy >= LEAST[name])]
    return [name, survey, *_cells(*pair), *goal]


def _short(value: float, form: str) -> str:
    return f"{value:{form}}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:{form}}"


def _cells(ours: Measures, twin: Measures) -> list[str]:
    def both(name: str, form: str) -> str:
        one, other = getattr(ours, name), getattr(twin, name)
        return "" if np.isnan(one) else f"{_short(one, form)} ({_short(other, form)})"

    return [
        both("log_loss", ".3f"),
        both("bias", "+.3f"),
        both("auc", ".3f"),
        f"{ours.accuracy:.1%} ({twin.accuracy:.1%})",
        f"{ours.majority:.1%}",
        _short(ours.constant, ".3f"),
    ]


def stream_run(name: str, survey: Survey, seed: int) -> tuple[list[int], Measures]:
    """When a method released on the year of flights, and the means over these releases."""
    found = METHODS[name].private(survey, seed)
    return [at for at, _ in found], over((each for _, each in found), mean)


def stream_twin(name: str, times: Sequence[int]) -> Measures:
    return METHODS[name].twin(times)


def stream_rows(pool: ProcessPoolExecutor) -> Iterator[list[str]]:
    keys = [(name, survey) for name in METHODS for survey in surveys()]
    jobs = {key: [pool.submit(stream_run, *key, seed) for seed in range(SEEDS)] for key in keys}
    times = {name: jobs[name, "off"][0].result()[0] for name in METHODS}
    twins = {name: pool.submit(stream_twin, name, times[name]) for name in METHODS}
    found = {key: over((run.result()[1] for run in runs), median) for key, runs in jobs.items()}
    for name, survey in keys:
        pair = found[name, survey], twins[name].result()
        yield stream_row(name, survey, pair, found[name, "off"])


def single_rows(pool: ProcessPoolExecutor) -> Iterator[list[str]]:
    large = images().name == "MNIST"
    both = {
        survey: [pool.submit(scattered, survey, seed) for seed in range(SEEDS)]
        for survey in surveys()
        if large
    }
    both_twins = [pool.submit(scattered_twin)] * large
    names = ("rare", "odd") * installed() + ("pixels 8,192", "pixels 32,768")
    keys = [(name, survey) for name in names for survey in surveys()]
    jobs = {key: [pool.submit(single_fit, *key, seed) for seed in range(FITS)] for key in keys}
    twins = {name: pool.submit(single_twin, name) for name in names}
    for name, survey in keys:
        ours = over((run.result() for run in jobs[name, survey]), median)
        yield single_row(name, survey, (ours, twins[name].result()))
    for survey, runs in both.items():
        for i, n in enumerate(SCATTERED):
            ours = over((run.result()[i] for run in runs), median)
            yield single_row(f"scattered {n:,}", survey, (ours, both_twins[0].result()[i]))


def main() -> None:
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), spawned, threadpool_limits, (1,)) as pool:
        if installed():
            title = f"A year of flights, window {WINDOW:,}, step {STEP:,}, tested on the next step"
            show(f"{title}; {BRACKETS}", stream_rows(pool), (*COLUMNS, "met"))
            say(BARS)
        else:
            say(f"No year of flights: needs {PACKAGE} (pip install {PACKAGE})")
        title = "Single fits, and Growing after scattering"
        show(f"{title}; {BRACKETS}", single_rows(pool), (*COLUMNS, "bar", "met"))
