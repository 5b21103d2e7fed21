"""Options that commands share, their types, and how results are printed.

Errors name the option, the value and what is allowed.
"""

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import click
from rich import box
from rich.cells import cell_len
from rich.console import OverflowMethod
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tidegate.checks import MAX_COUNT, InvalidValueError, refuse, whole
from tidegate.cli.screen import Screen, one_line
from tidegate.picture import PLOT_KINDS
from tidegate.privacy.person import typical_slots
from tidegate.schedule import TwoStream
from tidegate.schedule.protocol import alone

Value = TypeVar("Value")

PATH = click.Path(path_type=Path)


TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)")
"""The date and minute of a time in UTC: all that tables show of it."""

HEADINGS = {"in_open_step": "waiting"}
"""Headings of columns that are not made of their key's words."""

WORDS = {"type", "read_as"}
"""Columns of words, which wrap in a narrow terminal, so that names beside them stay whole."""

form = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Table for people, or JSON lines for programs.",
)

weak_delta = click.option(
    "--weak-delta", is_flag=True, help="Allow a delta above 0.001, which protects little."
)

aliases = click.option(
    "--column",
    "aliases",
    multiple=True,
    metavar="NAME=NAME_IN_FILE",
    help="The name of a column in FILE, if it differs; repeat for each.",
)

quiet = click.option("--quiet", is_flag=True, help="Print errors only.")

state = click.argument("state", type=PATH)

MAX_ID_BYTES = 2**20
"""The most bytes of an id that are read from standard input."""


# --- types


class Kind(click.Choice[str]):
    """A kind of schedule, or twostream."""

    def __init__(self) -> None:
        super().__init__([*alone(), TwoStream.kind])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Read the argument; a schedule may have been registered since the command was loaded."""
        self.choices = (*alone(), TwoStream.kind)
        return super().convert(value, param, ctx)

    def get_missing_message(
        self,
        param: click.Parameter,  # noqa: ARG002
        ctx: click.Context | None,  # noqa: ARG002
    ) -> str:
        """Nothing: the help lists the kinds."""
        return ""


def kinds_text() -> str:
    """All kinds as a list in words."""
    *some, last = Kind().choices
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
    if not plain:
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


def pairs(aliases: Iterable[str]) -> dict[str, str]:
    """The values of --column, each NAME=NAME_IN_FILE.

    >>> pairs(["age=Alter", "ward=a=b"])
    {'age': 'Alter', 'ward': 'a=b'}
    """
    made: dict[str, str] = {}
    for each in aliases:
        name, equals, in_file = each.partition("=")
        if not (name and equals and in_file) or name in made:
            raise refuse("--column", "NAME=NAME_IN_FILE, once for each NAME", each)
        made[name] = in_file
    return made


# --- what is printed


def progress(text: str, quiet: bool, form: str) -> Progress:
    """A progress line on the terminal, which disappears when the work is done."""
    console = Screen(stderr=True)
    hidden = quiet or form == "json" or not console.is_terminal
    columns = (SpinnerColumn(), TextColumn(text, markup=False), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=hidden)


def say(line: str, *, err: bool = False) -> None:
    """Print one line, whatever is quoted in it."""
    click.echo(one_line(line), err=err)


def answer(row: Mapping[str, Any], form: str, *lines: str) -> None:
    """Print one result: as a JSON line, or in words."""
    if form == "json":
        click.echo(json.dumps(row))
        return
    for line in lines:
        say(line)


def lean_table(title: str | None = None) -> Table:
    """A table with little padding, so that more fits on a line."""
    return Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )


def show(
    rows: Iterable[Mapping[str, Any]],
    form: str,
    *,
    title: str | None = None,
    empty: str = "nothing yet",
    folded: str = "",
) -> None:
    """Print rows, all with the same keys, as a table or as JSON lines.

    Args:
        rows: What to print.
        form: "table" or "json".
        title: Stands above the table.
        empty: Printed instead of a table without rows.
        folded: The column that wraps at any character if the terminal is too narrow; empty if all
            may wrap. Beside columns of `WORDS`, which wrap at words, it has 2/5 of the terminal.
    """
    if form == "json":
        for row in rows:
            click.echo(json.dumps(row))
        return
    table, screen, listed = lean_table(title), Screen(), list(rows)
    for name in listed[0] if listed else ():
        head = HEADINGS.get(name, one_line(name).replace("_", "\n"))
        if name == folded and WORDS.isdisjoint(listed[0]):
            table.add_column(head, overflow="fold")
        elif name == folded:
            widest = max(cell_len(_text(row[name])) for row in listed)
            width = max(min(widest, screen.width * 2 // 5), cell_len(head))
            table.add_column(head, overflow="fold", width=width)
        else:
            overflow: OverflowMethod = "fold" if name in WORDS else "ellipsis"
            whole = bool(folded) and name not in WORDS
            table.add_column(head, justify="right", no_wrap=whole, overflow=overflow)
    for row in listed:
        table.add_row(*(_text(value) for value in row.values()))
    screen.print(table if listed else Text(empty, style="dim"))


def _text(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.4g}"
    time = TIME.match(str(value))
    return " ".join(time.groups()) if time else one_line(str(value))


# --- the id of a person, from standard input, so that no shell history or process list has it


class ReadsId(click.Command):
    """A command whose --person reads an id from standard input; one on the command line is refused.

    The message does not quote it.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See click."""
        named = "--person" in args
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if named and "unexpected extra argument" in error.message:
                advice = "--person reads the id from standard input: --person < id.txt"
                raise click.UsageError(advice, ctx) from None
            raise


def read_id() -> str:
    """The id of a person: one line of standard input, or what is typed without being shown."""
    if sys.stdin.isatty():
        text: str = click.prompt("Id of the person", hide_input=True, err=True)
        return text
    data = sys.stdin.buffer.read(MAX_ID_BYTES + 1)
    line = data.removesuffix(b"\n").removesuffix(b"\r")
    if b"\n" in line:
        raise InvalidValueError("standard input must be the id of one person, on one line")
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise InvalidValueError("the id on standard input must be UTF-8 text") from None
