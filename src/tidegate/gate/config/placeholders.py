"""What `tidegate init` leaves open in a configuration: a "?" that every command refuses."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.features.columns import KINDS

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
    where = name if line is None else f"{name}, line {line}"
    more = f"; {count - 1:,} more of these follow" if count > 1 else ""
    return f'{where}: {what} is not chosen yet: replace "{PLACEHOLDER}" by {CHOICES[key]}{more}'


def _open(tables: Mapping[str, Any], placeholder: str) -> Iterator[tuple[str, str]]:
    """What is still open, each with its key; a fleet's members may have such tables, too."""
    for name, table in tables.items():
        if name == "columns" and isinstance(table, list):
            for column in table:
                yield from _open_in(column, placeholder)
        elif isinstance(table, Mapping):
            if name == "records" and table.get("classes") == placeholder:
                yield "records.classes", "classes"
            yield from _open(table, placeholder)


def _open_in(column: object, placeholder: str) -> Iterator[tuple[str, str]]:
    if isinstance(column, Mapping):
        of = f" of column {column['name']}" if isinstance(column.get("name"), str) else ""
        for key in CHOICES:
            if column.get(key) == placeholder:
                yield f"{'the kind' if key == 'kind' else key}{of or ' of a column'}", key


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
