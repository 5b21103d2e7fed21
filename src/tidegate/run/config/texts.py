"""Configurations as TOML and as JSON text: what a TOML text leaves open, and how two differ."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from tidegate.checks import json_of
from tidegate.data.columns import KINDS
from tidegate.kinds import CHANGEABLE, parameters
from tidegate.run.config.keys import ConfigError, KindTable, given_keys

CONFIRMATIONS = {"weak_delta"}
"""Keys that confirm another key. They are needed once, and no state keeps them."""


MAX_KEY_PARTS = 16
"""The most parts of a dotted key; no key has more than four."""

MAX_FILE_BYTES = 2**24
"""The largest configuration file."""

DOTTED = re.compile(rf"(?<![\w-])[\w-]+(?:[ \t]*\.[ \t]*[\w-]+){{{MAX_KEY_PARTS}}}")
"""A key of too many parts. To parse one takes time and memory that grow with their square."""


def tables_of(toml: str, name: str = "the configuration") -> dict[str, Any]:
    """The tables of a TOML text; refuse one in which something is not chosen yet."""
    if DOTTED.search(QUOTED.sub("_", toml)):
        raise ConfigError([f"{name} is not valid: a key has more than {MAX_KEY_PARTS} parts"])
    try:
        tables = tomllib.loads(toml)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{name} is not valid TOML: {error}; fix the syntax"]) from error
    except ValueError:
        raise ConfigError([f"{name} is not valid: a whole number has too many digits"]) from None
    except RecursionError:
        raise ConfigError([f"{name} is not valid: its lists are nested too deep"]) from None
    if mistake := refused(toml, tables, name):
        raise ConfigError([mistake])
    return tables


def tables_in(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read(MAX_FILE_BYTES + 1)
        if len(text) > MAX_FILE_BYTES:
            raise ConfigError([f"{path} has over {MAX_FILE_BYTES:,} bytes: it is no configuration"])
        return tables_of(text, str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        missing = isinstance(error, FileNotFoundError)
        advice = "tidegate init writes one" if missing else "check its permissions and encoding"
        raise ConfigError([f"{path} cannot be read: {reason}; {advice}"]) from error


def confirmed(given: Any) -> Any:
    """The tables of a JSON text, with the confirmation of delta that it does not keep."""
    match given:
        case {"budget": {"delta": _} as budget}:
            return {**given, "budget": {**budget, "weak_delta": True}}
    return given


def plain(value: Any) -> Any:
    """Tables as dictionaries for JSON, without keys that have no value."""
    match value:
        case KindTable():
            return plain(value.keys())
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case tuple():
            return [plain(each) for each in value]
        case Fraction():
            return str(value)
    return plain(given_keys(value, *CONFIRMATIONS)) if is_dataclass(value) else value


def fixed(value: Any) -> Any:
    """What of a table may not change during the life of a state: no folders, no changeable keys."""
    match value:
        case KindTable():
            return value.without_folders()
        case tuple():
            return tuple(map(fixed, value))
    if not is_dataclass(value):
        return value
    changeable = [each.name for each in parameters(type(value)) if each.life == CHANGEABLE]
    kept = given_keys(value, *CONFIRMATIONS, *changeable)
    return {name: fixed(each) for name, each in kept.items()}


def sorted_json(value: Any) -> str:
    """A value as JSON text with sorted keys: always the same for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


PLACEHOLDER = "?"
"""Stands for what `init` cannot know. No key that it stands for takes this text."""

MORE = "see docs/how-to/describe-columns.md"

CHOICES = {
    "kind": f"{', '.join(KINDS)}, with its keys ({MORE}), or remove the column",
    "low": "the lower end of its public range, never taken from private records",
    "high": "the upper end of its public range, never taken from private records",
    "norm": "the public norm that longer vectors are clipped to",
    "classes": 'the list of all possible labels, such as ["no", "yes"], or use cuts or target',
}
"""What to write in place of a placeholder, by its key."""

QUOTED = re.compile(
    r'"""(?s:\\.|.)*?(?:"""|\Z)|\'\'\'(?s:.)*?(?:\'\'\'|\Z)'
    r'|"(?:\\.|[^"\\\n])*"?|\'[^\'\n]*\'?|#[^\n]*'
)
"""A text in quotes, or a comment."""

