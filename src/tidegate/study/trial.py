"""Trials: a method's releases over a stream in several runs, with their measures and time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from tidegate.release.model import Model
from tidegate.study.curve import Curve, curve_of, tested
from tidegate.study.method import Method
from tidegate.study.study_stream import Fitted, Labelled, StudyStream, Transformed

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What several runs of a method measured.

    Attributes:
        curve: The accuracies and other measures.
        log_losses: The log-losses, shape (runs, releases).
        seconds: How long each run trained, shape (runs,).
    """

    curve: Curve
    log_losses: Floats
    seconds: Floats


def attempt(
    method: Method,
    stream: StudyStream,
    seeds: Iterable[int],
    tick: Callable[[], None] = lambda: None,
) -> Trial:
    """Run a method once for each seed, and test every release; call `tick` after each run."""
    at: list[int] = []
    runs, losses, seconds = [], [], []
    for seed in seeds:
        started = perf_counter()
        made = list(method.models(stream, seed))
        seconds.append(perf_counter() - started)
        at = [time for time, _ in made]
        runs.append([tested(method, fitted, stream, time) for time, fitted in made])
        losses.append([log_loss(model_of(stream, w), stream.test(time)) for time, w in made])
        tick()
    curve = curve_of(method, at, runs)
    return Trial(curve=curve, log_losses=np.array(losses), seconds=np.array(seconds))


def best_attempt(
    methods: Sequence[Method],
    stream: StudyStream,
    seeds: Sequence[int],
    tick: Callable[[], None] = lambda: None,
) -> Trial:
    """The trial with the largest mean accuracy; see `best_of` for what that choice means."""
    trials = [attempt(method, stream, seeds, tick) for method in methods]
    return max(trials, key=lambda trial: trial.curve.mean)


def model_of(stream: StudyStream, fitted: Fitted) -> Model:
    """The released model, which predicts class indices."""
    classes, norm = np.arange(stream.classes), stream.norm
    if isinstance(fitted, Transformed):
        return Model(weights=fitted.weights, classes=classes, norm=norm, transform=fitted.transform)
    return Model(weights=fitted, classes=classes, norm=norm)


def log_loss(model: Model, test: Labelled) -> float:
    """The mean of -ln P(the label) over the records that can be used; NaN if there are none.

    >>> model = Model(weights=np.zeros(2), classes=np.arange(2), norm=1.0)
    >>> test = Labelled(X=np.array([[1.0, 0.0], [0.0, 0.0]]), y=np.array([1, -1]))
    >>> round(log_loss(model, test), 4)
    0.6931
    """
    usable = test[test.y >= 0]
    if not len(usable.y):
        return float("nan")
    given = model.predict_proba(usable.X)[np.arange(len(usable.y)), usable.y]
    return float(-np.log(np.maximum(given, np.finfo(np.float64).tiny)).mean())
