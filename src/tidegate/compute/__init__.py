"""Where the sums of a fit are computed: in memory, from the disk, or on a cluster."""

from tidegate.compute.engine import Disk, Engine, Memory

__all__ = ["Disk", "Engine", "Memory"]
