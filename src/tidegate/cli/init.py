"""`tidegate init`: write a configuration to start from."""

import json
from pathlib import Path

import click

from tidegate.checks import InvalidValueError
from tidegate.cli import options
from tidegate.cli.types import PATH, Kind, kinds_text
from tidegate.gate.config import example

EPILOG = """\b
Examples:
  tidegate init                            tidegate.toml, for a sliding window
  tidegate init continual --output a.toml
"""


HELP = f"""Write a commented configuration; edit it to describe your records.

KIND is {kinds_text()}.
"""


@click.command(epilog=EPILOG, help=HELP)
@click.argument("kind", type=Kind(), default="sliding", metavar="[KIND]")
@click.option(
    "--output",
    type=PATH,
    default=Path("tidegate.toml"),
    show_default=True,
    help="File to write; it must not exist yet.",
)
@options.form
def init(kind: str, output: Path, form: str) -> None:
    """Write the configuration of a kind of schedule."""
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(example(kind))
    except FileExistsError:
        raise InvalidValueError(f"{output} exists already; use --output NAME") from None
    if form == "json":
        click.echo(json.dumps({"file": str(output), "kind": kind}))
    else:
        click.echo(f"Wrote {output}. Edit it to describe your records, then: tidegate run {output}")
