"""Option types whose refusals name the option, the value and what is allowed."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from tidegate.checks import refuse, whole
from tidegate.picture import PLOT_KINDS


def _name(param: click.Parameter | None) -> str:
    return (param.name if param else None) or "the value"


class Count(click.ParamType[int]):
    """A positive whole number; 1_000_000 is read as well."""

    name = "N"

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
        return whole(_name(param).replace("_", "-"), number)


class Number(click.ParamType[float]):
    """A number; its range is the business of what takes it."""

    name = "X"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,  # noqa: ARG002
    ) -> float:
        """Read the option."""
        try:
            return float(value)
        except ValueError:
            raise refuse(_name(param), "a number", value) from None


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
        try:
            return Fraction(value)
        except (ValueError, ZeroDivisionError):
            raise refuse(_name(param), "a ratio such as 7/10 or 0.7", value) from None


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
        if not path.parent.is_dir():
            raise refuse(_name(param), "a file in a folder that exists", value)
        return path
