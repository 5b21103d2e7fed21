"""The sections of a configuration and their keys, for `tidegate init` and the reference."""

from collections.abc import Mapping
from typing import Any

from tidegate.data.columns import KINDS
from tidegate.data.maps.feature_map import configurable
from tidegate.kinds import Parameter, parameters
from tidegate.learn.learner import LEARNERS
from tidegate.run.config.kind_tables import (
    ColumnTable,
    FeatureTable,
    LearnerTable,
    ScheduleTable,
    SourceSchedule,
    SourceTable,
)
from tidegate.run.config.tables import (
    AllocationTable,
    BudgetTable,
    ComputeTable,
    Locations,
    PersonTable,
    PublishTable,
    QualityTable,
    RecordsTable,
    SurveyTable,
)
from tidegate.schedule import TwoStream
from tidegate.schedule.protocol import alone, sources
from tidegate.sources.configured import source_kinds

ALL = ""
"""Stands for all kinds of a section."""

Tables = Mapping[str, type[Any]]
"""The classes whose fields are the keys of a section, by kind."""


def sections() -> dict[str, Tables]:
    """The tables of all sections, by the section's name."""
    return {
        "schedule": {ALL: ScheduleTable, **alone(), TwoStream.kind: TwoStream},
        "schedule.source": {ALL: SourceSchedule, **sources()},
        "budget": {ALL: BudgetTable},
        "records": {ALL: RecordsTable},
        "person": {ALL: PersonTable},
        "allocation": {ALL: AllocationTable},
        "columns": {ALL: ColumnTable, **KINDS},
        "features": {ALL: FeatureTable, **configurable()},
        "learner": {ALL: LearnerTable, **LEARNERS},
        "survey": {ALL: SurveyTable},
        "quality": {ALL: QualityTable},
        "source": {ALL: SourceTable, **source_kinds()},
        "publish": {ALL: PublishTable},
        "compute": {ALL: ComputeTable},
        "store": {ALL: Locations},
    }


def keys_of(tables: Tables) -> list[Parameter]:
    """The keys of a section; `only` lists the kinds of a key that not all kinds have.

    >>> for each in keys_of(sections()["source"]):
    ...     if each.name in {"type", "path", "delimiter", "topic"}:
    ...         print(each.name, *each.only)
    type
    path csv jsonl parquet
    delimiter csv
    topic kafka
    """
    keys: dict[tuple[str, str], Parameter] = {}
    for kind, table in tables.items():
        for each in parameters(table):
            if kind == ALL:
                keys[each.name, each.help] = each
            elif kind in (each.only or [kind]):
                listed = keys.get((each.name, each.help), each._replace(only=()))
                keys[each.name, each.help] = each._replace(only=(*listed.only, kind))
    return list(keys.values())


def with_earlier(given: Any) -> Any:
    """The tables of a state's JSON text, with the keys that its version did not write."""
    for name, tables in sections().items():
        keys = {each.name: each.earlier for each in keys_of(tables) if each.new}
        if keys and isinstance(given, dict):
            table = given.get(name)
            given = {**given, name: {**keys, **(table if isinstance(table, dict) else {})}}
    return given
