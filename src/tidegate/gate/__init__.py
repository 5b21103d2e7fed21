"""The Gate: the durable runtime. Records in, releases out, and nothing lost in between."""

from tidegate.gate.config import Config
from tidegate.gate.gate import Gate

__all__ = ["Config", "Gate"]
