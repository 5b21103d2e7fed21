"""[source]: where records come from. The keys are the parameters of its type."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.kinds import checks_of, parameters, values_of
from tidegate.run.config.keys import (
    ConfigError,
    KindTable,
    key,
    one_of_kinds,
    read_keys,
    read_table,
)
from tidegate.sources.configured import (
    ConfiguredSource,
    own_kinds,
    source_kind,
    source_kinds,
    source_types,
)

INSTALLED = one_of_kinds(source_types)
"""Checks that a value is an installed type of source."""


@dataclass(frozen=True, kw_only=True)
class SourceTable(KindTable):
    """[source]: a source by its type."""

    type: str = key(INSTALLED, "what is read, see docs/sources.md")

    def build(self) -> ConfiguredSource:
        """The source; `opened` makes it readable."""
        return source_kind(self.type)(**self.parameters)


def one_source(path: str, given: object) -> SourceTable:
    """Read the table, and report every mistake with the path of its key."""
    if not isinstance(given, Mapping) or "type" not in given:
        checks = checks_of({"": SourceTable, **source_kinds()}, None)  # one of them is meant
        return read_keys(path, given, checks, {"type"}, _table_of_type)
    kind = source_kind(INSTALLED(f"{path}.type", given["type"]))
    _check_keys(path, given, kind)
    checks = checks_of({"": SourceTable, kind.type: kind}, None)
    required = {each.name for each in parameters(kind) if each.required}
    return read_keys(path, given, checks, required, _table_of_type)


def _check_keys(path: str, given: Mapping[str, Any], kind: type[ConfiguredSource]) -> None:
    """Refuse keys that only other types have, and say so."""
    mistakes = []
    for name in given.keys() - {"type"} - key_names(kind):
        if others := [each for each, one in source_kinds().items() if name in key_names(one)]:
            told = f"{path}.{name} is a key of {', '.join(others)}, not of {kind.type}: remove it"
            mistakes.append(told)
    if mistakes:
        raise ConfigError(mistakes)


def key_names(kind: type[ConfiguredSource]) -> set[str]:
    """The keys of a type of source, besides the type."""
    return {each.name for each in parameters(kind)}


def _table_of_type(type: str, **given: Any) -> SourceTable:  # noqa: A002 (the name of the key)
    return SourceTable(type=type, parameters=values_of(source_kind(type)(**given)))


@dataclass(frozen=True, kw_only=True)
class TwoSources:
    """[source.source] and [source.target]: where the records of two streams come from."""

    source: SourceTable = key(one_source, "of the source stream")
    target: SourceTable = key(one_source, "of the target stream")


def one_or_two(name: str, value: object) -> SourceTable | TwoSources:
    """The source of one stream, or of two."""
    if isinstance(value, Mapping) and not {"source", "target"}.isdisjoint(value):
        return read_table(TwoSources, name, value)
    return one_source(name, value)


def with_installed_sources(given: Any) -> Any:
    """The tables of a state's JSON text, without a source of a type that is not installed.

    A state can be read, verified and served without the program that once brought its records.
    """
    source = given.get("source") if isinstance(given, dict) else None
    tables = (source, *source.values()) if isinstance(source, dict) else ()
    types = {each["type"] for each in tables if isinstance(each, dict) and "type" in each}
    if types <= {*own_kinds()} or types <= {*source_types()}:
        return given
    return {name: table for name, table in given.items() if name != "source"}
