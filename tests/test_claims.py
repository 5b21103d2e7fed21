"""The project promises nothing that is not there: no foreign links, no package on an index."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FILES = [
    path
    for name in PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for path in ([ROOT / name] if (ROOT / name).is_file() else sorted((ROOT / name).rglob("*")))
    if path.is_file() and "__pycache__" not in path.parts
]

SOURCES = {"arxiv.org", "doi.org"}
"""Where facts come from: papers."""

NAMES = {
    "LICENSE": "www.apache.org",  # the licence's own text
    "src/tidegate/serve/page/icon.svg": "www.w3.org",  # the name of SVG's namespace
}
"""Hosts in texts that are not ours to change."""

MADE_UP = re.compile(
    r"(localhost|host|127\.0\.0\.1|\S+\.(example|invalid|test)|example\.(com|org))"
)
"""Hosts of examples: this machine, and names that nobody can own."""

URL = re.compile(r"https?://(?:[^\s/@]*@)?([\w.-]*[\w-]|\[[\da-f:]+\])", re.IGNORECASE)
FORGE = re.compile(r"\b(github|gitlab|codeberg|bitbucket)\.(com|org)\b|\bshields\.io\b")
INDEX = re.compile(
    r"(pip|pipx|uv)( \w+)* (install|download|add)\b[^\n#`]*\btidegate(?!/)\b(\[|=|\W|$)"
)


def foreign(name: str, text: str) -> Iterator[str]:
    """The hosts that a text points to and that are neither sources, made up nor allowed in it."""
    for host in URL.findall(text):
        known = host in SOURCES or MADE_UP.fullmatch(host) or NAMES.get(name) == host
        if not known:
            yield host
    yield from (match[0] for match in FORGE.finditer(text))


def texts() -> Iterator[tuple[str, str]]:
    """Every text file of the project but this one, which has what it looks for."""
    for path in FILES:
        data = path.read_bytes()
        if b"\0" not in data and path != Path(__file__):
            yield str(path.relative_to(ROOT)), data.decode()


def test_no_link_leads_to_a_place_that_is_not_ours() -> None:
    found = {name: list(foreign(name, text)) for name, text in texts()}
    assert {name: hosts for name, hosts in found.items() if hosts} == {}


@pytest.mark.parametrize(
    "text",
    [
        "[here](https://github.com/somebody/tidegate)",
        "https://me@other.org/x",
        "github.com/somebody/tidegate",
        "![badge](https://img.shields.io/badge/x)",
        "http://[2001:db8::1]/",
    ],
)
def test_a_foreign_link_is_found(text: str) -> None:
    assert list(foreign("README.md", text))


@pytest.mark.parametrize(
    "text",
    [
        "https://arxiv.org/abs/2203.03594",
        "http://127.0.0.1:8321/v1",
        "https://db.example/",
        "http://",
    ],
)
def test_papers_this_machine_and_made_up_names_are_allowed(text: str) -> None:
    assert list(foreign("README.md", text)) == []


def test_nobody_is_told_to_install_it_from_an_index() -> None:
    """Nothing is released: a package of this name would be somebody else's."""
    found = [f"{name}: {match[0]}" for name, text in texts() for match in INDEX.finditer(text)]
    assert found == []


def test_an_installation_from_an_index_is_found() -> None:
    for command in (
        "pip install tidegate",
        "pip install 'tidegate[serve]==0.2.0'",
        "pip download --no-deps tidegate==1",
        "uv tool install tidegate",
    ):
        assert INDEX.search(command)
    for command in ("pip install '.[serve]'", "bin/pip install 'PATH/TO/CLONE[serve]'"):
        assert not INDEX.search(command)


def test_the_package_has_no_links_and_security_says_that_there_is_no_address() -> None:
    assert "urls" not in PROJECT["project"]
    security = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "No address for reports exists yet" in security
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert not re.search(r"(?m)^(url|repository[\w-]*):", citation)
