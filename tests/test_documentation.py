"""Links in the documentation lead somewhere, and the README stays short."""

import re
from pathlib import Path

import pytest

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
