"""Option types whose refusals name the option, the value and what is allowed."""

import math
import os
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from tidegate.checks import MAX_COUNT, refuse, whole
from tidegate.picture import PLOT_KINDS
from tidegate.schedule import TwoStream
from tidegate.schedule.registry import alone


def _name(param: click.Parameter | None) -> str:
    return (param.name if param else None) or "the value"


class Kind(click.ParamType[str]):
    """A kind of schedule, or twostream."""

    name = "KIND"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str:
        """Read the argument."""
        if value not in (found := self.kinds()):
            self.fail(f"{value!r} is not one of {', '.join(map(repr, found))}.", param, ctx)
        return str(value)

    def kinds(self) -> list[str]:
        """All that there are."""
        return [*alone(), TwoStream.kind]

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Those that begin like what was typed."""
        return [CompletionItem(kind) for kind in self.kinds() if kind.startswith(incomplete)]


def kinds_text() -> str:
    """All kinds, for the help of a command."""
    *some, last = Kind().kinds()
    return f"{', '.join(some)} or {last}"


class Count(click.ParamType[int]):
    """A whole number, positive unless 0 is allowed; 1_000_000 is read as well."""

    name = "N"

    def __init__(self, most: int = MAX_COUNT, *, least: int = 1) -> None:
        self.most, self.least = most, least

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,  # noqa: ARG002
    ) -> int:
        """Read the option."""
        try:
            number: object = int(value)
        except ValueError:
            number = value
        return whole(_name(param).replace("_", "-"), number, least=self.least, most=self.most)


class Number(click.ParamType[float]):
    """A number between two bounds, refused as it was typed."""

    name = "X"

    def __init__(self, allowed: str, *, above: float, below: float) -> None:
        self.allowed, self.above, self.below = allowed, above, below

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,  # noqa: ARG002
    ) -> float:
        """Read the option."""
        try:
            number = float(value)
        except ValueError:
            raise refuse(_name(param), self.allowed, value) from None
        if not self.above < number < self.below:
            raise refuse(_name(param), self.allowed, told=str(value))
        return number


EPSILON = Number("a finite number above 0", above=0, below=math.inf)
DELTA = Number("a number above 0 and below 1", above=0, below=1)


class Ratio(click.ParamType[Fraction]):
    """An exact ratio, such as 7/10 or 0.7."""

    name = "R"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,  # noqa: ARG002
    ) -> Fraction:
        """Read the option."""
        # No exponent: 1e-99999999 would be a ratio of a hundred million digits.
        plain = re.fullmatch(r"[0-9]{1,30}(/0*[1-9][0-9]{0,30}|[.][0-9]{1,30})?", str(value))
        if plain is None:
            raise refuse(_name(param), "a ratio such as 7/10 or 0.7", value)
        return Fraction(value)


class PlotFile(click.ParamType[Path]):
    """A file that a plot can be written to."""

    name = "FILE"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,  # noqa: ARG002
    ) -> Path:
        """Read the option."""
        path = Path(value)
        if path.suffix.lower() not in PLOT_KINDS:
            raise refuse(_name(param), f"a file that ends in {' or '.join(PLOT_KINDS)}", value)
        if path.is_dir() or not os.access(path.parent, os.W_OK):
            raise refuse(_name(param), "a file in a folder that can be written to", value)
        return path
