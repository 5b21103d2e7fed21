"""Links and commands in the documentation work, and the README stays short."""

import re
import shlex
from pathlib import Path

import click
import pytest

from tidegate.cli.main import tidegate

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LONGEST_README = 700
"""Words outside code and tables."""


def without_code(page: Path) -> str:
    return re.sub(r"(?s)```.*?```", "", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"(?m)^#+ (.*)$", without_code(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> list[str]:
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page)):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    return dead


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    assert dead_links(page) == []


def test_a_link_to_a_missing_heading_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `two`, three\n[here](#one-two-three) [gone](#four) [lost](lost.md)\n")
    assert dead_links(page) == ["#four", "lost.md"]


def test_readme_is_short() -> None:
    prose = re.sub(r"(?m)^(    |\||!\[).*$", "", without_code(ROOT / "README.md"))
    assert len(re.sub(r"\]\([^)]*\)", "]", prose).split()) <= LONGEST_README


def test_every_page_is_on_the_map() -> None:
    """`docs/README.md` links to all pages but the proofs, which have a map of their own."""
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs") for page in ROOT.glob("docs/**/*.md")]
    missing = [
        str(page)
        for page in pages
        if page.parts[0] not in ("proofs", "reference", "README.md") and f"({page}" not in text
    ]
    assert missing == []


def commands(page: Path) -> list[str]:
    """The lines of code of a page that run `tidegate`, or `tg` for short, without a prompt."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"(?m)^(?: {4}|\$ |)((?:tidegate|tg) (?:[a-z]|--).*)$", text)


def mistake(words: list[str], command: click.Command) -> str | None:
    """What is wrong with a command line, if anything: an unknown command or option."""
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        subcommand = command.get_command(click.Context(command, resilient_parsing=True), words[0])
        if subcommand is None:
            return f"no command {words[0]}"
        command, words = subcommand, words[1:]
    options = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    unknown = [
        word for word in words if word.startswith("--") and word.split("=")[0] not in options
    ]
    return f"no option {unknown[0]}" if unknown else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_their_options_exist(page: Path) -> None:
    mistakes = {
        line: mistake(shlex.split(line, comments=True)[1:], tidegate) for line in commands(page)
    }
    assert {line: why for line, why in mistakes.items() if why} == {}


def test_an_unknown_command_or_option_is_found() -> None:
    assert mistake(["runn", "a.toml"], tidegate) == "no command runn"
    assert mistake(["token", "create", "STATE", "--color", "red"], tidegate) == "no option --color"
