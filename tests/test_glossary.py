"""One definition for each term, the same in documentation, page and command line."""

import re
from pathlib import Path

import pytest

from tests.cli.run import json_lines, tidegate
from tidegate.glossary import GLOSSARY, TERMS, definition, to_markdown

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "src" / "tidegate" / "serve" / "page"
LONGEST = 45
"""Words in a definition."""


def test_the_page_of_the_documentation_is_current() -> None:
    """Write it with `python -m tidegate.glossary > docs/glossary.md`."""
    assert (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8") == to_markdown()


def test_definitions_are_one_or_two_short_sentences() -> None:
    assert sum(map(len, GLOSSARY.values())) == len(TERMS)
    for term, words in TERMS.items():
        assert words.endswith("."), term
        assert len(re.findall(r"\.(?: |$)", words)) <= 2, term
        assert len(words.split()) <= LONGEST, term


@pytest.mark.parametrize(
    ("asked", "term"),
    [
        ("share", "share"),
        ("Releases", "release"),
        ("slot-weight", "slot weight"),
        ("ε", "epsilon"),
        ("emphasis", "slot weight"),
        ("ApproxDP", "gaussian budget"),
        ("PureDP", "pure budget"),
        ("sliding-window", "sliding"),
        ("publish", "publish folder"),
        ("Idempotency-Key", "batch key"),
        ("raw records", "raw data"),
    ],
)
def test_a_term_is_found_as_people_write_it(asked: str, term: str) -> None:
    done = tidegate("explain", *asked.split())
    assert done.returncode == 0
    assert " ".join(done.stdout.split()) == TERMS[term] == definition(asked)


def test_without_a_term_all_are_listed() -> None:
    listed = tidegate("explain", COLUMNS="80").stdout
    assert max(map(len, listed.splitlines())) <= 80
    assert all(term in " ".join(listed.split()) for term in TERMS)
    assert {line["term"]: line["meaning"] for line in json_lines("explain")} == TERMS


def test_an_unknown_term_is_refused_with_those_near_to_it() -> None:
    done = tidegate("explain", "leger")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tidegate: no term 'leger': did you mean ledger")
    assert "tidegate explain lists all terms" in tidegate("explain", "xyzzy").stderr


def test_the_page_marks_terms_that_there_are() -> None:
    marked = set(re.findall(r'data-term="([^"]+)"', (PAGE / "page.html").read_text()))
    for module in PAGE.glob("*.js"):
        marked |= set(re.findall(r'\bterm\("([^"]+)"', module.read_text()))
    assert {"epsilon", "delta", "share", "ledger", "chain", "base"} <= marked <= set(TERMS)
