"""[[columns]]: one column of a record. The keys are the parameters of its kind."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from tidegate.checks import InvalidValueError
from tidegate.data.columns import KINDS, Column, column_of
from tidegate.kinds import checks_of, parameters, values_of
from tidegate.run.config.keys import (
    ConfigError,
    KindTable,
    key,
    one_of_kinds,
    read_keys,
    unknown_key,
)


@dataclass(frozen=True, kw_only=True)
class ColumnTable(KindTable):
    """A column by its name and kind."""

    kind: str = key(one_of_kinds(lambda: KINDS), "what its values are")

    def without_folders(self) -> Self:
        """The table with its files by name: a frozen file may move, as long as it is the same."""
        files = [name for name in ("encoder", "tokenizer") if name in self.parameters]
        names = {name: Path(self.parameters[name]).name for name in files}
        return replace(self, parameters={**self.parameters, **names})

    def build(self, spelling: int) -> Column:
        """The column, whose values are spelled by a rule."""
        return column_of({"kind": self.kind, **self.parameters}, spelling)


def column_table(path: str, given: object) -> ColumnTable:
    """Read the table, and report every mistake with the path of its key."""
    named = given.get("kind") if isinstance(given, Mapping) else None
    chosen = named if isinstance(named, str) and named in KINDS else None
    kinds = KINDS if chosen is None else {chosen: KINDS[chosen]}
    checks = {**checks_of({"": ColumnTable}, None), **checks_of(kinds, chosen)}
    required = {"kind", "name"}
    if chosen is not None:
        required |= {each.name for each in parameters(KINDS[chosen]) if each.required}
        _check_keys(path, given, chosen, list(checks))
    elif isinstance(given, Mapping):  # what its other keys must be depends on the kind
        given = {name: value for name, value in given.items() if name in required}
    return read_keys(path, given, checks, required, partial(_table_of_kind, path))


def _check_keys(path: str, given: object, kind: str, allowed: list[str]) -> None:
    """Refuse keys of another kind of column, and say so."""
    names = given if isinstance(given, Mapping) else ()
    others = {each.name for kind in KINDS.values() for each in parameters(kind)}
    mistakes = [
        f"{path}.{name} is not a key of a {kind} column: it has {', '.join(allowed)}"
        if name in others
        else unknown_key(f"{path}.", name, allowed)
        for name in names
        if name not in allowed
    ]
    if mistakes:
        raise ConfigError(mistakes)


def _table_of_kind(path: str, kind: str, **given: Any) -> ColumnTable:
    try:
        built = column_of({"kind": kind, **given}, spelling=1)  # [records] may say so
    except InvalidValueError as error:
        raise ConfigError([f"{path}, {error}"]) from error
    return ColumnTable(kind=kind, parameters=values_of(built))
