"""Tables whose keys depend on a kind: of schedule, column, feature map, learner or source."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from tidegate.checks import InvalidValueError, refuse
from tidegate.data.columns import KINDS, Column, column_of
from tidegate.data.feature_map import NamedMap, Pinned, configurable
from tidegate.kinds import build, checks_of, kinds_with, parameters, values_of
from tidegate.learn.learner import LEARNERS, Learner, Task, automatic_learner
from tidegate.learn.loss import (
    LOSSES,
    TARGET_LOSSES,
    automatic_loss,
    automatic_target_loss,
    loss_of,
    target_loss_of,
)
from tidegate.privacy import Budget
from tidegate.run.config.keys import (
    ConfigError,
    KindTable,
    key,
    one_of_kinds,
    read_keys,
    read_table,
    unknown_key,
    zero_or_more,
)
from tidegate.schedule import Schedule, TwoStream
from tidegate.schedule.protocol import SCHEDULES, alone, sources
from tidegate.sources.configured import (
    ConfiguredSource,
    own_kinds,
    source_kind,
    source_kinds,
    source_types,
)


@dataclass(frozen=True, kw_only=True)
class ScheduleTable(KindTable):
    """[schedule]: a registered kind, or two streams with the schedule of the source stream."""

    kind: str = key(
        one_of_kinds(lambda: [*alone(), TwoStream.kind]),
        "when models are trained, see docs/how-to/choose-a-schedule.md",
    )
    source: "ScheduleTable | None" = key(
        lambda *given: source_table(*given),  # noqa: PLW0108 (it is defined below)
        "required: the schedule of the source stream, see [schedule.source]",
        only=(TwoStream.kind,),
        default=None,
    )

    def build(self) -> Schedule | TwoStream:
        """The schedule."""
        if self.kind == TwoStream.kind:
            given = {"source": self.source.build()} if self.source else {}
            return build({self.kind: TwoStream}, self.kind, {**self.parameters, **given})
        if self.source:
            raise InvalidValueError(f"source is not a key of {self.kind}: remove it")
        return build(SCHEDULES, self.kind, self.parameters)


def schedule_table(path: str, given: object) -> ScheduleTable:
    """Read the table, and report every mistake with the path of its key."""
    return _read_schedule(path, given, ScheduleTable)


@dataclass(frozen=True, kw_only=True)
class SourceSchedule:
    """[schedule.source]: the key that all kinds of source schedules have."""

    kind: str = key(one_of_kinds(sources), "when models of the source stream are trained")


def source_table(path: str, given: object) -> ScheduleTable:
    """Read the schedule of the source stream."""
    return _read_schedule(path, given, SourceSchedule)


def _read_schedule(path: str, given: object, table: type[Any]) -> ScheduleTable:
    chosen = given.get("kind") if isinstance(given, Mapping) else None
    checks = {**checks_of({"": table}, None), **checks_of(SCHEDULES, chosen)}
    return read_keys(path, given, checks, {"kind"}, _schedule_of)


def _schedule_of(kind: str, source: ScheduleTable | None = None, **sizes: Any) -> ScheduleTable:
    table = ScheduleTable(kind=kind, parameters=sizes, source=source)
    built = table.build()
    return table if isinstance(built, TwoStream) else replace(table, parameters=values_of(built))


@dataclass(frozen=True, kw_only=True)
class ColumnTable(KindTable):
    """[[columns]]: a column by its name and kind."""

    kind: str = key(one_of_kinds(lambda: KINDS), "what its values are")

    def without_folders(self) -> Self:
        """The table with its files by name: a frozen file may move, as long as it is the same."""
        files = [name for name in ("encoder", "tokenizer") if name in self.parameters]
        names = {name: Path(self.parameters[name]).name for name in files}
        return replace(self, parameters={**self.parameters, **names})

    def build(self, spelling: int) -> Column:
        """The column, whose values are spelled by a rule."""
        return column_of({"kind": self.kind, **self.parameters}, spelling)


def column_table(path: str, given: object) -> ColumnTable:
    """Read the table, and report every mistake with the path of its key."""
    named = given.get("kind") if isinstance(given, Mapping) else None
    chosen = named if isinstance(named, str) and named in KINDS else None
    kinds = {chosen: KINDS[chosen]} if chosen else KINDS
    checks = {**checks_of({"": ColumnTable}, None), **checks_of(kinds, chosen)}
    required = {"kind", "name"}
    if chosen:
        required |= {each.name for each in parameters(KINDS[chosen]) if each.required}
        _check_column_keys(path, given, chosen, list(checks))
    elif isinstance(given, Mapping):  # what its other keys must be depends on the kind
        given = {name: value for name, value in given.items() if name in required}
    return read_keys(path, given, checks, required, partial(_column_of, path))


def _check_column_keys(path: str, given: object, kind: str, allowed: list[str]) -> None:
    """Refuse keys of another kind of column, and say so."""
    names = given if isinstance(given, Mapping) else ()
    others = {each.name for kind in KINDS.values() for each in parameters(kind)}
    mistakes = [
        f"{path}.{name} is not a key of a {kind} column: it has {', '.join(allowed)}"
        if name in others
        else unknown_key(f"{path}.", name, allowed)
        for name in names
        if name not in allowed
    ]
    if mistakes:
        raise ConfigError(mistakes)


def _column_of(path: str, kind: str, **given: Any) -> ColumnTable:
    try:
        built = column_of({"kind": kind, **given}, spelling=1)  # [records] may say so
    except InvalidValueError as error:
        raise ConfigError([f"{path}, {error}"]) from error
    return ColumnTable(kind=kind, parameters=values_of(built))


@dataclass(frozen=True, kw_only=True)
class FeatureTable(KindTable):
    """[[features]]: a feature map by its registered name."""

    map: str = key(one_of_kinds(configurable), "the name of the map")

    @property
    def takes_text(self) -> bool:
        """Whether the map takes text rather than numbers."""
        return configurable()[self.map].takes_text

    def without_folders(self) -> Self:
        """The table with its files by name: a frozen file may move, as long as it is the same."""
        built = self.build()
        if not isinstance(built, Pinned) or built.digest is None:
            return self
        names = {name: Path(self.parameters[name]).name for name in built.files}
        return replace(self, parameters={**self.parameters, **names})

    def build(self) -> NamedMap:
        """The feature map. An empty list stands for None, which TOML lacks."""
        given = {name: None if v == () else v for name, v in self.parameters.items()}
        return build(configurable(), self.map, given)


def feature_table(path: str, given: object) -> FeatureTable:
    """Read the table, and report every mistake with the path of its key."""
    maps = configurable()
    chosen = given.get("map") if isinstance(given, Mapping) else None
    checks = {**checks_of({"": FeatureTable}, None), **checks_of(maps, chosen)}
    return read_keys(path, given, checks, {"map"}, _feature_of)


def _feature_of(map: str, **given: Any) -> FeatureTable:  # noqa: A002 (the name of the key)
    table = FeatureTable(map=map, parameters=given)
    built = table.build()
    if isinstance(built, Pinned):
        built = built.pinned()  # checks the parameters and files, unless they are pinned already
    else:
        built.transform([""] if table.takes_text else np.zeros((1, 1)))  # checks the parameters
    return FeatureTable(map=map, parameters={**values_of(built), **given})


@dataclass(frozen=True, kw_only=True)
class LearnerTable(KindTable):
    """[learner]: a kind of learner, with its loss and regularization."""

    kind: str = key(
        one_of_kinds(lambda: ["auto", *LEARNERS]), '"auto" chooses by the budget', default="auto"
    )
    loss: str = key(
        one_of_kinds(lambda: list(dict.fromkeys(["auto", *LOSSES, *TARGET_LOSSES]))),
        '"auto" chooses by the number of classes; for a target by the budget',
        default="auto",
    )
    regularization: float | None = key(
        zero_or_more,
        "lambda, the pull towards the prior; the default depends on the kind",
        default=None,
    )

    def resolved(self, budget: Budget, classes: int | None) -> "LearnerTable":
        """The table with "auto" and all defaults replaced by values.

        Args:
            budget: The budget.
            classes: The number of classes; None if a target is predicted.
        """
        kind = automatic_learner(budget.unit) if self.kind == "auto" else self.kind
        automatic = automatic_loss(classes) if classes else automatic_target_loss(budget.unit)
        loss = automatic if self.loss == "auto" else self.loss
        table = replace(self, kind=kind, loss=loss)
        if self.regularization is None:
            table = replace(table, regularization=LEARNERS[kind].default_regularization)
        return replace(table, parameters=values_of(table.build()))

    def check(self, budget: Budget, task: Task) -> None:
        """Refuse a learner that does not fit the budget or the task; the table is resolved."""
        if budget.unit not in LEARNERS[self.kind].budgets:
            able = [kind for kind, each in LEARNERS.items() if budget.unit in each.budgets]
            without = "without" if budget.unit == "epsilon" else "with"
            allowed = f"{' or '.join(able)} for a budget {without} a delta"
            raise refuse("kind", allowed, self.kind)
        self.build().check(task, budget.unit)

    def build(self) -> Learner[Task]:
        """The learner; the table must be resolved."""
        return build(LEARNERS, self.kind, self.parameters)

    def task(self, *, classes: int | None, norm: float) -> Task:
        """The learning task; the table must be resolved. No classes means a target."""
        loss = loss_of(self.loss, classes) if classes else target_loss_of(self.loss, "")
        return Task(loss=loss, norm=norm, regularization=self.regularization)


def learner_table(path: str, given: object) -> LearnerTable:
    """Read the table, and report every mistake with the path of its key."""
    chosen = given.get("kind") if isinstance(given, Mapping) else None
    checks = {**checks_of({"": LearnerTable}, None), **checks_of(LEARNERS, chosen)}
    return read_keys(path, given, checks, (), _learner_of)


def _learner_of(
    *, kind: str = "auto", loss: str = "auto", regularization: float | None = None, **given: Any
) -> LearnerTable:
    table = LearnerTable(kind=kind, loss=loss, regularization=regularization, parameters=given)
    if kind != "auto":
        table.build()  # refuses keys of other kinds
    elif given:
        raise InvalidValueError(_needs_kind(next(iter(given))))
    return table


def _needs_kind(name: str) -> str:
    """The error for a key of some kinds of learner, if the kind is left to "auto"."""
    kinds = [LEARNERS[each] for each in kinds_with(LEARNERS, name)]
    needed = " or ".join(f'kind = "{each.kind}"' for each in kinds)
    pure = any("epsilon" in each.budgets for each in kinds)
    return f"{name} needs {needed} in [learner]{'' if pure else ', and a budget with a delta'}"


INSTALLED = one_of_kinds(source_types)
"""Checks that a value is an installed type of source."""


@dataclass(frozen=True, kw_only=True)
class SourceTable(KindTable):
    """[source]: a source by its type."""

    type: str = key(INSTALLED, "what is read, see docs/sources.md")

    def build(self) -> ConfiguredSource:
        """The source; `opened` makes it readable."""
        return source_kind(self.type)(**self.parameters)


def one_source(path: str, given: object) -> SourceTable:
    """Read the table, and report every mistake with the path of its key."""
    if not isinstance(given, Mapping) or "type" not in given:
        checks = checks_of({"": SourceTable, **source_kinds()}, None)  # one of them is meant
        return read_keys(path, given, checks, {"type"}, _source_of)
    kind = source_kind(INSTALLED(f"{path}.type", given["type"]))
    _check_source_keys(path, given, kind)
    checks = checks_of({"": SourceTable, kind.type: kind}, None)
    required = {each.name for each in parameters(kind) if each.required}
    return read_keys(path, given, checks, required, _source_of)


def _check_source_keys(path: str, given: Mapping[str, Any], kind: type[ConfiguredSource]) -> None:
    """Refuse keys that only other types have, and say so."""
    mistakes = []
    for name in given.keys() - {"type"} - key_names(kind):
        if others := [each for each, one in source_kinds().items() if name in key_names(one)]:
            told = f"{path}.{name} is a key of {', '.join(others)}, not of {kind.type}: remove it"
            mistakes.append(told)
    if mistakes:
        raise ConfigError(mistakes)


def key_names(kind: type[ConfiguredSource]) -> set[str]:
    """The keys of a type of source, besides the type."""
    return {each.name for each in parameters(kind)}


def _source_of(type: str, **given: Any) -> SourceTable:  # noqa: A002 (the name of the key)
    return SourceTable(type=type, parameters=values_of(source_kind(type)(**given)))


@dataclass(frozen=True, kw_only=True)
class TwoSources:
    """[source.source] and [source.target]: where the records of two streams come from."""

    source: SourceTable = key(one_source, "of the source stream")
    target: SourceTable = key(one_source, "of the target stream")


def one_or_two(name: str, value: object) -> SourceTable | TwoSources:
    """The source of one stream, or of two."""
    if isinstance(value, Mapping) and not {"source", "target"}.isdisjoint(value):
        return read_table(TwoSources, name, value)
    return one_source(name, value)


def with_installed_sources(given: Any) -> Any:
    """The tables of a state's JSON text, without a source of a type that is not installed.

    A state can be read, verified and served without the program that once brought its records.
    """
    source = given.get("source") if isinstance(given, dict) else None
    tables = (source, *source.values()) if isinstance(source, dict) else ()
    types = {each["type"] for each in tables if isinstance(each, dict) and "type" in each}
    if types <= {*own_kinds()} or types <= {*source_types()}:
        return given
    return {name: table for name, table in given.items() if name != "source"}
