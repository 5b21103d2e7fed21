"""All schedules, by their kind. What is known about one stands in its own file.

Plans, certificates, the configuration, the command line and the tests' strategies read it here.
"""

from collections.abc import Iterator
from dataclasses import MISSING, field, fields
from typing import Any, NamedTuple, TypeVar

from tidegate.checks import InvalidValueError
from tidegate.schedule.fit import Schedule

S = TypeVar("S", bound=Schedule)

SCHEDULES: dict[str, type[Schedule]] = {}
"""Every schedule of one stream that a certificate is proved for."""


class Parameter(NamedTuple):
    """A parameter of a schedule.

    Attributes:
        name: What it is called, in Python, TOML and on the command line.
        help: What it is, in a few words.
        example: What `tidegate init` writes; None to leave it out.
        ratio: Whether it is a ratio such as 1/16, not a number of records.
        required: Whether it must be given.
    """

    name: str
    help: str
    example: int | str | None
    ratio: bool
    required: bool


def parameter(help: str, example: int | str | None = None, **default: Any) -> Any:  # noqa: A002
    """A field of a schedule's dataclass, with what users are told about it.

    Args:
        help: What it is, in a few words.
        example: What `tidegate init` writes for it: a text stands for a ratio.
        default: The field's default, if it has one.
    """
    return field(metadata={"help": help, "example": example}, **default)


def parameters(schedule: type[Schedule]) -> Iterator[Parameter]:
    """The parameters of a schedule, in their order.

    >>> from tidegate.schedule import SlidingWindow
    >>> [each.name for each in parameters(SlidingWindow)]
    ['window', 'step', 'sample']
    """
    for each in fields(schedule):  # type: ignore[arg-type]  # a protocol cannot say: dataclass
        example = each.metadata["example"]
        yield Parameter(
            each.name,
            each.metadata["help"],
            example,
            isinstance(example, str),
            each.default is MISSING,
        )


def register(schedule: type[S]) -> type[S]:
    """Add a schedule to those that there are; its certificate must be proved."""
    SCHEDULES[schedule.kind] = schedule
    return schedule


def build(kind: str, given: dict[str, Any], *, told: str | None = None) -> Schedule:
    """A schedule from what was given: all that it needs, nothing that it does not know.

    Args:
        kind: One of `SCHEDULES`.
        given: Its parameters, by their names.
        told: What an error calls it, by default its kind.

    >>> build("independent", {"step": 1024})
    Independent(step=1024)
    """
    schedule, name = SCHEDULES[kind], told or kind
    known = {each.name: each for each in parameters(schedule)}
    for key in given:
        if key not in known:
            raise InvalidValueError(f"{key} is not a key of {name}: it has {', '.join(known)}")
    for each in known.values():
        if each.required and each.name not in given:
            raise InvalidValueError(f"{each.name} is missing: {name} needs it")
    return schedule(**given)


def alone() -> dict[str, type[Schedule]]:
    """The schedules that serve a stream by themselves."""
    return {kind: each for kind, each in SCHEDULES.items() if each.alone}


def sources() -> dict[str, type[Schedule]]:
    """The schedules that may make the source models of two streams."""
    return {kind: each for kind, each in SCHEDULES.items() if each.source}
