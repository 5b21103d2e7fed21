"""The walk of a record in CONTRIBUTING.md names functions that run, in their order."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
ROW = re.compile(r"^\| .+ \| `([\w/]+\.py)` \| `([\w.]+)` \|$", re.MULTILINE)


def walked(text: str) -> list[str]:
    """The functions of the table, with their modules."""
    section = text.partition("### The walk of a record")[2].partition("\n#")[0]
    return [f"{module}:{function}" for module, function in ROW.findall(section)]


@pytest.mark.xdist_group("house")
def test_a_record_walks_as_described() -> None:
    described = walked((PROJECT / "CONTRIBUTING.md").read_text())
    assert len(described) >= 15
    asked = [sys.executable, "-m", "tests.house.scenarios", "walk"]
    done = subprocess.run(asked, cwd=PROJECT, capture_output=True, text=True, check=True)
    order = json.loads(done.stdout.splitlines()[-1])["order"]
    assert set(described) <= set(order), "no record passes there any more"
    assert described == sorted(described, key=order.index), "the order has changed"


def test_a_table_that_names_nothing_is_not_enough() -> None:
    assert walked("### The walk of a record\n| a | b |\n# next\n| x | `a.py` | `b` |") == []
