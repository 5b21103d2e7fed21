"""Compares a configuration on public records with other ways to spend its budget."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np

from tidegate import plugins
from tidegate.checks import InvalidValueError, refuse
from tidegate.compare.contenders import (
    FORGETS,
    GRID,
    SLIDING_CHAIN,
    Baseline,
    Contender,
    Problem,
    ScheduleContender,
    Setting,
    added_methods,
    settings_of,
    sizes_of,
)
from tidegate.compare.labelled import UNUSABLE, Labelled, LabelledStream, interleaved, prequential
from tidegate.compare.method import Scheduled
from tidegate.compare.yardstick import ByClass, ByError, Wording, Yardstick
from tidegate.data.intake import Intake
from tidegate.data.owners import owners_of
from tidegate.data.records import join
from tidegate.run.config import Config
from tidegate.run.config.kind_tables import schedule_table
from tidegate.run.engine import Engine
from tidegate.schedule import TwoStream
from tidegate.schedule.plan import TwoStreamPlan
from tidegate.schedule.protocol import alone
from tidegate.sources import Source
from tidegate.sources.source import checked_first

SEE_CHECK = "see how it is read with tidegate check CONFIG FILE --public"

NEWEST = ("sliding", "fading")
"""Schedules of the newest records: beside them, methods of other packages read a window."""

PUBLIC_KEY = bytes(32)
"""The key of ids in public records: nothing has to be hidden, and nothing is kept."""

Way = Callable[[Config, int], list[Contender]]
"""Makes the contenders of a setting from the configured budget and the length of the stream."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A configuration and its contenders.

    Like the configured schedule, the others do not spend what [quality] reserves; methods of other
    packages do.

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
        target = self.config.records.number
        return ByClass(self.config.task().groups) if target is None else ByError(target)

    @cached_property
    def wording(self) -> Wording:
        """How measures are shown."""
        return self.yardstick.wording(self.config.records.label or "the target")

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

    def stream(self, records: Labelled, *, every: int = 0) -> LabelledStream:
        """The records of `read` as a stream.

        Test on one in `every` records, which are held out, or if 0 on the records of the next step.
        """
        task = self.config.task()
        if every:
            near = max(1, self.size("block") // every)
            learnt, test = interleaved(records, every=every, near=near)
        else:
            learnt, test = prequential(records, ahead=self.size("step"))
        return LabelledStream(
            records=learnt,
            classes=task.groups,
            norm=task.norm,
            test=test,
            loss=task.loss,
            target=self.config.records.number,
        )

    def contenders(self, names: Sequence[str], n: int) -> tuple[list[Contender], dict[str, str]]:
        """The contenders for a stream of n records, and the reasons why names are left out.

        The configured schedule is always included. If no names are given, it is joined by `GRID`
        and by the usual methods of other packages. Only these may be left out; a name that was
        given is refused instead.
        """
        contenders: list[Contender] = []
        left_out: dict[str, str] = {}
        own = self.config.budget
        wanted = dict.fromkeys(names or (*GRID, *self._usual()))
        for epsilon, delta in self.budgets or [(own.epsilon, own.delta)]:
            config = self._variant(self._own_table, epsilon, delta)
            contenders.append(self._scheduled(self.kind, config, n, self._own_table))
            for name in wanted:
                for label, way in self._ways(name).items():
                    try:
                        contenders += way(config, n)
                    except InvalidValueError as error:
                        if name in names:
                            raise
                        left_out[label] = str(error)
        return contenders, left_out

    @cached_property
    def _added(self) -> Mapping[str, EntryPoint]:
        """The methods of other packages."""
        return added_methods()

    def _usual(self) -> list[str]:
        """Those of them that are compared by default."""
        return [name for name, entry in self._added.items() if plugins.load(entry).usual]

    def _ways(self, name: str) -> dict[str, Way]:
        """What makes the contenders of a name: a way for each setting of a schedule."""
        if name in self._added:
            return {name: partial(self._baseline, name)}
        return {each.name: partial(self._other, each) for each in settings_of(name, self.forgets)}

    def _other(self, setting: Setting, own: Config, n: int) -> list[Contender]:
        """A schedule with the budget of `own`; none if it is the configured one."""
        table = self._table(setting)
        config = self._variant(table, own.budget.epsilon, own.budget.delta)
        if config.schedule.build() == own.schedule.build():
            return []
        name = SLIDING_CHAIN if setting.name == self.kind else setting.name
        return [self._scheduled(name, config, n, table)]

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
        check_length(name, plan.first, n)
        method = Scheduled(
            name=name,
            plan=plan,
            learner=config.learner.build(),
            regularization=config.task().regularization,
            engine=self.engine,
        )
        return ScheduleContender(
            name=name,
            budget=plan.budget,
            methods=[method],
            scheduled=method,
            configured=table is self._own_table,
            table=table,
        )

    def _baseline(self, name: str, config: Config, n: int) -> list[Contender]:
        """A method of another package, under the budget of a configuration."""
        baseline: Baseline = plugins.load(self._added[name])
        plan, task = config.plan(), config.task()
        problem = Problem(
            budget=config.budget.build(),
            learner=config.learner.build(),
            regularization=task.regularization,
            person=plan.person,
            target=task.predicts_target,
            surveyed=bool(plan.survey),
            first=plan.first,
            step=self.size("step"),
            window=self.size("window"),
            newest=self.kind in NEWEST,
            records=n,
        )
        return [
            Contender(
                name=name,
                budget=config.total(),
                methods=baseline.methods(problem),
                runs_once=baseline.runs_once,
                note=baseline.note(problem),
            )
        ]


def check_length(name: str, first: int, n: int) -> None:
    """Refuse a stream that is too short for a first release."""
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
        predicted=kept.predicted,
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
