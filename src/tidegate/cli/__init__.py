"""The command line: one file per command."""

from tidegate.cli.main import main

__all__ = ["main"]
