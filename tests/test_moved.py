"""Modules that moved are the same modules by their earlier names."""

import subprocess
import sys
from importlib import import_module

import pytest

from tidegate.moved import MOVED


@pytest.mark.parametrize("name", sorted(MOVED))
def test_an_earlier_name_is_the_same_module(name: str) -> None:
    moved = import_module(f"tidegate.{MOVED[name]}")
    own = moved.__spec__
    assert import_module(f"tidegate.{name}") is moved
    assert moved.__name__ == f"tidegate.{MOVED[name]}"
    assert moved.__spec__ is own is not None


def test_the_earlier_name_may_be_imported_first() -> None:
    script = """
from tidegate.features.columns.columns import Columns as first
from tidegate.data.maps.columns_map import Columns as now
from tidegate.data.maps import MAPS
assert first is now is MAPS["Columns"], "a module was executed twice"
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr


def test_a_name_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("tidegate.features.tides")
