"""Compares a configuration on public records with other ways to spend its budget."""

import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.checks import InvalidValueError, refuse
from tidegate.compute import Engine
from tidegate.gate.config import Config
from tidegate.gate.config.schedule_table import schedule_table
from tidegate.gate.sources import Source
from tidegate.gate.sources.source import checked_first
from tidegate.kinds import parameters
from tidegate.learn.intake import Intake
from tidegate.learn.owners import owners_of
from tidegate.learn.records import join
from tidegate.plan import TwoStreamPlan
from tidegate.privacy import ApproxDP, Budget
from tidegate.schedule import Schedule, TwoStream
from tidegate.schedule.registry import SCHEDULES, alone
from tidegate.study.baselines.constant import Constant, WithConstant
from tidegate.study.baselines.diffprivlib import MISSING, PULLS, Diffprivlib, installed
from tidegate.study.baselines.ftrl import DPFTRL, SETTINGS, TARGET_SETTINGS
from tidegate.study.baselines.nonprivate import NonPrivate
from tidegate.study.baselines.refit import NaiveSplitting, Times, WindowRefit
from tidegate.study.grid import (
    CONSTANT,
    FORGETS,
    GRID,
    NOT_PRIVATE,
    SLIDING_CHAIN,
    SLIDING_REFIT,
    Setting,
    settings_of,
)
from tidegate.study.holdout import interleaved, prequential
from tidegate.study.measured import ByClass, ByError, Yardstick
from tidegate.study.method import Method, Scheduled
from tidegate.study.study_stream import UNUSABLE, Labelled, StudyStream
from tidegate.study.wording import Wording, wording_of


def sizes_of(kind: str) -> tuple[str, ...]:
    """The sizes that a schedule requires, the longest first."""
    return tuple(each.name for each in parameters(SCHEDULES[kind]) if each.required)


BASELINES = ("window-refit", "naive", "dp-ftrl", "diffprivlib", NOT_PRIVATE, CONSTANT)
METHODS = (*alone(), SLIDING_REFIT, *BASELINES)
"""All names that can be compared; fading stands for several settings."""

USUAL = (*GRID, *(name for name in BASELINES if name != "diffprivlib"))
"""Compared by default, besides the configured schedule; the slow one is left out."""

SEE_CHECK = "see how it is read with tidegate check CONFIG FILE --public"

NEWEST = ("sliding", "fading")
"""Schedules of the newest records: beside them, baselines read a window."""

PUBLIC_KEY = bytes(32)
"""The key of ids in public records: nothing has to be hidden, and nothing is kept."""

