"""Units, compose file and image never create a state: an operator does that once, by hand."""

import re
import shlex
from configparser import RawConfigParser
from pathlib import Path

import click
import pytest

from tidegate.cli.main import tidegate

ROOT = Path(__file__).parent.parent
UNITS = sorted((ROOT / "contrib").glob("*.service"))


def unit(path: Path) -> RawConfigParser:
    """A unit file, whose keys occur once in each section."""
    found = RawConfigParser(comment_prefixes="#")
    found.read_string(path.read_text())
    return found


def parsed(words: list[str]) -> tuple[str, dict[str, object]]:
    """The command that some words run, and its options."""
    command = tidegate.get_command(click.Context(tidegate), words[0])
    assert command is not None
    return words[0], command.make_context(words[0], words[1:]).params


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_refuses_a_state_that_is_missing(path: Path) -> None:
    found = unit(path)
    _, *words = shlex.split(found["Service"]["ExecStart"])
    command, options = parsed(words)
    state = Path(str(options["state"]))
    if command == "serve":
        assert options["config"] is None
    else:  # which always has a configuration, and creates the state
        assert found["Unit"]["AssertPathExists"] == str(state / "lock")
    assert found["Unit"]["RequiresMountsFor"] == str(state.parent)
    assert found["Service"]["StateDirectory"] == state.parent.name


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_that_is_refused_stops_trying(path: Path) -> None:
    found = unit(path)
    burst, pause = (
        int(found["Unit"]["StartLimitBurst"]),
        int(found["Service"]["RestartSec"]),
    )
    assert found["Unit"]["StartLimitIntervalSec"] == "30min"
    assert burst * (pause + 60) < 30 * 60  # also if every start waits a minute for a broker


def test_the_units_differ_in_what_they_run_alone() -> None:
    one, other = (unit(path) for path in UNITS)
    ours, theirs = ({**each["Service"], "execstart": ""} for each in (one, other))
    assert ours == theirs


def test_the_image_creates_no_state() -> None:
    found = re.search(r"(?m)^CMD \[(.*)\]$", (ROOT / "Dockerfile").read_text())
    assert found is not None
    command, options = parsed([word.strip(' "') for word in found[1].split(",")])
    assert (command, options["config"]) == ("serve", None)
    settings = re.sub("(?m)#.*$", "", (ROOT / "compose.yaml").read_text())
    assert "command" not in settings
