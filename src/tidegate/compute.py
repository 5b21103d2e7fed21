"""Engines, which compute the sums of a fit in memory, from disk or on a cluster."""

from tidegate.run.engine import Disk, Engine, Memory

__all__ = ["Disk", "Engine", "Memory"]

__path__: list[str] = []
"""Its modules are in `tidegate.run` now; `tidegate.moved` finds them by their old names."""