KEY = re.compile(rf"(?:{'|'.join(CHOICES)})[\"']?[ \t]*=[ \t]*\Z")
"""A key of `CHOICES` before its value."""

TRIES = 100
"""The most placeholders that are looked at to find one that stands where it counts."""


def refused(toml: str, tables: Mapping[str, Any], name: str) -> str | None:
    """The error for the first placeholder of a TOML text; None if it has none.

    >>> toml = 'columns = [{name = "age", kind = "number", low = "?", high = 110}]'
    >>> print(refused(toml, tomllib.loads(toml), "a.toml"))
    a.toml, line 1: low of column age is not chosen yet: replace "?" by the lower end of its ...
    """
    count = sum(1 for _ in _open(tables, PLACEHOLDER))
    if not count:
        return None
    line, what, key = _first(toml) or (None, *next(_open(tables, PLACEHOLDER)))
    where = f"{name}, line {line}" if line else name
    more = f"; {count - 1:,} more of these follow" if count > 1 else ""
    return f'{where}: {what} is not chosen yet: replace "{PLACEHOLDER}" by {CHOICES[key]}{more}'


def _open(tables: Mapping[str, Any], placeholder: str) -> Iterator[tuple[str, str]]:
    """What is still open, each with its key; a fleet's members may have such tables, too."""
    for name, table in tables.items():
        match table:
            case list() if name == "columns":
                for column in table:
                    yield from _open_in(column, placeholder)
            case dict():
                if name == "records" and table.get("classes") == placeholder:
                    yield "records.classes", "classes"
                yield from _open(table, placeholder)


def _open_in(column: Any, placeholder: str) -> Iterator[tuple[str, str]]:
    match column:
        case {"name": str(name)}:
            of = f" of column {name}"
        case dict():
            of = " of a column"
        case _:
            return
    for key in CHOICES:
        if column.get(key) == placeholder:
            yield f"{'the kind' if key == 'kind' else key}{of}", key


def _first(toml: str) -> tuple[int, str, str] | None:
    """The line of the first placeholder, what it is and its key; None if that is not found.

    A parser keeps no lines. So each is replaced by a text that is nowhere else, and looked up.
    """
    marker = PLACEHOLDER
    while marker in toml:
        marker += PLACEHOLDER
    found = (each for each in QUOTED.finditer(toml) if each[0][1:-1] == PLACEHOLDER)
    likely = (each for each in found if KEY.search(toml, max(0, each.start() - 80), each.start()))
    for each, _ in zip(likely, range(TRIES), strict=False):
        marked = f'{toml[: each.start()]}"{marker}"{toml[each.end() :]}'
        for what, key in _open(tomllib.loads(marked), marker):
            return toml.count("\n", 0, each.start()) + 1, what, key
    return None


FILE = " (a file of the encoder changed: restore the one with the SHA-256 before)"


def differences(old: str, new: str) -> list[str]:
    """The keys in which two configurations differ, from their JSON texts.

    >>> differences('{"budget":{"epsilon":1.0}}', '{"budget":{"epsilon":2.0,"delta":1e-6}}')
    ['budget.delta: absent before, now 1e-06', 'budget.epsilon: 1.0 before, now 2.0']
    >>> columns = '{"columns":[{"name":"age","high":%d}]}'
    >>> differences(columns % 90, columns % 99)
    ['columns[0].high ("age"): 90 before, now 99']
    """
    before, after = dict(_leaves(json_of(old))), dict(_leaves(json_of(new)))
    changed = sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )
    return [
        f"{path}{_named(path, before)}: "
        f"{before.get(path, 'absent')} before, now {after.get(path, 'absent')}"
        f"{FILE if path.endswith('.digest') else ''}"
        for path in changed
    ]


def _named(path: str, before: Mapping[str, str]) -> str:
    """The name of the column that a path is about; empty if it has none."""
    table, _, key = path.rpartition(".")
    name = before.get(f"{table}.name") if table.endswith("]") and key != "name" else None
    return f" ({name})" if name else ""


def _leaves(value: Any, path: str = "") -> Iterable[tuple[str, str]]:
    """The paths of all values; a list is one value, except a list of tables."""
    match value:
        case dict():
            for name, each in value.items():
                yield from _leaves(each, f"{path}.{name}" if path else name)
        case [dict(), *_]:
            for index, each in enumerate(value):
                yield from _leaves(each, f"{path}[{index}]")
        case _:
            yield path, json.dumps(value)
