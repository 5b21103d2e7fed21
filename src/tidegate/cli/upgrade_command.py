"""`tidegate upgrade`: upgrade a state to the layout of this version."""

from pathlib import Path

import click

from tidegate.cli import options
from tidegate.state.folder_store import FolderStore
from tidegate.state.layout import LAYOUT
from tidegate.state.opening import layout_of

EPILOG = "\b\nExample:\n  tidegate upgrade tidegate.state\n"


@click.command(epilog=EPILOG)
@options.state
@options.form
def upgrade(state: Path, form: str) -> None:
    """Upgrade a state to the layout of this version, in one transaction.

    Stop its gate and copy the state first: an older Tidegate cannot open the result. Records,
    charges, releases and hashes stay as they are. `run` and `serve` upgrade a state too; commands
    that only read one refuse it until then, and `verify` checks it on a private copy.
    """
    before = layout_of(state)
    FolderStore(state).close()
    words = f"{state} was upgraded from layout {before} to layout {LAYOUT}"
    if before == LAYOUT:
        words = f"{state} has layout {LAYOUT} already: nothing was changed"
    options.answer({"layout_before": before, "layout": LAYOUT}, form, words)