BATCH = 512
"""Approximate number of records in a gradient of DP-FTRL."""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One way to spend a budget.

    Attributes:
        name: A schedule with its setting, or one of `BASELINES`.
        budget: The budget of every record, or of every person.
        methods: One for each setting; the best of them counts.
        configured: Whether it is the configured schedule.
        table: The [schedule] table of a schedule; None for a baseline.
    """

    name: str
    budget: Budget
    methods: Sequence[Method]
    configured: bool
    table: Mapping[str, Any] | None = None

    @property
    def runs_once(self) -> bool:
        """Whether all its runs would be the same."""
        return self.name in (NOT_PRIVATE, CONSTANT)

    def admitted(self, stream: StudyStream) -> float | None:
        """The share of the records with a person that its schedule learns from; see `Scheduled`."""
        method = next(iter(self.methods), None)
        return method.admitted(stream) if isinstance(method, Scheduled) else None

    @property
    def schedule(self) -> Schedule | None:
        """Its schedule; None for a baseline."""
        method = next(iter(self.methods), None)
        return method.plan.schedule if isinstance(method, Scheduled) else None


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
        forgets: The forget rates of fading to try.
    """

    tables: Mapping[str, Any]
    sizes: Mapping[str, int] = field(default_factory=dict)
    budgets: Sequence[tuple[float, float | None]] = ()
    weak_delta: bool = False
    forgets: Sequence[Fraction] = FORGETS

    @cached_property
    def config(self) -> Config:
        """The configuration."""
        config = Config.of(self.tables)
        if config.schedule.kind not in alone():
            raise refuse("schedule.kind", f"one of {', '.join(alone())}", config.schedule.kind)
        return config

    @cached_property
    def yardstick(self) -> Yardstick:
        """What models are measured by."""
        target = self.config.records.predicted
        return ByClass(self.config.task().groups) if target is None else ByError(target)

    @property
    def wording(self) -> Wording:
        """How measures are shown."""
        groups, label = self.config.task().groups, self.config.records.label
        return wording_of(self.yardstick, groups=groups, label=label)

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
        task, target = self.config.task(), self.config.records.predicted
        if every is None:
            learnt, test = prequential(records, ahead=self.size("step"))
        else:
            near = max(1, self.size("block") // every)
            learnt, test = interleaved(records, every=every, near=near)
        return StudyStream(
            records=learnt,
            classes=task.groups,
            norm=task.norm,
            test=test,
            loss=task.loss,
            target=target,
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
            config = self._variant(self._own_table, epsilon, delta)
            contenders.append(self._scheduled(self.kind, config, n, self._own_table))
            for name, setting in self._wanted(names or USUAL):
                try:
                    if setting is None:
                        contenders.append(self._baseline(name, config, n))
                    elif (other := self._other(setting, config, n)) is not None:
                        contenders.append(other)
                except InvalidValueError as error:
                    if name in names:
                        raise
                    left_out[name if setting is None else setting.name] = str(error)
        return contenders, left_out

    def _wanted(self, names: Sequence[str]) -> Iterator[tuple[str, Setting | None]]:
        """The settings of each name; None for a baseline."""
        for name in dict.fromkeys(names):
            each: Iterable[Setting | None]
            each = [None] if name in BASELINES else settings_of(name, self.forgets)
            yield from ((name, setting) for setting in each)

    def _other(self, setting: Setting, own: Config, n: int) -> Contender | None:
        """A schedule with the budget of `own`; None if it is the configured one."""
        table = self._table(setting)
        config = self._variant(table, own.budget.epsilon, own.budget.delta)
        if config.schedule.build() == own.schedule.build():
            return None
        name = SLIDING_CHAIN if setting.name == self.kind else setting.name
        return self._scheduled(name, config, n, table)

    def _table(self, setting: Setting) -> dict[str, Any]:
        """The [schedule] table of a setting; keys that it does not mention stay as configured."""
        kept = self.tables["schedule"] if setting.kind == self.kind else {}
        sizes = {name: self.size(name) for name in sizes_of(setting.kind)}
        table = {"kind": setting.kind} | sizes | kept | sizes | dict(setting.keys)
        return {key: value for key, value in table.items() if value is not None}

    @cached_property
    def _own_table(self) -> dict[str, Any]:
        """The configured [schedule] table, with the sizes of this comparison."""
        return self._table(Setting(self.kind, self.kind, {}))

    def _variant(self, schedule: Mapping[str, Any], epsilon: float, delta: float | None) -> Config:
        """The configuration with another schedule and budget, and nothing else changed."""
        budget: dict[str, Any] = {"epsilon": epsilon}
        if delta is not None:
            weak = self.weak_delta or (delta == self.config.budget.delta)  # confirmed already
            budget |= {"delta": delta, "weak_delta": weak}
        kept = {**self.tables, "schedule": schedule, "budget": budget}
        if schedule is not self._own_table and self.without_allocation(schedule):
            kept.pop("allocation", None)
        return Config.of(kept)

    def without_allocation(self, table: Mapping[str, Any]) -> bool:
        """Whether [allocation] is given, but cannot stand beside this [schedule] table."""
        if "allocation" not in self.tables:
            return False
        built = schedule_table("schedule", table).build()
        return not isinstance(built, TwoStream) and not built.allocated

    def _scheduled(self, name: str, config: Config, n: int, table: Mapping[str, Any]) -> Contender:
        plan = config.plan()
        if isinstance(plan, TwoStreamPlan):
            raise refuse("schedule.kind", "a schedule of one stream", config.schedule.kind)
        _check_length(name, plan.first, n)
        method = Scheduled(
            name=name,
            plan=plan,
            learner=config.learner.build(),
            regularization=config.task().regularization,
            engine=self.engine,
        )
        return Contender(
            name=name,
            budget=plan.budget,
            methods=[method],
            configured=table is self._own_table,
            table=table,
        )

    def _baseline(self, name: str, config: Config, n: int) -> Contender:
        """A baseline under the budget of a configuration."""
        window = self.size("window") if self.kind in NEWEST or name == "window-refit" else None
        first = window or config.plan().first
        _check_length(name, first, n)
        times = Times(first=first, step=self.size("step"), window=window)
        return Contender(
            name=name,
            budget=config.total(),
            methods=_settings(name, config, times),
            configured=False,
        )


def _settings(name: str, config: Config, times: Times) -> list[Method]:
    """A baseline, once for each of its settings.

    Where the schedules have a constant column, which surveys add, baselines have one too.
    """
    if name == CONSTANT:
        return [Constant(times=times)]
    plain = _plain_settings(name, config, times)
    return [WithConstant(method=each) for each in plain] if config.plan().survey else plain


PROTECT_RECORDS = {
    "window-refit": "it limits what a record pays, not what a person pays; sliding-refit does both",
    "dp-ftrl": "its noise is proved for records, not for a person with records in many batches",
    "diffprivlib": "it protects records: it cannot count a person like one record",
}
"""Why baselines are left out if persons are protected."""


def _plain_settings(name: str, config: Config, times: Times) -> list[Method]:
    """The same without such a column."""
    if config.person is not None and name in PROTECT_RECORDS:
        why = f"{name} is not compared if persons are protected: {PROTECT_RECORDS[name]}"
        raise InvalidValueError(why)
    budget = config.budget.build()
    refit: dict[str, Any] = {
        "budget": budget,
        "times": times,
        "learner": config.learner.build(),
        "regularization": config.task().regularization,
        "typical": None if config.person is None else config.person.build().typical,
    }
    match name:
        case "window-refit":
            return [WindowRefit(**refit)]
        case "naive":
            return [NaiveSplitting(**refit)]
        case "dp-ftrl":
            if not isinstance(budget, ApproxDP):
                raise InvalidValueError("dp-ftrl needs a delta: give one, such as 1e-6")
            batch = _divisor(math.gcd(times.first, times.step))
            chosen = TARGET_SETTINGS if config.task().predicts_target else SETTINGS
            return [DPFTRL(budget=budget, times=times, batch=batch, **each) for each in chosen]
        case "diffprivlib":
            if config.task().predicts_target:
                raise InvalidValueError("diffprivlib is compared on classes only")
            if not installed():
                raise InvalidValueError(MISSING)
            return [Diffprivlib(budget=budget, times=times, regularization=r) for r in PULLS]
        case _:
            return [NonPrivate(times=times)]


def _check_length(name: str, first: int, n: int) -> None:
    if first > n:
        short = f"{name} needs {first:,} records for its first release, but there are {n:,}"
        raise InvalidValueError(f"{short}: give more records, or a smaller window or block")


def load(path: Path) -> Mapping[str, Any]:
    """Check a configuration and return its tables."""
    Config.load(path)
    return tomllib.loads(path.read_text(encoding="utf-8"))


def read(config: Config, source: Source) -> Labelled:
    """All records of a source, as a gate would keep them."""
    kept = config.records
    intake = Intake(
        norm=config.norm,
        classes=kept.classes,
        target=kept.predicted,
        cuts=kept.cuts,
        features=config.feature_map(),
        spelling=kept.rule,
    )
    batches = [raw for raw in checked_first(source.batches(None), source.name) if raw.n]
    if not batches:
        raise refuse("the number of records", "above 0", 0)
    records = join([intake.records(raw.X, raw.y) for raw in batches])
    if not records.usable.any():
        raise InvalidValueError(f"no record of {source.name} can be used: {SEE_CHECK}")
    owners = None
    if config.person is not None:
        owners = np.concatenate([owners_of(raw.persons, PUBLIC_KEY).owners for raw in batches])
        known = int(owners.any(axis=1).sum())
        if 2 * known < len(owners):  # a gate would stop at such a first step
            few = f"only {known:,} of {len(owners):,} records of {source.name} have a person"
            raise InvalidValueError(f"{few}: check [person] id = {config.person.id!r}")
    y = np.where(records.usable, records.y, UNUSABLE)
    return Labelled(X=records.X, y=y, owners=owners)


def _divisor(number: int) -> int:
    """The divisor of a number whose ratio to `BATCH` is nearest to 1.

    >>> _divisor(1024), _divisor(1000), _divisor(7)
    (512, 500, 7)
    """
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    divisors = {*small, *(number // d for d in small)}
    return min(divisors, key=lambda d: abs(math.log(d / BATCH)))
