"""The configuration of a gate: a TOML file with typed keys, checked as a whole before use."""

from tidegate.run.config.config import Config, file_name
from tidegate.run.config.example import about, example
from tidegate.run.config.keys import ConfigError
from tidegate.run.config.texts import differences

__all__ = ["Config", "ConfigError", "about", "differences", "example", "file_name"]
