"""In which keys two configurations differ."""

import json
from collections.abc import Iterable
from typing import Any

FILE = " (a file of the encoder changed: restore the one with the SHA-256 before)"


def differences(old: str, new: str) -> list[str]:
    """The keys in which two configurations differ, from their JSON texts.

    >>> differences('{"budget":{"epsilon":1.0}}', '{"budget":{"epsilon":2.0,"delta":1e-6}}')
    ['budget.delta: absent before, now 1e-06', 'budget.epsilon: 1.0 before, now 2.0']
    """
    before, after = dict(_leaves(json.loads(old))), dict(_leaves(json.loads(new)))
    changed = sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )
    return [
        f"{path}: {before.get(path, 'absent')} before, now {after.get(path, 'absent')}"
        f"{FILE if path.endswith('.digest') else ''}"
        for path in changed
    ]


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
