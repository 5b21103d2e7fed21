"""Every estimator, small enough for the suites that run on all of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate import (
    ApproxDP,
    ContinualClassifier,
    ContinualRegressor,
    FadingRegressor,
    GrowingRegressor,
    PrivateClassifier,
    PrivateHistogram,
    PrivateMean,
    PrivateRegressor,
    PureDP,
    SlidingWindowClassifier,
    SlidingWindowRegressor,
    TwoStreamClassifier,
    TwoStreamRegressor,
)
from tidegate.privacy import Budget
from tidegate.schedule import Continual, Cumulative, SlidingWindow

SEED = 7
ALMOST_EXACT = PureDP(1e6)
SURVEYED = ApproxDP(1.0, 1e-6)
"""A budget whose steps are surveyed by default. With less noise, a first step in which most labels
are no classes would stop the stream, as it should; scikit-learn's checks send such labels."""
StreamEstimator = Any
"""The estimators have no common type to the outside: scikit-learn's are found by their methods."""


def classifier(
    kind: type, *, classes: Any = (0, 1), budget: Budget = ALMOST_EXACT, **more: Any
) -> StreamEstimator:
    """A classifier that needs few records, seeded, with next to no noise."""
    given: dict[type, dict[str, Any]] = {
        PrivateClassifier: {},
        ContinualClassifier: {"block": 8, "step": 4},
        SlidingWindowClassifier: {"window": 8, "step": 4},
        TwoStreamClassifier: {"source": Cumulative(block=5), "step": 4},
    }
    settings = {"norm": 10.0, "regularization": 1e-3, "not_private_seed": SEED} | given[kind] | more
    return kind(budget=budget, classes=classes, **settings)


def regressor(
    kind: type, *, target: Any = (-10, 10), budget: Budget = ALMOST_EXACT, **more: Any
) -> StreamEstimator:
    """A regressor that needs few records, seeded, with next to no noise."""
    given: dict[type, dict[str, Any]] = {
        PrivateRegressor: {},
        ContinualRegressor: {"block": 8, "step": 4},
        SlidingWindowRegressor: {"window": 8, "step": 4},
        GrowingRegressor: {"block": 4, "step": 4},
        FadingRegressor: {"step": 4},
        TwoStreamRegressor: {"source": Cumulative(block=5), "step": 4},
    }
    settings = {"norm": 10.0, "regularization": 1e-3, "not_private_seed": SEED} | given[kind] | more
    return kind(budget=budget, target=target, **settings)


def private_mean(**more: Any) -> PrivateMean:
    settings: dict[str, Any] = {
        "schedule": SlidingWindow(window=6, step=2),
        "norm": 1.0,
        "not_private_seed": SEED,
    }
    return PrivateMean(budget=ALMOST_EXACT, **(settings | more))


def private_histogram(**more: Any) -> PrivateHistogram:
    settings: dict[str, Any] = {
        "schedule": Continual(block=4, step=2),
        "categories": ["mild", "severe"],
        "not_private_seed": SEED,
    }
    return PrivateHistogram(budget=ALMOST_EXACT, **(settings | more))


STREAMS: list[type] = [ContinualClassifier, SlidingWindowClassifier, TwoStreamClassifier]
CLASSIFIERS: list[type] = [PrivateClassifier, *STREAMS]
NUMBER_STREAMS: list[type] = [
    ContinualRegressor,
    SlidingWindowRegressor,
    GrowingRegressor,
    FadingRegressor,
    TwoStreamRegressor,
]
REGRESSORS: list[type] = [PrivateRegressor, *NUMBER_STREAMS]


def surveyed(kind: type, **more: Any) -> StreamEstimator:
    """An estimator that surveys its steps, by default as every one whose budget has a delta."""
    make = regressor if kind in REGRESSORS else classifier
    return make(kind, budget=SURVEYED, **more)


def all_faces() -> list[StreamEstimator]:
    plain = [*map(classifier, CLASSIFIERS), private_mean(), private_histogram()]
    return [*plain, *map(regressor, REGRESSORS), *map(surveyed, [*CLASSIFIERS, *REGRESSORS])]


def batch_for(face: StreamEstimator, records: int = 40, seed: int = 0) -> tuple[Any, Any]:
    """Records that a face can learn from: two blobs, or their labels as words."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=records)
    X = rng.normal(size=(records, 3)) + (2 * y[:, None] - 1)
    words = np.array(["mild", "severe"])[y]
    return (words, None) if isinstance(face, PrivateHistogram) else (X, y)


def weights(face: StreamEstimator) -> list[NDArray[np.float64]]:
    """The models released so far."""
    return [release.weights for release in getattr(face, "releases_", [])]


def same(one: StreamEstimator, other: StreamEstimator) -> bool:
    """Whether two streams have released the same models, bit for bit, and count the same."""
    mine, theirs = weights(one), weights(other)
    return (
        len(mine) == len(theirs)
        and all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))
        and one.quarantined_ == other.quarantined_
    )


def state(face: StreamEstimator) -> Any:
    """All that a refused batch must leave as it was."""
    if not hasattr(face, "_begun"):
        return sorted(name for name in vars(face) if name.endswith("_"))
    run = face._begun.run
    ledgers, helds = [run.ledger(stream) for stream in run.steps.held], run.steps.held.values()
    return (
        [id(release) for release in face.releases_],
        [(list(ledger.runs()), ledger.worst(), ledger.posted) for ledger in ledgers],
        [(held.first, held.count) for held in helds],
        getattr(face, "n_features_in_", None),
        getattr(face, "feature_names_in_", None),
        face.quarantined_,
        id(face._begun),
    )


Make = Callable[[], StreamEstimator]
