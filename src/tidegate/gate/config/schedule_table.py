"""[schedule]: when models are made, and of which records. Its keys are those of its kind."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.checks import InvalidValueError, optional
from tidegate.gate.config.keys import Check, ConfigError, make, one_of, ratio, read_keys
from tidegate.schedule import Schedule, TwoStream
from tidegate.schedule.registry import SCHEDULES, alone, build, parameters, sources


@dataclass(frozen=True, kw_only=True)
class ScheduleTable:
    """A schedule of a kind.

    Attributes:
        kind: One of the registered schedules, or twostream.
        sizes: Its parameters by their names, also those that were not given: another version may
            have another default.
        source: The schedule of the source, of two streams.
    """

    kind: str
    sizes: Mapping[str, Any] = field(default_factory=dict)
    source: "ScheduleTable | None" = None

    def keys(self) -> dict[str, Any]:
        """What stands in the table."""
        source = {} if self.source is None else {"source": self.source.keys()}
        return {"kind": self.kind, **self.sizes, **source}

    def build(self) -> Schedule | TwoStream:
        """The schedule."""
        if self.kind == TwoStream.kind:
            given = {} if self.source is None else {"source": self.source.build()}
            return make({self.kind: TwoStream}, self.kind, {**self.sizes, **given})
        if self.source is not None:
            raise InvalidValueError(f"source is not a key of {self.kind}")
        return build(self.kind, dict(self.sizes))


def schedule_table(path: str, given: object) -> ScheduleTable:
    """Read the table; all its mistakes are found, each with the path of its key."""
    return _read(path, given, [*alone(), TwoStream.kind])


def source_table(path: str, given: object) -> ScheduleTable:
    """Read the table of the source of two streams."""
    return _read(path, given, sources())


def _checks(kinds: Collection[str]) -> dict[str, Check]:
    """How each key that a table may have is checked."""
    sizes: dict[str, Check] = {
        each.name: ratio if each.ratio else optional
        for schedule in SCHEDULES.values()
        for each in parameters(schedule)
    }
    source: dict[str, Check] = {"source": source_table} if TwoStream.kind in kinds else {}
    return {"kind": one_of(*kinds), **sizes, **source}


def _read(path: str, given: object, kinds: Collection[str]) -> ScheduleTable:
    values = read_keys(_checks(kinds), ["kind"], path, given)
    kind, source = values.pop("kind"), values.pop("source", None)
    try:
        built = ScheduleTable(kind=kind, sizes=values, source=source).build()
    except InvalidValueError as error:
        raise ConfigError([f"{path}.{error}"]) from error
    if isinstance(built, TwoStream):
        return ScheduleTable(kind=kind, sizes={"step": built.step}, source=source)
    found = {each.name: getattr(built, each.name) for each in parameters(type(built))}
    sizes = {name: value for name, value in found.items() if value is not None}
    return ScheduleTable(kind=kind, sizes=sizes)
