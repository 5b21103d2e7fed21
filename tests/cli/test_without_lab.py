"""What commands do if no other package adds commands or methods."""

import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests.state.commands import gate_text
from tests.state.gate_files import source_table, write_csv
from tidegate import plugins
from tidegate.checks import InvalidValueError
from tidegate.compare.contenders import added_methods

HOW = "in your clone of Tidegate, run pip install ./lab"

ALONE = """
from tidegate import plugins
plugins.entry_points = lambda group: ()
from tidegate.cli import main
main()
"""


def alone(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as if no other package were installed."""
    command = [sys.executable, "-c", ALONE, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "gate.toml").write_text(gate_text(tmp_path, source_table(tmp_path / "records.csv")))
    write_csv(tmp_path / "public.csv", 900)
    write_csv(tmp_path / "records.csv", 900)
    return [str(tmp_path / "gate.toml"), str(tmp_path / "public.csv")]


@pytest.mark.parametrize("words", [["paper"], ["paper", "--quick"], ["help", "paper"]])
def test_the_paper_says_in_one_line_how_to_get_it(words: list[str]) -> None:
    done = alone(*words)
    assert done.returncode == 2
    assert done.stderr == f"tidegate: tidegate paper is not installed: {HOW}\n"


@pytest.mark.thorough
def test_schedules_are_compared_and_one_line_says_how_to_get_the_rest(files: list[str]) -> None:
    done = alone("compare", *files, "--runs", "1", "--block", "200", "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {"sliding", "growing", "independent"} < {row["method"] for row in rows}
    assert all(row["schedule"] for row in rows)
    assert " ".join(done.stderr.split()).count(HOW) == 1


def test_a_method_that_is_not_installed_is_named_with_how_to_get_it(files: list[str]) -> None:
    done = alone("compare", *files, "--method", "naive")
    assert done.returncode == 2
    line = done.stderr.splitlines()[-1]
    assert "naive" in line
    assert HOW in line


def test_an_entry_point_that_cannot_be_loaded_is_named() -> None:
    broken = EntryPoint("odd", "nowhere.at_all:method", plugins.METHODS)
    with pytest.raises(InvalidValueError, match=r"odd cannot be loaded from nowhere\.at_all"):
        plugins.load(broken)


def test_a_method_of_another_package_cannot_replace_a_schedule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = [EntryPoint(name, "nowhere:at_all", plugins.METHODS) for name in ("fading", "tides")]
    monkeypatch.setattr(plugins, "entry_points", lambda **_: both)
    assert list(added_methods()) == ["tides"]


def test_a_command_of_another_package_is_found() -> None:
    code = """
from importlib.metadata import EntryPoint
from tidegate import plugins
entry = EntryPoint("tides", "tidegate.cli.explain_command:explain", plugins.COMMANDS)
plugins.entry_points = lambda group: (entry,) if group == plugins.COMMANDS else ()
from tidegate.cli import main
main()
"""
    command = [sys.executable, "-c", code, "tides", "share"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "share" in done.stdout
