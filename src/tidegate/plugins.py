"""What other packages add by entry points: commands, methods to compare with, and sources."""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from tidegate.checks import InvalidValueError

COMMANDS = "tidegate.commands"
METHODS = "tidegate.methods"
SOURCES = "tidegate.sources"
"""The groups of entry points."""

LAB = "in your clone of Tidegate, run pip install ./lab"
"""How to get the paper's figures, and the methods that are not this library's own."""


def added(group: str) -> dict[str, EntryPoint]:
    """What the installed packages add to a group, by name."""
    return {each.name: each for each in sorted(entry_points(group=group))}


def load(entry: EntryPoint) -> Any:
    """Import what an entry point names."""
    try:
        return entry.load()
    except Exception as error:  # what others wrote can raise anything
        reason = str(error).partition("\n")[0]
        why = f"{entry.name} cannot be loaded from {entry.value}: {reason}"
        raise InvalidValueError(why) from error
