"""Every table in Markdown is whole: a header, a line below it, and as many cells in each row."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/**/*.md")])
RULE = re.compile(r"\|(?: *:?-+:? *\|)+")


def cells(row: str) -> int:
    """How many cells a row has; a pipe ends a cell, also inside code, unless it is escaped."""
    return len(re.sub(r"\\.", "", row.strip()).strip("|").split("|"))


def mistakes(text: str) -> Iterator[str]:
    """What is wrong with the tables of a page, each with the number of its line."""
    above: list[str] = []
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        fenced ^= line.lstrip().startswith("```")
        row = line.strip()
        if fenced or not row.startswith(("| ", "|-", "|:")):  # mathematics has |x|
            if len(above) == 1:
                yield f"line {number - 1}: a row without a header"
            above = []
            continue
        above.append(row)
        if not row.endswith("|") or row.endswith("\\|"):
            yield f"line {number}: a row that does not end with |"
        elif len(above) == 2 and not RULE.fullmatch(row):
            yield f"line {number}: no rule below the header"
        elif cells(row) != cells(above[0]):
            yield f"line {number}: {cells(row)} cells, {cells(above[0])} in the header"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_are_whole(page: Path) -> None:
    assert list(mistakes(page.read_text(encoding="utf-8"))) == []


TABLE = "| a | b |\n|---|--:|\n| 1 | `x \\| y` |\n"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("|---|--:|\n", "", "line 2: no rule below the header"),
        ("|--:|\n", "|\n", "line 2: 1 cells, 2 in the header"),
        ("\\|", "|", "line 3: 3 cells, 2 in the header"),
        ("`x \\| y` |", "x", "line 3: a row that does not end with |"),
        ("| 1", "\n| 1", "line 4: a row without a header"),
    ],
)
def test_a_broken_table_is_found(before: str, after: str, said: str) -> None:
    assert list(mistakes(f"{TABLE}\nText.\n")) == []
    assert said in list(mistakes(TABLE.replace(before, after) + "\nText.\n"))
