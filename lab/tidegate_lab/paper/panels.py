"""The panels of the paper's evaluation as data: the curves of each and their settings."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tidegate import ApproxDP, Plan, PureDP
from tidegate.compare import Scheduled
from tidegate.learn import GradientPerturbation, OutputPerturbation
from tidegate.schedule import Basic, Continual, Independent, Schedule, SlidingWindow
from tidegate_lab.paper.experiment import Experiment
from tidegate_lab.paper.paper_method import AsPublished
from tidegate_lab.paper.sources import Articles, Digits, MovingArchives

Ours = Literal["pure", "approximate", "gradient"]
Kind = Ours | Literal["not private", "overspent", "as published", "baseline"]
"""How a curve was made, which determines how it is drawn."""

DELTA = 1e-6
"""The delta of the curves that have one; the paper's have none."""

PUBLISHED = "as published: NOT PRIVATE"
PRIVATE = "private"

CLAIMS = {
    "a": ("MNIST, continual release: epsilon", "epsilon = 0.1 and 1 match the non-private model"),
    "b": ("MNIST, continual release: b0", "accuracy drops as b0 falls"),
    "c": ("MNIST, continual release: lambda", "accuracy drops as lambda falls"),
    "d": (
        "MNIST, continual release against independent steps",
        "continual release is better than training on each b0 records alone",
    ),
    "e": ("arXiv, continual release: epsilon", "accuracy rises with epsilon"),
    "f": ("arXiv, continual release: lambda", "accuracy drops as lambda falls"),
    "g": ("MNIST, sliding window: epsilon", "epsilon = 1 reaches the non-private model"),
    "h": ("arXiv, sliding window: epsilon", "epsilon = 1 reaches the non-private model"),
    "i": ("MNIST, sliding window: w0", "accuracy rises with w0"),
    "basic-a": ("MNIST, basic release: epsilon", "epsilon >= 0.1 matches the non-private model"),
    "basic-b": ("MNIST, basic release: lambda", "accuracy rises with lambda"),
}
"""The title of each panel of the paper, and what the paper claims that it shows."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A curve in a panel.

    Attributes:
        label: Distinguishes it from others of its kind, such as a value of epsilon.
        kind: How it was made.
        experiment: The experiment that it shows.
        others: The same method with other settings; the best of all is shown.
        seldom: Whether it has fewer releases than the others, whose means ignore it.
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
        title: What the curves have in common.
        lines: The curves.
        near: Whether the curves are so close that they need a scale of their own.
        since: Means leave out releases before this many records.
    """

    title: str
    lines: tuple[Line, ...]
    near: bool = False
    since: int = 0


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A panel of the paper, or an additional one.

    Attributes:
        name: Its name on the command line.
        title: What it shows.
        claim: What the paper claims that it shows.
        columns: Its columns, side by side.
        runs: Number of runs of each curve.
        without: What is missing here and how to install it; empty if nothing is.
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
        """The experiments to run for it."""
        return [each for line in self.lines for each in (line.experiment, *line.others)]

    @property
    def of_titles(self) -> bool:
        """Whether it needs titles of arXiv, which are not downloaded."""
        return any(isinstance(e.source, Articles | MovingArchives) for e in self.experiments)


@dataclass(frozen=True)
class Scene:
    """The settings of the paper that the curves of a panel have in common.

    Attributes:
        source: The records, with this library's features.
        schedule: What to release when.
        epsilon: The budget.
        regularization: Lambda.
    """

    source: Digits | Articles
    schedule: Schedule
    epsilon: float
    regularization: float

    @property
    def not_private(self) -> Line:
        """The paper's method without its noise."""
        return replace(self.published("not private", noise=False), kind="not private")

    def published(self, label: str, *, noise: bool = True) -> Line:
        """The paper's experiment, on the paper's features."""
        method = AsPublished(
            schedule=self.schedule,
            regularization=self.regularization,
            epsilon=self.epsilon if noise else None,
        )
        theirs = replace(self.source, features="published")
        return Line(
            label=label, kind="as published", experiment=Experiment(source=theirs, method=method)
        )

    def private(self, label: str, kind: Ours) -> Line:
        """This library, in one of three ways.

        Args:
            label: Distinguishes it from others of its kind.
            kind: "pure" keeps what the paper's text promises: pure epsilon, its lambda, noise for
                the true constant. "approximate" is the same for (epsilon, delta): Gaussian noise.
                "gradient" is the default for (epsilon, delta): noisy gradients, no lambda.
        """
        budget = PureDP(self.epsilon) if kind == "pure" else ApproxDP(self.epsilon, DELTA)
        gradient = kind == "gradient"
        method = Scheduled(
            name=f"private ({kind})",
            plan=Plan(schedule=self.schedule, budget=budget),
            learner=GradientPerturbation() if gradient else OutputPerturbation(),
            regularization=None if gradient else self.regularization,
        )
        experiment = Experiment(source=self.source, method=method)
        return Line(label=label, kind=kind, experiment=experiment)


