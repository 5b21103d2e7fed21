"""Configurations as TOML and as JSON text."""

import json
import re
import tomllib
from dataclasses import is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from tidegate.gate.config.keys import ConfigError, KindTable, given_keys
from tidegate.gate.config.placeholders import QUOTED, refused

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
    if (mistake := refused(toml, tables, name)) is not None:
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
    budget = given.get("budget") if isinstance(given, dict) else None
    if not isinstance(budget, dict) or "delta" not in budget:
        return given
    return {**given, "budget": {**budget, "weak_delta": True}}


def plain(value: Any) -> Any:
    """Tables as dictionaries for JSON, without keys that have no value."""
    if isinstance(value, KindTable):
        return plain(value.keys())
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if is_dataclass(value):
        return {name: plain(v) for name, v in given_keys(value, *CONFIRMATIONS).items()}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, Fraction) else value


def canonical(value: Any) -> str:
    """A value as JSON text, always the same for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
