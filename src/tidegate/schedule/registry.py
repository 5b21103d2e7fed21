"""All schedules, by their kind. What is known about one stands in its own file.

Plans, certificates, the configuration, the command line and the tests' strategies read it here.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from tidegate import kinds
from tidegate.checks import optional, ratio
from tidegate.schedule.protocol import Schedule

S = TypeVar("S", bound=Schedule)

SCHEDULES: dict[str, type[Schedule]] = {}
"""Every schedule of one stream that a certificate is proved for."""


def parameter(help: str, example: int | str | None = None, **default: Any) -> Any:  # noqa: A002
    """A field of a schedule's dataclass, with what users are told about it.

    Args:
        help: What it is, in a few words.
        example: What `tidegate init` writes for it: a text stands for a ratio.
        default: The field's default, if it has one.
    """
    check: kinds.Check = ratio if isinstance(example, str) else optional
    return kinds.parameter(help, check, example, **default)


def register(schedule: type[S]) -> type[S]:
    """Add a schedule to those that there are; its certificate must be proved."""
    SCHEDULES[schedule.kind] = schedule
    return schedule


def build(kind: str, given: Mapping[str, Any]) -> Schedule:
    """A schedule from what was given: all that it needs, nothing that it does not know.

    >>> build("independent", {"step": 1024})
    Independent(step=1024)
    """
    return kinds.build(SCHEDULES, kind, given)


def alone() -> dict[str, type[Schedule]]:
    """The schedules that serve a stream by themselves."""
    return {kind: each for kind, each in SCHEDULES.items() if each.alone}


def sources() -> dict[str, type[Schedule]]:
    """The schedules that may make the source models of two streams."""
    return {kind: each for kind, each in SCHEDULES.items() if each.source}
