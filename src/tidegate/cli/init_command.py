"""`tidegate init`: write a configuration to start from."""

import json
from pathlib import Path

import click

from tidegate.checks import InvalidValueError, refuse
from tidegate.cli import options
from tidegate.cli.proposed_columns import propose
from tidegate.cli.types import PATH, Kind, kinds_text
from tidegate.run.config import example
from tidegate.run.config.example import skeleton
from tidegate.run.config.texts import PLACEHOLDER
from tidegate.schedule import TwoStream

EPILOG = """\b
Examples:
  tidegate init                            tidegate.toml, for fading memory
  tidegate init continual --output a.toml
  tidegate init fading --from records.csv --label diagnosis
  tidegate init fading --from sample.csv --label diagnosis --public
"""


OPEN = f'= "{PLACEHOLDER}"'
"""What a text holds in which something is not chosen yet."""

HELP = f"""Write a commented configuration; edit it to describe your records.

KIND is {kinds_text()}.

--from lists the columns of a file, for you to say what each is: every command refuses the result
until each "?" in it is replaced. No record is read, unless --public says that the records are
public: then the list has the kinds, ranges and values that they suggest.
"""


@click.command(epilog=EPILOG, help=HELP)
@click.argument("kind", type=Kind(), default="fading", metavar="[KIND]")
@click.option(
    "--output",
    type=PATH,
    default=Path("tidegate.toml"),
    show_default=True,
    help="File to write; it must not exist yet.",
)
@click.option("--from", "source", type=PATH, help="List the columns of this file.")
@click.option("--label", help="The column of the file to predict.")
@click.option("--public", is_flag=True, help="The file's records are public: read them.")
@options.form
def init(  # noqa: PLR0913, PLR0917 (options)
    kind: str, output: Path, source: Path | None, label: str | None, public: bool, form: str
) -> None:
    """Write the configuration of a kind of schedule."""
    if source is None and (label is not None or public):
        raise click.UsageError("--label and --public need --from.")
    text = example(kind) if source is None else _for_file(kind, source, label, public=public)
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidValueError(f"{output} exists already; use --output NAME") from None
    if form == "json":
        click.echo(json.dumps({"file": str(output), "kind": kind}))
    else:
        todo = 'Replace every "?" in it' if OPEN in text else "Edit it to describe your records"
        click.echo(f"Wrote {output}. {todo}, then: tidegate run {output}")
        if source is not None:
            click.echo(f"To see how each column is read: tidegate check {output} {source}")


def _for_file(kind: str, source: Path, label: str | None, *, public: bool) -> str:
    if kind == TwoStream.kind:
        raise refuse("KIND", "a schedule of one stream with --from", kind)
    return skeleton(kind, propose(source, label=label, public=public))
