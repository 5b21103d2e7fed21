"""Trials: a method's releases over a stream in several runs, with their measures and time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from tidegate.learn.measures import exact
from tidegate.release.model import Model
from tidegate.study.curve import Curve
from tidegate.study.method import Method
from tidegate.study.study_stream import Fitted, Labelled, StudyStream, Transformed

Floats = NDArray[np.float64]

MEASURES = ("balanced_accuracy", "auc", "bias", "majority", "constant_log_loss")
"""What is measured besides accuracy and log-loss; see `tidegate.learn.measures.Measures`."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What several runs of a method measured.

    Attributes:
        curve: The accuracies.
        log_losses: The log-losses, shape (runs, releases).
        seconds: How long each run trained, shape (runs,).
        measures: Each of `MEASURES`, shape (runs, releases); NaN where it is not defined.
    """

    curve: Curve
    log_losses: Floats
    seconds: Floats
    measures: Mapping[str, Floats] = field(default_factory=dict)


def attempt(
    method: Method,
    stream: StudyStream,
    seeds: Iterable[int],
    tick: Callable[[], None] = lambda: None,
) -> Trial:
    """Run a method once for each seed, and test every release; call `tick` after each run."""
    at: list[int] = []
    scores, losses, seconds, others = [], [], [], []
    for seed in seeds:
        started = perf_counter()
        made = list(method.models(stream, seed))
        seconds.append(perf_counter() - started)
        at = [time for time, _ in made]
        tested = [(weights, stream.test(time)) for time, weights in made]
        scores.append([test.score(weights) for weights, test in tested])
        losses.append([log_loss(model_of(stream, weights), test) for weights, test in tested])
        others.append([measured(weights, test, stream.classes) for weights, test in tested])
        tick()
    curve = Curve(private=method.private, at=tuple(at), runs=np.array(scores))
    return Trial(
        curve=curve,
        log_losses=np.array(losses),
        seconds=np.array(seconds),
        measures=dict(zip(MEASURES, np.moveaxis(np.array(others), 2, 0), strict=True)),
    )


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


def measured(model: Fitted, test: Labelled, classes: int) -> list[float]:
    """The `MEASURES` of a model, exact; NaN where one is not defined.

    >>> test = Labelled(X=np.array([[1.0], [-1.0], [2.0], [0.0]]), y=np.array([1, 0, 0, -1]))
    >>> measured(np.ones(1), test, 2)[:2]
    [0.75, 0.5]
    """
    measures = exact(test.margins(model), np.maximum(test.y, 0), test.y >= 0, classes)
    found = [getattr(measures, name) for name in MEASURES]
    return [float("nan") if each is None else each.value for each in found]
