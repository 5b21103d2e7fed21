"""Six methods of keeping a model fresh, side by side on one stream, and the plot of that."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import SpentAgainWarning
from tidegate.demo import demo_state
from tidegate.demo.demo_state import DriftingStream, Floats, Labels
from tidegate.estimators import (
    ContinualClassifier,
    PrivateClassifier,
    SlidingWindowClassifier,
)
from tidegate.gate import Gate
from tidegate.learn import Softmax, minimize
from tidegate.picture import Chain, chain_of, new_figure
from tidegate.privacy import ApproxDP, Budget, PureDP
from tidegate.privacy.budget import down
from tidegate.privacy.meaning import amounts
from tidegate.release import Model
from tidegate.schedule import Fading, RecordFit, Schedule, SlidingWindow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Predict = Callable[[Floats], NDArray[Any]]

FADING = "fading"
REFIT = "sliding refit"
SLIDING = "sliding window"
CUMULATIVE = "cumulative"
NAIVE = "naive splitting"
NOT_PRIVATE = "not private"


STYLES = {
    NOT_PRIVATE: ("#000000", ":", 1.4),
    FADING: ("#0072B2", "-", 2.2),
    REFIT: ("#E69F00", "-", 1.4),
    SLIDING: ("#009E73", "-", 1.4),
    CUMULATIVE: ("#D55E00", "--", 1.6),
    NAIVE: ("#CC79A7", "-.", 1.4),
}
"""Colour, line style and width; the colours (Okabe and Ito) suit any colour vision."""

DETAILS = {
    REFIT: ", the strongest baseline",
    CUMULATIVE: ", all records",
    NAIVE: ", ε / {comparison.releases} each",
}
"""What the legend says after the name of a method."""

TICKS = np.array([0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 1])

ERROR_OFFSET = 0.004
"""Added to every error rate, so that none is 0."""


def title(name: str) -> str:
    """The name of a way as people see it; JSON keeps the key "cumulative"."""
    return "continual" if name == CUMULATIVE else name


@dataclass(frozen=True, kw_only=True)
class Moment:
    """The models, and the budget spent, after one step.

    Attributes:
        at: How many records have arrived.
        accuracy: The accuracy of each method's newest model on fresh records; methods that have no
            model yet are missing.
        fading: The one fit behind Fading's newest release.
        chain: The fits behind the sliding window's newest release, the base first.
        worst: The share of its budget that the most-charged record has paid for Fading, rounded
            down; at most 1.
    """

    at: int
    accuracy: Mapping[str, float]
    fading: Chain
    chain: Chain
    worst: float


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The six methods; the private ones have the same budget each.

    - fading: a release at every step, in which old records count less and less, for ever. A Gate
      makes it durably, and also pays for scores at every step.
    - sliding refit: the strongest baseline. It trains on all of the newest records at every step,
      for step/window of the budget, and starts at the release before.
    - sliding window: a release at every step, of exactly the newest records, for ever.
    - cumulative: a release at every step, of all records so far, for ever.
    - naive splitting: trains on the newest records from scratch at every step, with 1/T of epsilon
      and delta. T, the number of releases, must be known in advance; after T releases the budget
      is spent. (docs/how-to/read-the-demo.md measures all baselines.)
    - not private: trains on the newest records from scratch at every step, without noise.

    All but cumulative read the same records: the newest `window`.

    Args:
        stream: Where the records come from.
        budget: The budget of each record.
        window: Records in the window, and in Fading's memory.
        step: Records between two releases.
        block: Records before the first cumulative release.
        tests: How many fresh records an accuracy is measured on.
        not_private_seed: Makes the noise repeatable, and so NOT PRIVATE: for studies and tests.
    """

    stream: DriftingStream = DriftingStream()
    budget: Budget = demo_state.BUDGET
    window: int = demo_state.WINDOW
    step: int = demo_state.STEP
    block: int = 8192
    tests: int = 2000
    not_private_seed: int | None = None

    @property
    def moments(self) -> int:
        """How many steps there are."""
        return self.stream.records // self.step

    @property
    def releases(self) -> int:
        """How many releases naive splitting has to pay for: one for each full window."""
        return self.moments - self.window // self.step + 1

    def rotating(self, moments: Iterable[Moment]) -> dict[str, float]:
        """The mean accuracy of each method after the ring starts to rotate: the demo's measure."""
        turning = self.stream.still * self.stream.records
        late = [moment.accuracy for moment in moments if moment.at > turning]
        names = dict.fromkeys(name for accuracy in late for name in accuracy)
        return {name: mean(each[name] for each in late if name in each) for name in names}

    def run(self, folder: Path) -> Iterator[Moment]:
        """Feed the stream to all methods, and yield a moment after each step.

        Fading's state is kept in the folder; the state of an earlier demo is replaced.
        """
        config = demo_state.config(
            self.stream,
            window=self.window,
            step=self.step,
            budget=self.budget,
            not_private_seed=self.not_private_seed,
        )
        with demo_state.fresh(folder, config) as gate, catch_warnings():
            simplefilter("ignore", SpentAgainWarning)  # each method pretends to be the only one
            yield from self._run(gate)

    def _run(self, gate: Gate) -> Iterator[Moment]:
        memory = self.window // self.step
        fading = Fading(step=self.step, forget=demo_state.FORGET, memory=memory)
        drawn = zip(
            _chains(fading),
            _chains(SlidingWindow(window=self.window, step=self.step)),
            strict=True,
        )
        view = gate.ledger_view()
        common = self._common(self.budget)
        window: dict[str, Any] = {"window": self.window, "step": self.step}
        streams = {
            REFIT: SlidingWindowClassifier(**window, refit=True, **common),
            SLIDING: SlidingWindowClassifier(**window, **common),
            CUMULATIVE: ContinualClassifier(block=self.block, step=self.step, **common),
        }
        part = split(self.budget, self.releases)
        newest: list[tuple[Floats, Labels]] = []
        for at in range(self.step, self.moments * self.step + 1, self.step):
            X, y = self.stream.batch(at - self.step, self.step)
            newest = [*newest, (X, y)][-memory:]
            gate.ingest(X, y)
            view.catch_up()
            models: dict[str, Predict] = {}
            if (release := gate.store.newest()) is not None:
                models[FADING] = release.model().predict
            for name, stream in streams.items():
                if stream.partial_fit(X, y).releases_:
                    models[name] = stream.predict
            if at >= self.window:
                records = [np.concatenate(column) for column in zip(*newest, strict=True)]
                models[NAIVE] = self._naive(part, *records)
                models[NOT_PRIVATE] = self._not_private(*records)
            faded, chain = next(drawn)
            yield Moment(
                at=at,
                accuracy=self._accuracies(at, models),
                fading=faded,
                chain=chain,
                worst=view.totals()[0]["paid"],
            )

    def _common(self, budget: Budget) -> dict[str, Any]:
        return {
            "budget": budget,
            "classes": range(self.stream.classes),
            "norm": self.stream.norm,
            "not_private_seed": self.not_private_seed,
        }

    def _naive(self, part: Budget, X: Floats, y: Labels) -> Predict:
        return PrivateClassifier(**self._common(part)).fit(X, y).predict

    def _not_private(self, X: Floats, y: Labels) -> Predict:
        solution = minimize(Softmax(self.stream.classes), X, y, regularization=1e-3, tolerance=1e-3)
        classes = np.arange(self.stream.classes)
        return Model(weights=solution.weights, classes=classes, norm=self.stream.norm).predict

    def _accuracies(self, at: int, models: Mapping[str, Predict]) -> dict[str, float]:
        X, y = self.stream.fresh(at, self.tests)
        return {name: float(np.mean(predict(X) == y)) for name, predict in models.items()}


