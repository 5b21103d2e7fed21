"""Kinds of a thing: the parameters that each has, and how one is made of those that were given.

Schedules, losses, learners and feature maps are registered by name. What users are told about a
kind and its parameters stands in its own file; tables and commands read it from here.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, field, fields
from typing import Any, NamedTuple, TypeVar

from tidegate.checks import InvalidValueError

Made = TypeVar("Made")

Check = Callable[[str, Any], Any]
"""How a value is checked: (what to call it, the value) -> the value to keep."""


class Parameter(NamedTuple):
    """What users are told about a parameter of a kind.

    Attributes:
        help: What it is, in a few words.
        check: How a value of it is checked.
        example: What `tidegate init` writes; None to leave it out.
        name: What it is called, in Python, TOML and on the command line.
        required: Whether it must be given.
        default: What it is if it is not given and need not be.
        only: The kinds that it is for, if not for all that have it.
    """

    help: str
    check: Check
    example: int | str | None = None
    name: str = ""
    required: bool = False
    default: Any = None
    only: tuple[str, ...] = ()


def parameter(
    help: str,  # noqa: A002
    check: Check,
    example: int | str | None = None,
    **default: Any,
) -> Any:
    """A field of a kind, which is a dataclass; see `Parameter`."""
    return field(metadata={"parameter": Parameter(help, check, example)}, **default)


def parameters(kind: type[Any]) -> Iterator[Parameter]:
    """The parameters of a kind, in their order.

    >>> from tidegate.schedule import SlidingWindow
    >>> [each.name for each in parameters(SlidingWindow)]
    ['window', 'step', 'sample']
    """
    for each in fields(kind):
        if "parameter" in each.metadata:
            stated: Parameter = each.metadata["parameter"]
            required = each.default is MISSING
            default = None if required else each.default
            yield stated._replace(name=each.name, required=required, default=default)


def build(kinds: Mapping[str, Callable[..., Made]], kind: str, given: Mapping[str, Any]) -> Made:
    """An object of a kind from what was given: all that it needs, nothing that it does not know.

    >>> from tidegate.schedule import Independent
    >>> build({"independent": Independent}, "independent", {"step": 1024})
    Independent(step=1024)
    """
    own = inspect.signature(kinds[kind]).parameters
    for name in given:
        if name not in own:
            names = ", ".join(own) or "none"
            raise InvalidValueError(f"{name} is not a key of {kind}: it has {names}")
    for name, each in own.items():
        if each.default is each.empty and name not in given:
            raise InvalidValueError(f"{name} is missing: {kind} needs it")
    return kinds[kind](**given)


def values_of(made: Any) -> dict[str, Any]:
    """The parameters of a thing that have a value, also those that were not given.

    >>> from tidegate.schedule import SlidingWindow
    >>> values_of(SlidingWindow(window=70, step=10))
    {'window': 70, 'step': 10}
    """
    values = {each.name: getattr(made, each.name) for each in parameters(type(made))}
    return {name: value for name, value in values.items() if value is not None}


def checks_of(kinds: Mapping[str, type[Any]], chosen: object) -> dict[str, Check]:
    """How the keys of all kinds are checked; one that several have, as the chosen kind has it."""
    last: Iterable[type[Any]] = [kinds[chosen]] if chosen in [*kinds] else []
    return {each.name: each.check for kind in (*kinds.values(), *last) for each in parameters(kind)}
