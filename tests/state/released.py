"""Releases to try files and folders on."""

from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate import ApproxDP, Plan, PureDP, SlidingWindowClassifier
from tidegate.data.predicted import Classes
from tidegate.learn import GradientPerturbation, Logistic, OutputPerturbation, Softmax
from tidegate.learn.learner import Task
from tidegate.release import FIRST, About, StoredRelease, make_card, seal
from tidegate.schedule import SlidingWindow

TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WINDOW = SlidingWindow(window=210, step=30)
NORM = 1.5


def made(
    classes: Any, features: Any = None, *, delta: float | None = None, surveyed: bool = False
) -> tuple[SlidingWindowClassifier, list[StoredRelease], Any]:
    """A classifier, its releases sealed in a chain, and the records it saw."""
    budget = PureDP(1.0) if delta is None else ApproxDP(1.0, delta)
    survey = Fraction(1, 10) if surveyed else Fraction(0)
    X, y = records(classes)
    clf = SlidingWindowClassifier(
        budget=budget,
        window=WINDOW.window,
        step=WINDOW.step,
        classes=classes,
        norm=NORM,
        regularization=0.1,
        features=features,
        survey=survey,
        not_private_seed=7,
    ).partial_fit(X, y)
    about = About(
        plan=Plan(schedule=WINDOW, budget=budget, survey=survey),
        task=Task(
            loss=Logistic() if len(classes) == 2 else Softmax(len(classes)),
            norm=NORM,
            regularization=0.1,
        ),
        learner=OutputPerturbation() if delta is None else GradientPerturbation(),
        predicted=Classes(classes),
        features=features,
    )
    chain: list[StoredRelease] = []
    for release in clf.releases_:
        previous = chain[-1].hash if chain else FIRST
        chain.append(seal(make_card(release, about, time=TIME), release.weights, previous))
    return clf, chain, X


def records(classes: Any) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Three hundred records of four columns, some longer than the norm."""
    rng = np.random.default_rng(3)
    return rng.normal(size=(300, 4)), np.asarray(list(classes))[
        rng.integers(len(classes), size=300)
    ]
