"""Option types whose errors name the option, the value and what is allowed."""

import math
import os
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from tidegate.checks import MAX_COUNT, refuse, whole
from tidegate.picture import PLOT_KINDS
from tidegate.privacy.person import typical_slots
from tidegate.schedule import TwoStream
from tidegate.schedule.protocol import alone

Value = TypeVar("Value")

PATH = click.Path(path_type=Path)


class Kind(click.ParamType[str]):
    """A kind of schedule, or twostream."""

    name = "KIND"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Read the argument."""
        if value not in (kinds := self.kinds()):
            self.fail(f"{value!r} is not one of {', '.join(map(repr, kinds))}.", param, ctx)
        return str(value)

    def kinds(self) -> list[str]:
        """All kinds, by name."""
        return [*alone(), TwoStream.kind]

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """The kinds that start with what was typed."""
        return [CompletionItem(kind) for kind in self.kinds() if kind.startswith(incomplete)]


def kinds_text() -> str:
    """All kinds as a list in words."""
    *some, last = Kind().kinds()
    return f"{', '.join(some)} or {last}"


class Read(click.ParamType[Value]):
    """A type whose values a function reads, or refuses, given the option's name and its text."""

    def __init__(self, name: str, read: Callable[[str, Any], Value]) -> None:
        self.name, self._read = name, read

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,  # noqa: ARG002
    ) -> Value:
        """Read the option."""
        return self._read((param.name if param else None) or "the value", value)


def count(most: int = MAX_COUNT, *, least: int = 1) -> Read[int]:
    """A whole number from `least` to `most`; 1_000_000 is accepted as well."""

    def read(name: str, value: Any) -> int:
        try:
            number: object = int(value)
        except ValueError:
            number = value
        return whole(name.replace("_", "-"), number, least=least, most=most)

    return Read("N", read)


def _number(allowed: str, *, below: float) -> Read[float]:
    """A number above 0; the error quotes it as it was typed."""

    def read(name: str, value: Any) -> float:
        try:
            number = float(value)
        except ValueError:
            raise refuse(name, allowed, value) from None
        if not 0 < number < below:
            raise refuse(name, allowed, shown=str(value))
        return number

    return Read("X", read)


def _ratio(name: str, value: Any) -> Fraction:
    # No exponent: 1e-99999999 would be a ratio of a hundred million digits.
    plain = re.fullmatch(r"[0-9]{1,30}(/0*[1-9][0-9]{0,30}|[.][0-9]{1,30})?", str(value))
    if plain is None:
        raise refuse(name, "a ratio such as 7/10 or 0.7", value)
    return Fraction(value)


def _plot_file(name: str, value: Any) -> Path:
    path = Path(value)
    if path.suffix.lower() not in PLOT_KINDS:
        raise refuse(name, f"a file that ends in {' or '.join(PLOT_KINDS)}", value)
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise refuse(name, "a file in a writable folder", value)
    return path


EPSILON = _number("a finite number above 0", below=math.inf)
DELTA = _number("a number above 0 and below 1", below=1)
RATIO = Read("R", _ratio)
SLOTS = Read("N", lambda _, value: typical_slots(value))
PLOT_FILE = Read("FILE", _plot_file)
