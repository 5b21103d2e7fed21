"""The gate: takes records in and gives releases out, durably."""

from tidegate.gate.config import Config
from tidegate.gate.gate import Gate

__all__ = ["Config", "Gate"]
