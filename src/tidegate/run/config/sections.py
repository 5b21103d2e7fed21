"""The sections of a configuration and their keys, for `tidegate init` and the reference."""

from collections.abc import Mapping
from typing import Any

from tidegate.data.columns import KINDS
from tidegate.data.feature_map import configurable
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


def _own() -> dict[str, type[Any]]:
    """The table of each section, which has the keys that all kinds have."""
    return {
        "schedule": ScheduleTable,
        "schedule.source": SourceSchedule,
        "budget": BudgetTable,
        "records": RecordsTable,
        "person": PersonTable,
        "allocation": AllocationTable,
        "columns": ColumnTable,
        "features": FeatureTable,
        "learner": LearnerTable,
        "survey": SurveyTable,
        "quality": QualityTable,
        "source": SourceTable,
        "publish": PublishTable,
        "compute": ComputeTable,
        "store": Locations,
    }


def sections() -> dict[str, Tables]:
    """The tables of all sections, by the section's name."""
    kinds: dict[str, Tables] = {
        "schedule": {**alone(), TwoStream.kind: TwoStream},
        "schedule.source": sources(),
        "columns": KINDS,
        "features": configurable(),
        "learner": LEARNERS,
        "source": source_kinds(),
    }
    return {name: {ALL: own, **kinds.get(name, {})} for name, own in _own().items()}


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
    for name, own in _own().items():
        keys = {each.name: each.earlier for each in parameters(own) if each.new}
        if keys and isinstance(given, dict):
            table = given.get(name)
            given = {**given, name: {**keys, **(table if isinstance(table, dict) else {})}}
    return given
