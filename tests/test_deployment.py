"""Units, compose file and image never create a state: an operator does that once, by hand.

The other files that are shipped for operators name units, metrics and files that there are.
"""

import re
import shlex
import shutil
import subprocess
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import click
import pytest

from tidegate.cli.main import tidegate
from tidegate.serve.access_tokens import AUDIT

ROOT = Path(__file__).parent.parent
CONTRIB = ROOT / "contrib"
UNITS = [CONTRIB / f"{name}.service" for name in ("tidegate", "tidegate-run", "tidegate-fleet")]
HEALTH = CONTRIB / "tidegate-health.service"


def unit(path: Path) -> RawConfigParser:
    """A unit file, whose keys occur once in each section."""
    found = RawConfigParser(comment_prefixes="#")
    found.read_string(path.read_text())
    return found


def parsed(words: list[str]) -> tuple[str, dict[str, object]]:
    """The command that some words run, and its options."""
    name, *rest = words
    command = tidegate.get_command(click.Context(tidegate), name)
    if isinstance(command, click.Group):
        name, *rest = rest
        command = command.get_command(click.Context(command), name)
    assert command is not None
    return name, command.make_context(name, rest).params


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


def test_the_units_differ_in_what_they_run_and_in_memory_alone() -> None:
    first, *others = ({**unit(path)["Service"], "execstart": "", "memorymax": ""} for path in UNITS)
    assert all(other == first for other in others)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_limits_memory_and_finds_relative_paths(path: Path) -> None:
    service = unit(path)["Service"]
    assert re.fullmatch("[24]G", service["MemoryMax"])
    assert service["OOMPolicy"] == "continue"  # the process that parses JSON may end alone
    assert service["WorkingDirectory"] == "/var/lib/tidegate"


def test_every_unit_is_one_that_systemd_accepts() -> None:
    if (program := shutil.which("systemd-analyze")) is None:
        pytest.skip("needs systemd-analyze (apt-get install systemd)")
    for path in [*CONTRIB.glob("*.service"), *CONTRIB.glob("*.timer")]:
        done = subprocess.run(
            [program, "verify", str(path)], capture_output=True, text=True, check=False
        )
        wrong = [line for line in done.stderr.splitlines() if "is not executable" not in line]
        assert wrong == [], path.name


def test_the_timer_checks_the_unit_that_serves() -> None:
    assert (CONTRIB / "tidegate-health.timer").exists()
    words = shlex.split(unit(HEALTH)["Service"]["ExecStart"])
    name, url = words[1:]
    assert (CONTRIB / f"{name}.service").exists()
    assert (CONTRIB / Path(words[0]).name).stat().st_mode & 0o111
    serve = parsed(shlex.split(unit(UNITS[0])["Service"]["ExecStart"])[1:])[1]
    assert url == f"http://{serve['host']}:{serve['port']}/v1/health"


def test_alerts_name_metrics_that_there_are() -> None:
    yaml: Any = pytest.importorskip("yaml", reason="needs PyYAML (pip install pyyaml)")
    (group,) = yaml.safe_load((CONTRIB / "tidegate-alerts.yaml").read_text())["groups"]
    page = (ROOT / "docs" / "operate.md").read_text()
    documented = set(re.findall(r"(?m)^\| `(tidegate_\w+)", page))
    asked = set(re.findall(r"\btidegate_\w+", " ".join(rule["expr"] for rule in group["rules"])))
    assert asked <= documented
    jobs = {job for rule in group["rules"] for job in re.findall('job="(.*?)"', rule["expr"])}
    assert all(f"job_name: {job}\n" in page for job in jobs)
    assert all(rule["annotations"]["summary"] for rule in group["rules"])


def test_log_rotation_moves_the_audit_log_of_the_unit() -> None:
    text = re.sub("(?m)^#.*$", "", (CONTRIB / "tidegate.logrotate").read_text())
    path, settings = text.strip().removesuffix("}").split("{")
    _, options = parsed(shlex.split(unit(UNITS[0])["Service"]["ExecStart"])[1:])
    assert path.strip() == f"{options['state']}/{AUDIT}"
    assert "nocreate" in settings.split()  # the service creates it, with the mode it needs
    assert "copytruncate" not in settings  # would lose lines


def test_the_image_creates_no_state() -> None:
    found = re.search(r"(?m)^CMD \[(.*)\]$", (ROOT / "Dockerfile").read_text())
    assert found is not None
    command, options = parsed([word.strip(' "') for word in found[1].split(",")])
    assert (command, options["config"]) == ("serve", None)
    settings = re.sub("(?m)#.*$", "", (ROOT / "compose.yaml").read_text())
    assert "command" not in settings
    assert "mem_limit: 2g" in settings
