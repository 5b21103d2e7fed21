"""Options that commands share, and how results are printed."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import click
from rich import box
from rich.cells import cell_len
from rich.console import OverflowMethod
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tidegate.checks import refuse
from tidegate.cli.screen import Screen, one_line
from tidegate.cli.types import PATH

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


def progress(text: str, quiet: bool, form: str) -> Progress:
    """A progress line on the terminal, which disappears when the work is done."""
    console = Screen(stderr=True)
    hidden = quiet or form == "json" or not console.is_terminal
    columns = (SpinnerColumn(), TextColumn(text, markup=False), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=hidden)


def say(line: str, *, err: bool = False) -> None:
    """Print one line, whatever is quoted in it."""
    click.echo(one_line(line), err=err)


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
    folded: str | None = None,
) -> None:
    """Print rows, all with the same keys, as a table or as JSON lines.

    Args:
        rows: What to print.
        form: "table" or "json".
        title: Stands above the table.
        empty: Printed instead of a table without rows.
        folded: The column that wraps at any character if the terminal is too narrow; None if all
            may wrap. Beside columns of `WORDS`, which wrap at words, it has 2/5 of the terminal.
    """
    if form == "json":
        for row in rows:
            click.echo(json.dumps(row))
        return
    table, screen, listed = lean_table(title), Screen(), list(rows)
    for name in listed[0] if listed else ():
        head = HEADINGS.get(name, one_line(name).replace("_", "\n"))
        if name == folded:
            widest = max(cell_len(_text(row[name])) for row in listed)
            room = None if WORDS.isdisjoint(listed[0]) else screen.width * 2 // 5
            width = None if room is None else max(min(widest, room), cell_len(head))
            table.add_column(head, overflow="fold", width=width)
        else:
            overflow: OverflowMethod = "fold" if name in WORDS else "ellipsis"
            whole = folded is not None and name not in WORDS
            table.add_column(head, justify="right", no_wrap=whole, overflow=overflow)
    for row in listed:
        table.add_row(*(_text(value) for value in row.values()))
    screen.print(table if listed else Text(empty, style="dim"))


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    time = TIME.match(str(value))
    return " ".join(time.groups()) if time else one_line(str(value))
