"""`tidegate export`: write a release to a file."""

import json
from pathlib import Path

import click

from tidegate.checks import InvalidValueError, refuse
from tidegate.cli import advice, options
from tidegate.cli.types import PATH, count
from tidegate.gate import Gate
from tidegate.release import StoredRelease
from tidegate.release.export_formats import export as write

EXPORT_EPILOG = """\b
Examples:
  tidegate export tidegate.state model.safetensors      the newest release
  tidegate export tidegate.state model.onnx --release 12
  tidegate export tidegate.state card.md
"""


@click.command(epilog=EXPORT_EPILOG)
@options.state
@click.argument("file", type=PATH)
@click.option("--release", type=count(least=0), help="Number of the release [newest].")
@options.form
def export(state: Path, file: Path, release: int | None, form: str) -> None:
    """Write a release to FILE, in the format of FILE's extension.

    .npz (NumPy), .safetensors, .onnx and .joblib (a scikit-learn pipeline) hold the model, .json
    and .md its card. All but .joblib also hold the card and the hash.
    """
    with Gate.look(state) as gate:
        chosen = chosen_release(gate, release)
    if not file.parent.is_dir():
        raise refuse("FILE", "in a folder that exists", str(file))
    write(chosen, file)
    if form == "json":
        written = {"release": chosen.number, "hash": chosen.hash, "file": str(file)}
        click.echo(json.dumps(written))
    else:
        options.say(f"Wrote release {chosen.number:,} to {file}")


def chosen_release(gate: Gate, number: int | None) -> StoredRelease:
    """The release with a number, or the newest; refuse a state that has none."""
    chosen = gate.store.newest() if number is None else gate.store.release(number)
    if chosen is None:
        more = "add records with tidegate run or tidegate ingest"
        raise InvalidValueError(f"{advice.waiting(gate)}; {more}")
    return chosen
