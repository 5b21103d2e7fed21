"""The panels of the paper's evaluation, as data: which curves each has, with which settings."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tidegate.learn import GradientPerturbation, OutputPerturbation
from tidegate.plan import Plan
from tidegate.privacy import ApproxDP, PureDP
from tidegate.schedule import Basic, Continual, Independent, Schedule, SlidingWindow
from tidegate.study.experiment import Experiment
from tidegate.study.method import Scheduled
from tidegate.study.paper_method import AsPublished
from tidegate.study.study_sources import Articles, Digits, MovingArchives

Kind = Literal[
    "not private", "overspent", "as published", "pure", "approximate", "gradient", "baseline"
]
"""How a curve came about, and so how it is drawn."""

DELTA = 1e-6
"""The delta of the curves that have one; the paper's have none."""

PUBLISHED = "as published: NOT PRIVATE"
PRIVATE = "private"


@dataclass(frozen=True, kw_only=True)
class Line:
    """A curve in a panel.

    Attributes:
        label: What sets it apart from others of its kind, such as a value of epsilon.
        kind: How it came about.
        experiment: What it shows.
        others: The same method with other settings; if one of them does better, it is shown.
        seldom: Whether it has fewer releases than the others, whose means leave it aside.
    """

    label: str
    kind: Kind
    experiment: Experiment
    others: tuple[Experiment, ...] = ()
    seldom: bool = False


@dataclass(frozen=True, kw_only=True)
class Column:
    """Curves that share their axes.

    Attributes:
        title: What they have in common.
        lines: The curves.
        near: Whether they are so much alike that they need a scale of their own.
    """

    title: str
    lines: tuple[Line, ...]
    near: bool = False


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A panel of the paper, or one more.

    Attributes:
        name: What it is asked for by.
        title: What it shows.
        claim: What the paper says that it shows.
        columns: Side by side.
        runs: How many of each curve.
        without: What it lacks here, and how to get it; empty if nothing.
    """

    name: str
    title: str
    claim: str
    columns: tuple[Column, ...]
    runs: int = 4
    without: str = ""

    @property
    def lines(self) -> Iterator[Line]:
        """All lines of all columns."""
        return (line for column in self.columns for line in column.lines)

    @property
    def experiments(self) -> list[Experiment]:
        """What has to be run for it."""
        return [each for line in self.lines for each in (line.experiment, *line.others)]

    @property
    def of_titles(self) -> bool:
        """Whether it needs titles of arXiv, which are not fetched."""
        return any(isinstance(e.source, Articles | MovingArchives) for e in self.experiments)


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The settings that the curves of a panel have in common: the paper's.

    Attributes:
        ours: The records as this library would take them.
        theirs: The same records with the paper's features.
        schedule: What is released when.
        epsilon: The budget.
        regularization: Lambda.
    """

    ours: Digits | Articles
    theirs: Digits | Articles
    schedule: Schedule
    epsilon: float
    regularization: float

    @property
    def not_private(self) -> Line:
        """The paper's method without its noise."""
        return replace(self.published("not private", noise=False), kind="not private")

    def published(self, label: str, *, noise: bool = True) -> Line:
        """The paper's experiment."""
        method = AsPublished(
            schedule=self.schedule,
            regularization=self.regularization,
            epsilon=self.epsilon if noise else None,
        )
        experiment = Experiment(source=self.theirs, method=method)
        return Line(label=label, kind="as published", experiment=experiment)

    def pure(self, label: str) -> Line:
        """What the text promises, kept: pure epsilon, its lambda, noise for the true constant."""
        return self._ours(label, "pure")

    def approximate(self, label: str) -> Line:
        """The same for (epsilon, delta): Gaussian noise, its lambda."""
        return self._ours(label, "approximate")

    def gradient(self, label: str) -> Line:
        """What this library does by default for (epsilon, delta): noisy gradients, no lambda."""
        return self._ours(label, "gradient")

    def _ours(self, label: str, kind: Kind) -> Line:
        budget = PureDP(self.epsilon) if kind == "pure" else ApproxDP(self.epsilon, DELTA)
        gradient = kind == "gradient"
        method = Scheduled(
            name=f"private ({kind})",
            plan=Plan(schedule=self.schedule, budget=budget),
            learner=GradientPerturbation() if gradient else OutputPerturbation(),
            regularization=None if gradient else self.regularization,
        )
        experiment = Experiment(source=self.ours, method=method)
        return Line(label=label, kind=kind, experiment=experiment)


Varied = Sequence[tuple[str, Scene]]


