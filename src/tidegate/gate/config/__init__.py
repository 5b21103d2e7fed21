"""The configuration of a gate: a TOML file with typed keys, checked as a whole before use."""

from tidegate.gate.config.config import Config, file_name
from tidegate.gate.config.difference import differences
from tidegate.gate.config.example import about, example
from tidegate.gate.config.keys import ConfigError

__all__ = ["Config", "ConfigError", "about", "differences", "example", "file_name"]
