"""The registry of schedules: each adds itself here under its kind."""

from collections.abc import Mapping
from typing import Any, TypeVar

from tidegate import kinds
from tidegate.checks import optional, ratio
from tidegate.schedule.protocol import Schedule

S = TypeVar("S", bound=Schedule)

SCHEDULES: dict[str, type[Schedule]] = {}
"""Every schedule of one stream whose certificate is proved, by kind."""


def parameter(
    help: str,  # noqa: A002
    example: int | str | None = None,
    *,
    check: kinds.Check | None = None,
    **default: Any,
) -> Any:
    """Declare a parameter of a schedule: a dataclass field with the help that users see.

    Args:
        help: What it means, in a few words.
        example: The value that `tidegate init` writes; a string makes the parameter a ratio.
        check: How to check a value; by default for a ratio or a number of records.
        default: The field's default, if it has one.
    """
    by_example: kinds.Check = ratio if isinstance(example, str) else optional
    return kinds.parameter(help, check or by_example, example, **default)


def register(schedule: type[S]) -> type[S]:
    """Register a schedule (a class decorator); its certificate must be proved."""
    SCHEDULES[schedule.kind] = schedule
    return schedule


def build(kind: str, given: Mapping[str, Any]) -> Schedule:
    """Build a schedule from its parameters; refuse unknown and missing ones.

    >>> build("independent", {"step": 1024})
    Independent(step=1024)
    """
    return kinds.build(SCHEDULES, kind, given)


def alone() -> dict[str, type[Schedule]]:
    """The schedules that can run on a single stream."""
    return {kind: each for kind, each in SCHEDULES.items() if each.alone}


def sources() -> dict[str, type[Schedule]]:
    """The schedules that can make the source models of a `TwoStream`."""
    return {kind: each for kind, each in SCHEDULES.items() if each.source}
