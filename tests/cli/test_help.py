"""Help where people are: one screen of commands, topics, and errors that say what to do next."""

import os
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.cli.run import process, tidegate
from tidegate.cli import options
from tidegate.cli.main import COMMANDS, GROUPS
from tidegate.glossary import TERMS


def test_the_commands_fit_one_screen() -> None:
    lines = tidegate("--help", COLUMNS="80").stdout.splitlines()
    assert len(lines) < 24  # and a prompt
    assert max(map(len, lines)) <= 80
    assert list(GROUPS) == ["try", "plan", "run", "inspect", "use", "operate"]
    for purpose, commands in GROUPS.items():
        assert any(line.startswith(f"  {purpose}: ") for line in lines)
        assert all(any(f" {name} " in line for line in lines) for name in commands)


def test_a_topic_is_a_command_or_a_term() -> None:
    assert tidegate("help").stdout == tidegate("--help").stdout
    assert tidegate("help", "status").stdout == tidegate("status", "--help").stdout
    assert "tidegate token create" in tidegate("help", "token", "create").stdout
    assert " ".join(tidegate("help", "slot", "weight").stdout.split()) == TERMS["slot weight"]
    assert tidegate("help", "xyzzy").returncode == 2


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("releases",), "see tidegate releases --help"),
        (("plan", "sliding", "--nonsense", "1"), "see tidegate plan --help"),
        (("token", "create"), "see tidegate token create --help"),
        (("xyzzy",), "tidegate --help lists all commands"),
        (("run", "none.toml"), "tidegate init writes one"),
        (("status", "none"), "tidegate run or tidegate serve --config"),
        (("plan", "sliding", "--epsilon", "1", "--until", "9"), "such as --window 1024"),
    ],
)
def test_an_error_ends_with_what_to_do_next(
    words: tuple[str, ...], advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = tidegate(*words)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith(f"{advice}\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_to_complete_commands_are_made(shell: str) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "shell-completion.md"
    assert f"_TIDEGATE_COMPLETE={shell}_source tidegate" in page.read_text()
    if shell == "bash":
        return  # click asks bash for its version
    script = process(_TIDEGATE_COMPLETE=f"{shell}_source").stdout
    assert "_TIDEGATE_COMPLETE" in script


def test_commands_and_their_help_are_completed() -> None:
    variables = {"COMP_WORDS": "tidegate re", "COMP_CWORD": "1"}
    done = process(_TIDEGATE_COMPLETE="bash_complete", **variables)
    assert done.stdout.split() == ["plain,releases"]
    assert set(COMMANDS) >= {"explain", "releases"}


def test_tables_keep_their_times_at_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    time = "2026-11-16T15:22:31.123456+00:00"
    row: dict[str, object] = {"name": "dashboard-of-the-first-floor", "created": time}
    row |= {"scopes": "ingest read", "expires": time, "revoked": None, "valid": True}
    with patch.dict(os.environ, COLUMNS="80"):
        options.show([row], "table", folded="name")
    shown = capsys.readouterr().out
    assert shown.count("2026-11-16 15:22") == 2
    assert max(map(len, shown.splitlines())) <= 80
