"""[schedule]: when models are trained, and on which records. The keys depend on the kind."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidegate import kinds
from tidegate.checks import InvalidValueError
from tidegate.kinds import checks_of, values_of
from tidegate.run.config.keys import KindTable, key, one_of_kinds, read_keys
from tidegate.schedule import Schedule, TwoStream
from tidegate.schedule.registry import SCHEDULES, alone, build, sources


@dataclass(frozen=True, kw_only=True)
class ScheduleTable(KindTable):
    """A registered kind of schedule, or two streams with the schedule of the source stream."""

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
            given = {} if self.source is None else {"source": self.source.build()}
            return kinds.build({self.kind: TwoStream}, self.kind, {**self.parameters, **given})
        if self.source is not None:
            raise InvalidValueError(f"source is not a key of {self.kind}: remove it")
        return build(self.kind, self.parameters)


def schedule_table(path: str, given: object) -> ScheduleTable:
    """Read the table, and report every mistake with the path of its key."""
    return _read(path, given, ScheduleTable)


@dataclass(frozen=True, kw_only=True)
class SourceSchedule:
    """[schedule.source]: the key that all kinds of source schedules have."""

    kind: str = key(one_of_kinds(sources), "when models of the source stream are trained")


def source_table(path: str, given: object) -> ScheduleTable:
    """Read the schedule of the source stream."""
    return _read(path, given, SourceSchedule)


def _read(path: str, given: object, table: type[Any]) -> ScheduleTable:
    chosen = given.get("kind") if isinstance(given, Mapping) else None
    checks = {**checks_of({"": table}, None), **checks_of(SCHEDULES, chosen)}
    return read_keys(path, given, checks, {"kind"}, _table_of_kind)


def _table_of_kind(kind: str, source: ScheduleTable | None = None, **sizes: Any) -> ScheduleTable:
    table = ScheduleTable(kind=kind, parameters=sizes, source=source)
    built = table.build()
    return table if isinstance(built, TwoStream) else replace(table, parameters=values_of(built))
