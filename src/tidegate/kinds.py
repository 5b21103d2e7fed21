"""The parameters of kinds (schedules, losses, learners, feature maps), and how to build one.

Kinds are registered by name. Each declares its parameters, with their help, in its own file;
configuration tables and commands read them through this module.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, field, fields
from typing import Any, NamedTuple, TypeVar

from tidegate.checks import InvalidValueError

Made = TypeVar("Made")

Check = Callable[[str, Any], Any]
"""Checks a value: (its name, the value) -> the value to keep."""


FIXED, CHANGEABLE = "fixed when the state is created", "not fixed"
"""Whether a setting may change during the life of a state."""


class Parameter(NamedTuple):
    """A parameter of a kind.

    Attributes:
        help: What it is, in a few words.
        check: Checks a value of it.
        example: The value that `tidegate init` writes; None to leave it out.
        name: Its name in Python, in TOML and on the command line.
        required: Whether it must be given.
        default: Its value if it is not given.
        only: The kinds that it is for; empty for all.
        life: `FIXED` if privacy depends on it, so that a state keeps it; else `CHANGEABLE`.
        new: What a new state has if it is left out, given the configuration; an existing state
            keeps its own. None for a key that means its default.
        earlier: What it is in a state of a version that did not have it; `new` must be given.
    """

    help: str
    check: Check
    example: int | str | None = None
    name: str = ""
    required: bool = False
    default: Any = None
    only: tuple[str, ...] = ()
    life: str = FIXED
    new: Callable[[Any], Any] | None = None
    earlier: Any = None


def parameter(
    help: str,  # noqa: A002
    check: Check,
    example: int | str | None = None,
    **default: Any,
) -> Any:
    """Declare a parameter as a field of a kind, which is a dataclass; see `Parameter`."""
    return field(metadata={"parameter": Parameter(help, check, example)}, **default)


def parameters(kind: type[Any]) -> Iterator[Parameter]:
    """The parameters of a kind, in their order.

    >>> from tidegate.schedule import SlidingWindow
    >>> [each.name for each in parameters(SlidingWindow)]
    ['window', 'step', 'sample', 'refit']
    """
    for each in fields(kind):
        if "parameter" in each.metadata:
            declared: Parameter = each.metadata["parameter"]
            required = each.default is MISSING
            default = None if required else each.default
            yield declared._replace(name=each.name, required=required, default=default)


def build(kinds: Mapping[str, Callable[..., Made]], kind: str, given: Mapping[str, Any]) -> Made:
    """Build an object of a kind; refuse missing and unknown parameters.

    >>> from tidegate.schedule import Independent
    >>> build({"independent": Independent}, "independent", {"step": 1024})
    Independent(step=1024)
    """
    own = inspect.signature(kinds[kind]).parameters
    for name in given:
        if name not in own:
            names = ", ".join(own) or "none"
            others = ", ".join(kinds_with(kinds, name))
            where = f"; {name} is a key of {others}" if others else ""
            raise InvalidValueError(f"{name} is not a key of {kind}: it has {names}{where}")
    for name, each in own.items():
        if each.default is each.empty and name not in given:
            raise InvalidValueError(f"{name} is missing: {kind} needs it")
    return kinds[kind](**given)


def kinds_with(kinds: Mapping[str, Callable[..., Any]], name: str) -> list[str]:
    """The kinds that have a parameter.

    >>> from tidegate.schedule import Independent, SlidingWindow
    >>> kinds_with({"independent": Independent, "sliding": SlidingWindow}, "window")
    ['sliding']
    """
    return [kind for kind, each in kinds.items() if name in inspect.signature(each).parameters]


def values_of(made: Any) -> dict[str, Any]:
    """The parameters of an object that have a value, defaults included.

    >>> from tidegate.schedule import SlidingWindow
    >>> values_of(SlidingWindow(window=70, step=10))
    {'window': 70, 'step': 10}
    """
    values = {each.name: getattr(made, each.name) for each in parameters(type(made))}
    return {name: value for name, value in values.items() if value is not None}


def checks_of(kinds: Mapping[str, type[Any]], chosen: object) -> dict[str, Check]:
    """The checks of all kinds' keys; if several kinds have a key, that of the chosen kind."""
    last: Iterable[type[Any]] = [kinds[chosen]] if chosen in [*kinds] else []
    return {each.name: each.check for kind in (*kinds.values(), *last) for each in parameters(kind)}
