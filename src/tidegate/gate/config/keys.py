"""How the tables of a configuration are read: every mistake is found, and named by its key."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, TypeVar

from tidegate.checks import MAX_COUNT, InvalidValueError, positive, refuse, whole
from tidegate.kinds import Check, Parameter, checks_of, parameters

Table = TypeVar("Table")


class ConfigError(InvalidValueError):
    """A configuration is not valid; the message has a line for each mistake."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(self.mistakes))


def key(
    check: Check,
    help: str,  # noqa: A002
    *,
    only: tuple[str, ...] = (),
    **default: Any,
) -> Any:
    """A key of a table, see `Parameter`; without a default it must be given."""
    return field(metadata={"parameter": Parameter(help, check, only=only)}, **default)


def one_of(*allowed: str) -> Check:
    """One of some words."""

    def check(name: str, value: object) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise refuse(name, f"one of {', '.join(allowed)}", value)
        return value

    return check


def one_of_kinds(kinds: Callable[[], Iterable[str]]) -> Check:
    """One of the kinds that are registered when a value is checked."""

    def check(name: str, value: object) -> Any:
        return one_of(*kinds())(name, value)

    return check


def word(name: str, value: object) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise refuse(name, "a text", value)
    return value


def zero_or_more(name: str, value: object) -> float:
    """A finite number that is not below 0."""
    if value == 0 and not isinstance(value, bool):
        return 0.0
    try:
        return positive(name, value)
    except InvalidValueError:
        raise refuse(name, "a finite number, 0 or more", value) from None


def flag(name: str, value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise refuse(name, "true or false", value)
    return value


def words(name: str, value: object) -> tuple[str, ...]:
    """A list of different texts, at least one."""
    named = isinstance(value, list | tuple) and all(isinstance(v, str) and v for v in value)
    if not isinstance(value, list | tuple) or not named or not value:
        raise refuse(name, "a list of one or more texts", value)
    if len(set(value)) != len(value):
        raise refuse(name, "a list without repeats", value)
    return tuple(value)


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


def table(kind: type[Table]) -> Check:
    """A table of its own."""
    return lambda name, value: read_table(kind, name, value)


def tables(read: Check) -> Check:
    """A list of tables, each read by itself."""

    def check(name: str, value: object) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise refuse(name, f"a list of tables, each headed [[{name}]]", value)
        return tuple(read(f"{name}[{i}]", each) for i, each in enumerate(value))

    return check


def read_table(kind: type[Table], path: str, given: object) -> Table:
    """A table whose keys are the fields of a dataclass."""
    required = {each.name for each in parameters(kind) if each.required}
    return read_keys(path, given, checks_of({"": kind}, None), required, kind)


def read_keys(
    path: str,
    given: object,
    checks: Mapping[str, Check],
    required: Collection[str],
    make: Callable[..., Table],
) -> Table:
    """A table made of the keys that are given; all mistakes are found, each with its key's path."""
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
                mistakes.append(f"{prefix}{name} is missing")
        except ConfigError as error:
            mistakes.extend(error.mistakes)
        except InvalidValueError as error:
            mistakes.append(str(error))
    if mistakes:
        raise ConfigError(mistakes)
    try:
        return make(**values)
    except ConfigError:  # one of the whole: its keys have their paths already
        raise
    except InvalidValueError as error:
        raise ConfigError([f"{prefix}{error}"]) from error


def unknown_key(prefix: str, name: str, known: list[str]) -> str:
    """What to say of a key that a table does not have."""
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {prefix}{near[0]}?" if near else f"known are {', '.join(known)}"
    return f"{prefix}{name} is not a known key: {hint}"


@dataclass(frozen=True, kw_only=True)
class KindTable:
    """A table whose keys depend on the kind of thing that it describes.

    It keeps parameters that were not given too: another version may have another default.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)

    def keys(self) -> dict[str, Any]:
        """What stands in the table, with what was left open filled in."""
        return {**given_keys(self, "parameters"), **self.parameters}


def given_keys(keys: Any, *without: str) -> dict[str, Any]:
    """The keys of a table that have a value."""
    values = {each.name: getattr(keys, each.name) for each in fields(keys)}
    return {name: v for name, v in values.items() if v is not None and name not in without}
