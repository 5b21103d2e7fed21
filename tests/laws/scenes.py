"""Small scenes for the laws: every schedule and learner, and the records that move them most."""

from dataclasses import is_dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tests.laws.replay import Data, Floats, Setup
from tidegate import schedule as package
from tidegate.data.predicted import Target
from tidegate.learn import (
    GradientPerturbation,
    Huber,
    HuberError,
    Logistic,
    OutputPerturbation,
    Softmax,
    SquaredError,
)
from tidegate.learn.learner import Pull, Task
from tidegate.learn.mean import HistogramPerturbation, MeanPerturbation
from tidegate.privacy import ApproxDP, Budget, PureDP
from tidegate.schedule import (
    Basic,
    Continual,
    Cumulative,
    Fading,
    Growing,
    Independent,
    MultiResolution,
    Schedule,
    SlidingWindow,
    Stream,
    TwoStream,
    protocol,
)
from tidegate.schedule.plan import Plan, TwoStreamPlan

R = 2.0
PURE, GAUSSIAN = PureDP(1.0), ApproxDP(1.0, 1e-3)

SCHEDULES: dict[str, Schedule | TwoStream] = {
    "multiresolution": MultiResolution(block=4),
    "multiresolution, sampled": MultiResolution(block=4, sample=3),
    "cumulative": Cumulative(block=4),
    "continual": Continual(block=8, step=4),
    "continual, sampled": Continual(block=8, step=4, sample=5),
    "sliding 2": SlidingWindow(window=8, step=4),
    "sliding 5": SlidingWindow(window=20, step=4),
    "sliding 7": SlidingWindow(window=28, step=4),
    "sliding 9, sampled": SlidingWindow(window=36, step=4, sample=6),
    "sliding 3, refitted": SlidingWindow(window=12, step=4, refit=True),
    "basic": Basic(block=8, step=4),
    "fading": Fading(step=4, forget=Fraction(1, 3), memory=3, first=2),
    "fading, memory 1": Fading(step=4, forget=Fraction(1, 5), memory=1),
    "growing": Growing(block=8, step=4, growth=Fraction(1, 2)),
    "independent": Independent(step=4),
    "two streams, cumulative": TwoStream(source=Cumulative(block=8), step=4),
    "two streams, sliding": TwoStream(source=SlidingWindow(window=12, step=4), step=4),
}

Learning = tuple[Budget, Pull, Any]


def _learnings() -> dict[str, Learning]:
    pull = Pull(norm=R, regularization=0.5)
    learnings: dict[str, Learning] = {}
    for kind, budget in (("pure", PURE), ("gaussian", GAUSSIAN)):
        learnings[f"mean, {kind}"] = (budget, pull, MeanPerturbation())
        learnings[f"histogram, {kind}"] = (budget, pull, HistogramPerturbation(3))
        for loss in (Logistic(), Softmax(3), Huber()):
            name = type(loss).__name__.lower()
            task = Task(loss=loss, norm=R, regularization=0.5)
            learnings[f"{name}, {kind}"] = (budget, task, OutputPerturbation())
            if kind == "gaussian":
                lead = 0.4 if isinstance(loss, Softmax) else None
                descent = GradientPerturbation(steps=3, lead=lead)
                learnings[f"{name}, gradient"] = (budget, task, descent)
    squared, huber = (
        Task(loss=loss, norm=R, regularization=0.5) for loss in (SquaredError(), HuberError())
    )
    learnings["target squared, gradient"] = (GAUSSIAN, squared, GradientPerturbation(steps=3))
    learnings["target huber, gradient"] = (GAUSSIAN, huber, GradientPerturbation(steps=3))
    learnings["target huber, pure"] = (PURE, huber, OutputPerturbation())
    learnings["target huber, gaussian"] = (GAUSSIAN, huber, OutputPerturbation())
    return learnings


LEARNINGS = _learnings()
SIMPLEST = "mean, pure"
"""The cheapest of them."""

SURVEYED = [name for name, (_, task, _) in LEARNINGS.items() if isinstance(task, Task)]
"""Those whose features can be centred and scaled by surveys."""

MANY_CLASSES = ("softmax", "histogram")

TARGET = Target(0, 1)
"""Of the learnings that predict a number: labels are then its ends, or outside it."""


SCORED = Fraction(1, 10)
"""The share of the scores in a scene."""


def every_schedule() -> set[type]:
    """All schedules of the package: those it exports and those it registers."""
    exported: list[type] = [getattr(package, name) for name in package.__all__]
    schedules = {each for each in exported if is_dataclass(each) and hasattr(each, "kind")}
    return schedules | {*protocol.SCHEDULES.values()}


def pairs(*learnings: str) -> list[tuple[str, str]]:
    """Every schedule with each of these learnings."""
    return [(schedule, learning) for schedule in SCHEDULES for learning in learnings or LEARNINGS]


def setup_of(schedule: str, learning: str, **options: Any) -> Setup:
    budget, task, learner = LEARNINGS[learning]
    kind: Any = SCHEDULES[schedule]
    plan: Any = TwoStreamPlan if isinstance(kind, TwoStream) else Plan
    return Setup(
        plan=plan(schedule=kind, budget=budget, **options),
        task=task,
        learner=learner,
        classes=(0, 1, 2) if learning.startswith(MANY_CLASSES) else (0, 1),
        target=TARGET if learning.startswith("target") else None,
    )


def names(schedule: str) -> tuple[Stream | None, ...]:
    """The streams of a schedule."""
    return ("source", "target") if schedule.startswith("two") else (None,)


def blank(schedule: str, length: int, d: int = 2) -> Data:
    """Records that pull nowhere, so that nothing opposes the one that changes."""
    return {
        name: (np.zeros((length, d), object), np.zeros(length, object)) for name in names(schedule)
    }


def confident(shape: tuple[int, ...]) -> Floats:
    """A released model that is sure of class 0 as soon as the first feature is positive."""
    model = np.zeros(shape)
    model[0] = [1000.0, *[0.0] * (shape[1] - 1)] if len(shape) == 2 else -1000.0
    return model


UP, DOWN = R * np.array([0.02, 0.999], object), R * np.array([0.02, -0.999], object)
