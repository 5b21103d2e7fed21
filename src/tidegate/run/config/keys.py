"""Readers of configuration tables, which report every mistake with the path of its key."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, Self, TypeVar

from tidegate.checks import (
    MAX_COUNT,
    InvalidValueError,
    one_of,
    positive,
    real,
    refuse,
    shortened,
    whole,
)
from tidegate.data.predicted import Target
from tidegate.kinds import FIXED, Check, Parameter, checks_of, parameters

Table = TypeVar("Table")

WORD = re.compile(r"\w+")

MAX_MISTAKES = 50
"""The most mistakes that a message lists."""

REFERENCE = "docs/reference/configuration.md"


class ConfigError(InvalidValueError):
    """A configuration is not valid; the message has one line for each of the first mistakes."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        more = len(self.mistakes) - MAX_MISTAKES
        rest = [f"{more:,} more mistakes follow"] if more > 0 else []
        super().__init__("\n".join([*self.mistakes[:MAX_MISTAKES], *rest]))


def key(  # noqa: PLR0913 (all that is to say about a key)
    check: Check,
    help: str,  # noqa: A002
    *,
    only: tuple[str, ...] = (),
    life: str = FIXED,
    new: Callable[[Any], Any] | None = None,
    earlier: Any = None,
    **default: Any,
) -> Any:
    """A key of a table (see `Parameter`); it is required unless it has a default."""
    declared = Parameter(help, check, only=only, life=life, new=new, earlier=earlier)
    return field(metadata={"parameter": declared}, **default)


def one_of_kinds(kinds: Callable[[], Iterable[str]]) -> Check:
    """A check that a value is one of the kinds registered at that time."""

    def check(name: str, value: object) -> Any:
        return one_of(*kinds())(name, value)

    return check


def zero_or_more(name: str, value: object) -> float:
    """A finite number, 0 or more."""
    if value == 0 and not isinstance(value, bool):
        return 0.0
    try:
        return positive(name, value)
    except InvalidValueError:
        raise refuse(name, "a finite number, 0 or more", value) from None


def labels(name: str, value: object) -> tuple[int, ...] | tuple[str, ...]:
    """Two or more different labels, all texts or all whole numbers."""
    allowed = "a list of two or more different labels, all texts or all whole numbers"
    if not isinstance(value, list | tuple) or len(value) < 2:
        raise refuse(name, allowed, value)
    alike = any(all(type(label) is kind for label in value) for kind in (int, str))
    if not alike or len(set(value)) != len(value):
        raise refuse(name, allowed, value)
    for label in value:
        if isinstance(label, int):
            whole(name, label, least=-MAX_COUNT)
    return tuple(value)


def ascending(name: str, value: object) -> tuple[float, ...]:
    """One or more finite numbers, each larger than the one before."""
    allowed = "a list of one or more numbers, each larger than the one before"
    if not isinstance(value, list | tuple) or not value:
        raise refuse(name, allowed, value)
    if any(isinstance(each, bool) or not isinstance(each, int | float) for each in value):
        raise refuse(name, allowed, value)
    numbers = tuple(map(real, value))
    if not all(map(math.isfinite, numbers)) or any(a >= b for a, b in pairwise(numbers)):
        raise refuse(name, allowed, value)
    return numbers


def number_range(name: str, value: object) -> tuple[float, float]:
    """Two finite numbers, the lower one first."""
    given = isinstance(value, list | tuple) and all(type(end) in (int, float) for end in value)
    try:
        target = Target.of(value if given else None)
    except InvalidValueError:
        allowed = "two finite numbers, [low, high], low below high"
        raise refuse(name, allowed, value) from None
    return target.low, target.high


def table(kind: type[Table]) -> Check:
    """A check that a value is a table of a kind."""
    return lambda name, value: read_table(kind, name, value)


def tables(read: Check) -> Check:
    """A check that a value is a list of tables, each read by `read`."""

    def check(name: str, value: object) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise refuse(name, f"a list of tables, each headed [[{name}]]", value)
        return tuple(read(f"{name}[{i}]", each) for i, each in enumerate(value))

    return check


def read_table(kind: type[Table], path: str, given: object) -> Table:
    """Read a table whose keys are the fields of a dataclass."""
    required = {each.name for each in parameters(kind) if each.required}
    return read_keys(path, given, checks_of({"": kind}, None), required, kind)


def read_keys(
    path: str,
    given: object,
    checks: Mapping[str, Check],
    required: Collection[str],
    make: Callable[..., Table],
) -> Table:
    """Check the given keys and make a table of them; report every mistake with its key's path."""
    if not isinstance(given, Mapping):
        raise refuse(path, f"a table, headed [{path}]", given)
    prefix = f"{path}." if path else ""
    mistakes = [unknown_key(prefix, name, list(checks)) for name in given if name not in checks]
    values: dict[str, Any] = {}
    for name, check in checks.items():
        try:
            if name in given:
                values[name] = check(prefix + name, given[name])
            elif name in required:
                mistakes.append(f"{prefix}{name} is missing: add it, see {REFERENCE}")
        except ConfigError as error:
            mistakes.extend(error.mistakes)
        except InvalidValueError as error:
            mistakes.append(str(error))
    if mistakes:
        raise ConfigError(mistakes)
    try:
        return make(**values)
    except ConfigError:  # its keys already have their paths
        raise
    except InvalidValueError as error:
        about_key = bool((first := WORD.match(str(error))) and first[0] in checks)
        where = prefix if about_key or not path else f"{path}: "
        raise ConfigError([f"{where}{error}"]) from error


def mistakes_of(checks: Mapping[str, Callable[[], object]]) -> Iterator[str]:
    """The mistakes that checks find, each with the path of what was checked."""
    for place, check in checks.items():
        try:
            check()
        except InvalidValueError as error:
            yield f"{place}.{error}"


def unknown_key(prefix: str, name: str, allowed: list[str]) -> str:
    """The error for a key that a table does not have."""
    given = shortened(name, 60)
    near = get_close_matches(given, allowed, n=1)
    hint = f"did you mean {prefix}{near[0]}?" if near else f"allowed are {', '.join(allowed)}"
    return f"{prefix}{given} is not a known key: {hint}"


@dataclass(frozen=True, kw_only=True)
class KindTable:
    """A table whose keys depend on the kind of thing that it describes.

    It also keeps the default values: they may differ in another version.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)

    def keys(self) -> dict[str, Any]:
        """The keys and values of the table, defaults included."""
        return {**given_keys(self, "parameters"), **self.parameters}

    def without_folders(self) -> Self:
        """The table with its files by name: a frozen file may move, as long as it is the same."""
        return self


def given_keys(keys: Any, *without: str) -> dict[str, Any]:
    """The keys of a table that have a value."""
    values = {each.name: getattr(keys, each.name) for each in fields(keys)}
    return {name: v for name, v in values.items() if v is not None and name not in without}


def refuse_both(given: Mapping[str, Any], name: str, other: str) -> None:
    """Refuse two keys of [records] of which only one can be meant."""
    if {name, other} <= given.keys():
        raise InvalidValueError(f"{name} must not be given with records.{other}: remove one")


def keys_left_out(table: object) -> list[Parameter]:
    """The keys of a table that are left out and that a state fixes all the same."""
    if not is_dataclass(table):
        return []
    declared = (each for each in parameters(type(table)) if each.new)
    return [each for each in declared if getattr(table, each.name) is None]
