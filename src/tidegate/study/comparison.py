"""Compares a configuration on public records with other ways to spend its budget."""

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, refuse
from tidegate.compute import Engine
from tidegate.gate.config import Config
from tidegate.gate.sources import Source
from tidegate.kinds import parameters
from tidegate.learn.intake import clean
from tidegate.learn.records import join
from tidegate.plan import TwoStreamPlan
from tidegate.privacy import ApproxDP, Budget
from tidegate.schedule.registry import SCHEDULES, alone
from tidegate.study.baselines.diffprivlib import MISSING, PULLS, Diffprivlib, installed
from tidegate.study.baselines.ftrl import DPFTRL, RATES
from tidegate.study.baselines.nonprivate import NonPrivate
from tidegate.study.baselines.refit import NaiveSplitting, Times, WindowRefit
from tidegate.study.curve import Curve, best_of
from tidegate.study.holdout import interleaved, prequential
from tidegate.study.method import Method, Scheduled
from tidegate.study.study_stream import Labelled, StudyStream

Floats = NDArray[np.float64]


def sizes_of(kind: str) -> tuple[str, ...]:
    """The sizes that a schedule requires, the longest first."""
    return tuple(each.name for each in parameters(SCHEDULES[kind]) if each.required)


NOT_PRIVATE = "not-private"
BASELINES = ("window-refit", "naive", "dp-ftrl", "diffprivlib", NOT_PRIVATE)
USUAL = (
    *("sliding", "continual", "growing", "independent"),
    *(name for name in BASELINES if name != "diffprivlib"),
)
"""Compared by default, besides the configured schedule; the slow one is left out."""