def panels(folder: Path | None, kaggle: Path | None = None, *, quick: bool = False) -> list[Panel]:
    """All panels of the paper, in its order.

    Args:
        folder: Where the data sets are.
        kaggle: Kaggle's snapshot of arXiv, instead of the titles in the folder.
        quick: End the streams early.
    """
    digits = Digits(folder=folder, records=10_240 if quick else 20_000)
    articles = Articles(folder=folder, kaggle=kaggle, records=3_072 if quick else 7_500)

    def on_digits(schedule: Schedule, epsilon: float = 0.1, regularization: float = 1.0) -> Scene:
        return _scene(digits, schedule, epsilon, regularization)

    def on_articles(schedule: Schedule) -> Scene:
        return _scene(articles, schedule, 1.0, 10.0)

    a = on_digits(Continual(block=8192, step=1024))
    d = on_digits(Continual(block=4096, step=512))
    e = on_articles(Continual(block=2048, step=512))
    g = on_digits(SlidingWindow(window=7 * 1024, step=1024), 1.0)
    h = on_articles(SlidingWindow(window=7 * 256, step=256))
    basic = on_digits(Basic(block=8000, step=1000), 1.0, 10.0)
    epsilons, lambdas = (0.01, 0.1, 1.0), (0.01, 0.1, 1.0, 10.0)
    steps = (256, 512, 1024) if quick else (128, 256, 512, 1024)
    windows = (256, 512, 1024) if quick else (256, 512, 1024, 2048)
    return [
        _over_values(
            "a",
            "MNIST, continual release: epsilon",
            "epsilon = 0.1 and 1 match the non-private model",
            a,
            _epsilons(a, epsilons),
        ),
        _over_values(
            "b",
            "MNIST, continual release: b0",
            "accuracy drops as b0 falls",
            a,
            _steps(a, steps, lambda b0: Continual(block=8 * b0, step=b0)),
        ),
        _over_regularization(
            "c",
            "MNIST, continual release: lambda",
            "accuracy drops as lambda falls",
            a,
            lambdas,
        ),
        _over_values(
            "d",
            "MNIST, continual release against independent steps",
            "continual release is better than to train each b0 records alone",
            d,
            [("continual", d), ("independent", replace(d, schedule=Independent(step=512)))],
        ),
        _over_values(
            "e",
            "arXiv, continual release: epsilon",
            "accuracy rises with epsilon",
            e,
            _epsilons(e, epsilons),
        ),
        _over_regularization(
            "f",
            "arXiv, continual release: lambda",
            "accuracy drops as lambda falls",
            e,
            lambdas,
        ),
        _over_values(
            "g",
            "MNIST, sliding window: epsilon",
            "epsilon = 1 reaches the non-private model",
            g,
            _epsilons(g, epsilons),
        ),
        _over_values(
            "h",
            "arXiv, sliding window: epsilon",
            "epsilon = 1 reaches the non-private model",
            h,
            _epsilons(h, epsilons),
        ),
        _over_values(
            "i",
            "MNIST, sliding window: w0",
            "accuracy rises with w0",
            g,
            _steps(g, windows, lambda w0: SlidingWindow(window=7 * w0, step=w0)),
        ),
        _over_values(
            "basic-a",
            "MNIST, basic release: epsilon",
            "epsilon >= 0.1 matches the non-private model",
            basic,
            _epsilons(basic, epsilons),
        ),
        _over_regularization(
            "basic-b",
            "MNIST, basic release: lambda",
            "accuracy rises with lambda",
            basic,
            lambdas,
        ),
    ]


def _scene(
    ours: Digits | Articles, schedule: Schedule, epsilon: float, regularization: float
) -> Scene:
    return Scene(
        ours=ours,
        theirs=replace(ours, features="published"),
        schedule=schedule,
        epsilon=epsilon,
        regularization=regularization,
    )


def _epsilons(scene: Scene, values: Iterable[float]) -> Varied:
    return [(f"ε = {epsilon:g}", replace(scene, epsilon=epsilon)) for epsilon in values]


def _steps(scene: Scene, sizes: Iterable[int], schedule: Callable[[int], Schedule]) -> Varied:
    return [(f"steps of {size}", replace(scene, schedule=schedule(size))) for size in sizes]


def _over_values(name: str, title: str, claim: str, scene: Scene, varied: Varied) -> Panel:
    """A panel whose private column has this library's default, and what pure epsilon allows."""
    theirs = [each.published(label) for label, each in varied]
    ours = [line for label, each in varied for line in (each.gradient(label), each.pure(label))]
    return Panel(name=name, title=title, claim=claim, columns=_columns(scene, theirs, ours))


def _over_regularization(
    name: str, title: str, claim: str, scene: Scene, values: Iterable[float]
) -> Panel:
    """A panel over lambda, which output perturbation needs and noisy gradients do not."""
    varied = [(f"λ = {value:g}", replace(scene, regularization=value)) for value in values]
    ours = [line for label, each in varied for line in (each.approximate(label), each.pure(label))]
    theirs = [each.published(label) for label, each in varied]
    ours.append(scene.gradient("no λ"))
    return Panel(name=name, title=title, claim=claim, columns=_columns(scene, theirs, ours))


def _columns(scene: Scene, theirs: list[Line], ours: list[Line]) -> tuple[Column, Column]:
    """The two columns of a panel of the paper, the same non-private curve in both."""
    reference = scene.not_private
    return (
        Column(title=PUBLISHED, lines=(reference, *theirs)),
        Column(title=PRIVATE, lines=(reference, *ours)),
    )
