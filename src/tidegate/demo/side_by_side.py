"""Six methods of keeping a model fresh, side by side on one stream."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from pathlib import Path
from statistics import mean
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import SpentAgainWarning
from tidegate.demo import demo_state
from tidegate.demo.drifting_stream import DriftingStream, Floats, Labels
from tidegate.estimators import (
    ContinualClassifier,
    PrivateClassifier,
    SlidingWindowClassifier,
)
from tidegate.gate import Gate
from tidegate.learn import Softmax, minimize
from tidegate.picture import Chain, chain_of
from tidegate.privacy import ApproxDP, Budget, PureDP
from tidegate.privacy.budget import down
from tidegate.release import Model
from tidegate.schedule import Fading, RecordFit, Schedule, SlidingWindow

Predict = Callable[[Floats], NDArray[Any]]

FADING = "fading"
REFIT = "sliding refit"
SLIDING = "sliding window"
CUMULATIVE = "cumulative"
NAIVE = "naive splitting"
NOT_PRIVATE = "not private"


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
