"""`tidegate export`: write a release to a file."""

from pathlib import Path

import click

from tidegate.checks import refuse
from tidegate.cli import options
from tidegate.cli.from_state import chosen_release
from tidegate.cli.options import PATH, count
from tidegate.gate import Gate
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
    written = {"release": chosen.number, "hash": chosen.hash, "file": str(file)}
    options.answer(written, form, f"Wrote release {chosen.number:,} to {file}")