def split(budget: Budget, releases: int) -> Budget:
    """The budget of each of some releases, by simple composition: naive splitting.

    >>> split(PureDP(1.0), 4), split(ApproxDP(1.0, 1e-6), 2)
    (PureDP(epsilon=0.25), ApproxDP(epsilon=0.5, delta=5e-07))
    """
    epsilon = down(Fraction(budget.epsilon) / releases)
    if isinstance(budget, PureDP):
        return PureDP(epsilon)
    delta = down(Fraction(budget.delta) / releases)
    return ApproxDP(epsilon, delta, weak_delta=budget.weak_delta)


def _chains(schedule: Schedule) -> Iterator[Chain]:
    """The chain behind the newest release after each step, without end; empty before the first."""
    fits: dict[int, RecordFit] = {}
    chain: Chain = ()
    for now in count(1):
        for fit in map(schedule.steps.fit, schedule.due(now)):
            fits[fit.number] = fit
            chain = chain_of(fit, fits)
        yield chain


# --- the plot


def plot(path: Path | str, comparison: Comparison, moments: Sequence[Moment]) -> None:
    """Write the plot of a comparison, as far as it has gone, to a .png or .svg file."""
    figure = new_figure(9.5, 6.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    budget, stream = comparison.budget, comparison.stream
    figure.suptitle(
        f"{stream.records:,} records, a release every {comparison.step:,}; all private methods: "
        f"{amounts(budget.epsilon, budget.delta)}"
    )
    turning = stream.still * stream.records
    _accuracies(above, comparison, moments)
    for axes in (above, below):
        axes.axvline(turning, color="0.6", linewidth=1)
        axes.spines[["top", "right"]].set_visible(False)
    for text, side in (("the ring stands still ", "right"), (" the ring rotates", "left")):
        above.text(turning, 1.001, text, ha=side, va="bottom", fontsize="small", color="0.35")
    _spent(below, moments)
    below.set_xlim(0, stream.records)
    below.xaxis.set_major_formatter("{x:,.0f}")
    below.set_xlabel("records arrived")
    figure.savefig(path, dpi=150, metadata=_metadata(path, comparison, moments))


def _metadata(
    path: Path | str, comparison: Comparison, moments: Sequence[Moment]
) -> dict[str, str | None]:
    """The numbers of the legend inside the file, and no address of the program that drew it."""
    means = comparison.rotating(moments)
    text = ", ".join(f"{title(name)} {means[name]:.1%}" for name in STYLES if name in means)
    drawn_by = "Software" if Path(path).suffix == ".png" else "Creator"
    return {"Description": text, drawn_by: None}


def _accuracies(axes: "Axes", comparison: Comparison, moments: Sequence[Moment]) -> None:
    means = comparison.rotating(moments)
    for name, (color, dashes, width) in STYLES.items():
        points = [(m.at, m.accuracy[name]) for m in moments if name in m.accuracy]
        if points:
            label = title(name) + DETAILS.get(name, "").format(comparison=comparison)
            label += f" ({means[name]:.1%})" if name in means else ""
            axes.plot(*zip(*points, strict=True), dashes, color=color, linewidth=width, label=label)
    axes.set_yscale("function", functions=(_stretched, _accuracy))
    axes.set_ylim(0, 1)
    axes.set_yticks(TICKS, [f"{tick:.4g} %" for tick in (100 * TICKS).round(2)])
    axes.grid(axis="y", color="0.92", linewidth=0.8)
    axes.set_ylabel("accuracy on fresh records\n(stretched towards 100 %)")
    axes.legend(
        title="in brackets: mean accuracy after the ring starts to rotate",
        loc="upper center",
        bbox_to_anchor=(0.5, -0.02),
        ncols=3,
        frameon=False,
        fontsize="small",
        title_fontsize="small",
    )


def _stretched(accuracy: Floats) -> Floats:
    """Where an accuracy is drawn: by the logarithm of its errors, so that small ones are seen."""
    return -np.log(1 + ERROR_OFFSET - np.minimum(accuracy, 1))


def _accuracy(stretched: Floats) -> Floats:
    """The inverse of `_stretched`."""
    return 1 + ERROR_OFFSET - np.exp(-stretched)


def _spent(axes: "Axes", moments: Sequence[Moment]) -> None:
    at, spent = [m.at for m in moments], [m.worst for m in moments]
    axes.step(at, spent, color=STYLES[FADING][0], where="post")
    axes.axhline(1, color="black", linewidth=1, linestyle=":")
    axes.text(
        0.005,
        1.05,
        "100 %: the bound, for ever",
        transform=axes.get_yaxis_transform(),
        fontsize="small",
    )
    axes.set_title("budget spent by the most-charged record (fading)", loc="left", fontsize="small")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_ylim(0, 1.35)
    axes.set_ylabel("budget\nspent")
