"""In which keys two configurations differ."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.checks import json_of

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
    return "" if name is None else f" ({name})"


def _leaves(value: Any, path: str = "") -> Iterable[tuple[str, str]]:
    """The paths of all values; a list is one value, except a list of tables."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, each in enumerate(value):
            yield from _leaves(each, f"{path}[{index}]")
    else:
        yield path, json.dumps(value)