Varied = Sequence[tuple[str, Scene]]


def panels(folder: Path | None, kaggle: Path | None = None, *, quick: bool = False) -> list[Panel]:
    """All panels of the paper, in its order.

    Args:
        folder: The folder of the data sets.
        kaggle: Kaggle's snapshot of arXiv, instead of the titles in the folder.
        quick: Whether to end the streams early.
    """
    digits = Digits(folder=folder, records=10_240 if quick else 20_000)
    articles = Articles(folder=folder, kaggle=kaggle, records=3_072 if quick else 7_500)

    a = Scene(digits, Continual(block=8192, step=1024), 0.1, 1.0)
    d = replace(a, schedule=Continual(block=4096, step=512))
    e = Scene(articles, Continual(block=2048, step=512), 1.0, 10.0)
    g = Scene(digits, SlidingWindow(window=7 * 1024, step=1024), 1.0, 1.0)
    h = replace(e, schedule=SlidingWindow(window=7 * 256, step=256))
    basic = Scene(digits, Basic(block=8000, step=1000), 1.0, 10.0)
    steps = (256, 512, 1024) if quick else (128, 256, 512, 1024)
    windows = (256, 512, 1024) if quick else (256, 512, 1024, 2048)
    independent = replace(d, schedule=Independent(step=512))
    return [
        _over_values("a", a, _epsilons(a)),
        _over_values("b", a, _steps(a, steps, lambda b0: Continual(block=8 * b0, step=b0))),
        _over_regularization("c", a),
        _over_values("d", d, [("continual", d), ("independent", independent)]),
        _over_values("e", e, _epsilons(e)),
        _over_regularization("f", e),
        _over_values("g", g, _epsilons(g)),
        _over_values("h", h, _epsilons(h)),
        _over_values("i", g, _steps(g, windows, lambda w0: SlidingWindow(window=7 * w0, step=w0))),
        _over_values("basic-a", basic, _epsilons(basic)),
        _over_regularization("basic-b", basic),
    ]


def _epsilons(scene: Scene) -> Varied:
    return [(f"ε = {epsilon:g}", replace(scene, epsilon=epsilon)) for epsilon in (0.01, 0.1, 1.0)]


def _steps(scene: Scene, sizes: Iterable[int], schedule: Callable[[int], Schedule]) -> Varied:
    return [(f"steps of {size}", replace(scene, schedule=schedule(size))) for size in sizes]


def _over_values(name: str, scene: Scene, varied: Varied) -> Panel:
    """A panel whose private column has this library's default and its pure-epsilon method."""
    return _panel(name, scene, varied, ("gradient", "pure"))


def _over_regularization(name: str, scene: Scene) -> Panel:
    """A panel over lambda, which output perturbation needs and gradient perturbation does not."""
    lambdas = (0.01, 0.1, 1.0, 10.0)
    varied = [(f"λ = {value:g}", replace(scene, regularization=value)) for value in lambdas]
    return _panel(name, scene, varied, ("approximate", "pure"), scene.private("no λ", "gradient"))


def _panel(name: str, scene: Scene, varied: Varied, kinds: Sequence[Ours], *more: Line) -> Panel:
    """A panel of the paper: two columns, the same non-private curve in both."""
    title, claim = CLAIMS[name]
    published = [each.published(label) for label, each in varied]
    private = [each.private(label, kind) for label, each in varied for kind in kinds]
    columns = (
        Column(title=PUBLISHED, lines=(scene.not_private, *published)),
        Column(title=PRIVATE, lines=(scene.not_private, *private, *more)),
    )
    return Panel(name=name, title=title, claim=claim, columns=columns)
