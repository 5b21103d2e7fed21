"""The model that a command uses: of a state, of a published folder, or in a file."""

from pathlib import Path

import click

from tidegate.cli.from_state import chosen_release
from tidegate.cli.options import count
from tidegate.gate import Gate
from tidegate.release import StoredRelease
from tidegate.state.loading import checked_model, load_release
from tidegate.state.publish_folder import published_in

number = click.option(
    "--release", "number", type=count(least=0), help="Number of the release [newest]."
)


def chosen_model(path: Path, number: int | None) -> StoredRelease:
    """The release to use. A folder with published releases is never opened as a state.

    Args:
        path: A state, a published folder, or a .safetensors, .npz or .onnx file.
        number: The number of the release; None for the newest.
    """
    if path.is_dir() and not published_in(path):
        with Gate.look(path) as gate:
            return chosen_release(gate, number)
    release = load_release(path, number)
    checked_model(path, release)  # the file may come from anyone
    return release
