"""[schedule]: when models are made, and of which records. Its keys are those of its kind."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tidegate import kinds
from tidegate.checks import InvalidValueError
from tidegate.gate.config.keys import KindTable, one_of, read_keys
from tidegate.kinds import checks_of, values_of
from tidegate.schedule import Schedule, TwoStream
from tidegate.schedule.registry import SCHEDULES, alone, build, sources


@dataclass(frozen=True, kw_only=True)
class ScheduleTable(KindTable):
    """A schedule of a registered kind, or of two streams with the schedule of their source."""

    kind: str
    source: "ScheduleTable | None" = None

    def build(self) -> Schedule | TwoStream:
        """The schedule."""
        if self.kind == TwoStream.kind:
            given = {} if self.source is None else {"source": self.source.build()}
            return kinds.build({self.kind: TwoStream}, self.kind, {**self.parameters, **given})
        if self.source is not None:
            raise InvalidValueError(f"source is not a key of {self.kind}")
        return build(self.kind, self.parameters)


def schedule_table(path: str, given: object) -> ScheduleTable:
    """Read the table; all its mistakes are found, each with the path of its key."""
    return _read(path, given, [*alone(), TwoStream.kind])


def _read(path: str, given: object, names: Collection[str]) -> ScheduleTable:
    chosen = given.get("kind") if isinstance(given, Mapping) else None
    checks = {"kind": one_of(*names), **checks_of(SCHEDULES, chosen)}
    if TwoStream.kind in names:
        checks["source"] = partial(_read, names=sources())
    return read_keys(path, given, checks, {"kind"}, _made)


def _made(kind: str, source: ScheduleTable | None = None, **sizes: Any) -> ScheduleTable:
    table = ScheduleTable(kind=kind, parameters=sizes, source=source)
    built = table.build()
    return table if isinstance(built, TwoStream) else replace(table, parameters=values_of(built))
