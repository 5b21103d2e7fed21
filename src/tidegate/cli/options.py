"""Options that many commands have, and the one way results are shown."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from tidegate.cli.types import PATH

TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)")
"""How a time in UTC starts; tables show no more of it."""

HEADINGS = {"in_open_step": "waiting"}
"""Headings of columns that are not made of their key's words."""

form = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="For people, or for programs: a line of JSON each.",
)
weak_delta = click.option(
    "--weak-delta", is_flag=True, help="Confirm a delta above 0.001, which hardly protects."
)
quiet = click.option("--quiet", is_flag=True, help="Say nothing but errors.")
state = click.argument("state", type=PATH)


def progress(text: str, quiet: bool, form: str) -> Progress:
    """A line on a terminal that says how far long work is, and vanishes with it."""
    console = Console(stderr=True)
    hidden = quiet or form == "json" or not console.is_terminal
    columns = (SpinnerColumn(), TextColumn(text), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=hidden)


def lean_table(title: str | None = None) -> Table:
    """A table that leaves as much of a line as it can to what it holds."""
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
    """Print rows, all with the same keys, as a table for people or as a line of JSON each.

    A table has a title above it, and `empty` in place of no rows. Where a line is too short, the
    column `folded` alone makes room, by taking several.
    """
    if form == "json":
        for row in rows:
            click.echo(json.dumps(row))
        return
    table = lean_table(title)
    for index, row in enumerate(rows):
        if index == 0:
            for name in row:
                head = HEADINGS.get(name, name.replace("_", "\n"))
                if name == folded:
                    table.add_column(head, overflow="fold")
                else:
                    table.add_column(head, justify="right", no_wrap=folded is not None)
        table.add_row(*(_text(value) for value in row.values()))
    Console(highlight=False).print(table if table.columns else f"[dim]{empty}[/]")


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
    return " ".join(time.groups()) if time else str(value)
