"""Engines, which compute the sums of a fit in memory, from disk or on a cluster."""

from tidegate.compute.engine import Disk, Engine, Memory

__all__ = ["Disk", "Engine", "Memory"]