BATCH = 512
"""Approximate number of records in a gradient of DP-FTRL."""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One way to spend a budget.

    Attributes:
        name: A kind of schedule, or one of `BASELINES`.
        budget: The budget of every record.
        methods: One for each setting; the best of them counts.
        configured: Whether it is the configured schedule.
    """

    name: str
    budget: Budget
    methods: Sequence[Method]
    configured: bool


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A configuration and its contenders.

    Like the configured schedule, the others do not spend what [quality] reserves; baselines do.

    Args:
        tables: The configuration, as read from TOML.
        sizes: Window, block and step of the other schedules. Missing sizes are those of the
            configuration, or else 7 steps for a window and 8 for a block.
        budgets: The budgets to try, as pairs of epsilon and delta (or None); empty for the
            configured budget.
        weak_delta: Confirms a delta among them that is above 0.001.
    """

    tables: Mapping[str, Any]
    sizes: Mapping[str, int] = field(default_factory=dict)
    budgets: Sequence[tuple[float, float | None]] = ()
    weak_delta: bool = False

    @cached_property
    def config(self) -> Config:
        """The configuration."""
        config = Config.of(self.tables)
        if config.schedule.kind not in alone():
            raise refuse("schedule.kind", f"one of {', '.join(alone())}", config.schedule.kind)
        return config

    @cached_property
    def engine(self) -> Engine:
        """The engine that computes the fits of its schedules; the caller closes it."""
        return self.config.compute.build()

    @property
    def kind(self) -> str:
        """The kind of the configured schedule."""
        return self.config.schedule.kind

    def size(self, name: str) -> int:
        """The window, the block or the step."""
        given: int | None = self.sizes.get(name) or self.config.schedule.parameters.get(name)
        if given is None and name == "step":
            return self.size("block")  # MultiResolution: its blocks are its steps
        return given or {"window": 7, "block": 8}[name] * self.size("step")

    def stream(self, records: Labelled, *, every: int | None) -> StudyStream:
        """The records of `read` as a stream.

        Test on one in `every` records, which are held out, or on the records of the next step.
        """
        task, classes = self.config.task(), len(self.config.records.classes)
        if every is None:
            learnt, test = prequential(records, ahead=self.size("step"))
        else:
            near = max(1, self.size("block") // every)
            learnt, test = interleaved(records, every=every, near=near)
        return StudyStream(
            records=learnt, classes=classes, norm=task.norm, test=test, loss=task.loss
        )

    def contenders(self, names: Sequence[str], n: int) -> tuple[list[Contender], dict[str, str]]:
        """The contenders for a stream of n records, and the reasons why names are left out.

        The configured schedule is always included. If no names are given, it is joined by `USUAL`.
        Only these may be left out; a name that was given is refused instead.
        """
        contenders: list[Contender] = []
        left_out: dict[str, str] = {}
        own = self.config.budget
        for epsilon, delta in self.budgets or [(own.epsilon, own.delta)]:
            for name in dict.fromkeys([self.kind, *(names or USUAL)]):
                try:
                    contenders.append(self._contender(name, epsilon, delta, n))
                except InvalidValueError as error:
                    if name in names or name == self.kind:
                        raise
                    left_out[name] = str(error)
        return contenders, left_out

    def _contender(self, name: str, epsilon: float, delta: float | None, n: int) -> Contender:
        kind = name if name in alone() else self.kind
        config = self._variant(kind, epsilon, delta)
        budget = config.budget.build()
        if name in alone():
            methods = [_scheduled(config, name, self.engine)]
        else:
            methods = self._baseline(name, config, budget)
        first = self._first(name)
        if first > n:
            short = f"{name} needs {first:,} records for its first release, but there are {n:,}"
            raise InvalidValueError(f"{short}: give more records, or a smaller window or block")
        return Contender(name=name, budget=budget, methods=methods, configured=name == self.kind)

    def _variant(self, kind: str, epsilon: float, delta: float | None) -> Config:
        """The configuration with another schedule and budget, and nothing else changed."""
        own = self.tables["schedule"] if kind == self.kind else {}
        schedule = {**own, "kind": kind} | {name: self.size(name) for name in sizes_of(kind)}
        budget: dict[str, Any] = {"epsilon": epsilon}
        if delta is not None:
            weak = self.weak_delta or (delta == self.config.budget.delta)  # confirmed already
            budget |= {"delta": delta, "weak_delta": weak}
        kept = {**self.tables, "schedule": schedule, "budget": budget}
        if kind == "growing" != self.kind:  # it sets its own shares
            kept.pop("allocation", None)
        return Config.of(kept)

    def _first(self, name: str) -> int:
        """How many records arrive before the first release."""
        kind = name if name in alone() else self.kind
        return self.size("window" if name == "window-refit" else sizes_of(kind)[0])

    def _baseline(self, name: str, config: Config, budget: Budget) -> list[Method]:
        """A baseline, once for each of its settings."""
        step = self.size("step")
        window = self.size("window") if self.kind == "sliding" or name == "window-refit" else None
        times = Times(first=self._first(name), step=step, window=window)
        refit: dict[str, Any] = {
            "budget": budget,
            "times": times,
            "learner": config.learner.build(),
            "regularization": config.task().regularization,
        }
        match name:
            case "window-refit":
                return [WindowRefit(**refit)]
            case "naive":
                return [NaiveSplitting(**refit)]
            case "dp-ftrl":
                if not isinstance(budget, ApproxDP):
                    raise InvalidValueError("dp-ftrl needs a delta: give one, such as 1e-6")
                batch = _divisor(math.gcd(times.first, step))
                return [DPFTRL(budget=budget, times=times, batch=batch, rate=r) for r in RATES]
            case "diffprivlib":
                if not installed():
                    raise InvalidValueError(MISSING)
                return [Diffprivlib(budget=budget, times=times, regularization=r) for r in PULLS]
            case _:
                return [NonPrivate(times=times)]


def load(path: Path) -> Mapping[str, Any]:
    """Check a configuration and return its tables."""
    Config.load(path)
    return tomllib.loads(path.read_text(encoding="utf-8"))


def read(config: Config, source: Source) -> Labelled:
    """All records of a source, as a gate would keep them."""
    kept, features = config.records, config.feature_map()
    parts = [
        clean(raw.X, raw.y, classes=kept.classes, norm=kept.norm, features=features)
        for raw in source.batches(None)
        if raw.n
    ]
    if not parts:
        raise refuse("the number of records", "above 0", 0)
    records = join(parts)
    return Labelled(X=records.X, y=np.where(records.usable, records.y, -1))


def _scheduled(config: Config, name: str, engine: Engine) -> Method:
    plan = config.plan()
    if isinstance(plan, TwoStreamPlan):
        raise refuse("schedule.kind", "a schedule of one stream", config.schedule.kind)
    return Scheduled(
        name=name,
        plan=plan,
        learner=config.learner.build(),
        regularization=config.task().regularization,
        engine=engine,
    )


def _divisor(number: int) -> int:
    """The divisor of a number whose ratio to `BATCH` is nearest to 1.

    >>> _divisor(1024), _divisor(1000), _divisor(7)
    (512, 500, 7)
    """
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    divisors = {*small, *(number // d for d in small)}
    return min(divisors, key=lambda d: abs(math.log(d / BATCH)))


@dataclass(frozen=True, kw_only=True)
class Result:
    """A contender and its measured curve."""

    contender: Contender
    curve: Curve

    def at(self, times: Sequence[int]) -> Floats:
        """The accuracy of its newest release at each of the times."""
        newest = np.searchsorted(self.curve.at, times, side="right") - 1
        return np.asarray(self.curve.median[newest])


def results(
    contenders: Sequence[Contender],
    stream: StudyStream,
    runs: int,
    tick: Callable[[], None] = lambda: None,
) -> Iterator[Result]:
    """Run each contender `runs` times, with new noise; call `tick` after each run of a setting."""
    for contender in contenders:
        once = range(1) if contender.name == NOT_PRIVATE else range(runs)
        curve = best_of(contender.methods, lambda _: stream, once, tick)
        yield Result(contender=contender, curve=curve)


def common_times(compared: Sequence[Result], step: int) -> range:
    """The times, a step apart, at which all contenders have a model."""
    since = max(result.curve.at[0] for result in compared)
    return range(-(-since // step) * step, max(max(r.curve.at) for r in compared) + 1, step)
