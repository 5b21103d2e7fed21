"""Print the section of CHANGELOG.md about a version: `python .ci/release_notes.py v0.2.0`.

Fails unless the tag, pyproject.toml, CHANGELOG.md and CITATION.cff name the same version, and the
last two the same date.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

TAG = re.compile(r"v(\d+\.\d+\.\d+)")
DATE = re.compile(r"\d{4}-\d\d-\d\d")
SECTION = re.compile(r"^## (\S+)(?: \(([^\n]*)\))?$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def problems(version: str, packaged: str, newest: str, date: str, citation: str) -> Iterator[str]:
    """List what is wrong with a release.

    Args:
        version: The version in the tag.
        packaged: The version in pyproject.toml.
        newest: The version of the changelog's first section.
        date: The date of that section.
        citation: The text of CITATION.cff.
    """
    if packaged != version:
        yield f"pyproject.toml: version is {packaged}, not {version}"
    if newest != version:
        yield f"CHANGELOG.md: the first section is about {newest}, not {version}"
    if not DATE.fullmatch(date):
        yield f"CHANGELOG.md: {newest} has no date like (2026-01-31)"
    for field, value in {"version": version, "date-released": date}.items():
        if f"\n{field}: {value}\n" not in citation:
            yield f"CITATION.cff: no line '{field}: {value}'"


def main(tag: str) -> None:
    """Print the notes, or fail."""
    tagged = TAG.fullmatch(tag)
    if tagged is None:
        sys.exit(f"the tag {tag} does not look like v1.2.3")
    packaged = tomllib.loads(Path("pyproject.toml").read_text())["project"]["version"]
    section = SECTION.search(Path("CHANGELOG.md").read_text())
    if section is None:
        sys.exit("CHANGELOG.md: no line like '## 1.2.3 (2026-01-31)'; add one")
    newest, date, notes = section.groups(default="no date")
    citation = Path("CITATION.cff").read_text()
    if wrong := list(problems(tagged[1], packaged, newest, date, citation)):
        sys.exit("\n".join(wrong))
    print(notes.strip())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} TAG")
    main(sys.argv[1])
