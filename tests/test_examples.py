"""Every example runs as it is printed: its code in order, from an empty namespace."""

import ast
import builtins
import doctest
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.run import tidegate
from tidegate.gate import Config

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

SERVICE = "needs a running service, which tests/serve starts"
FILES = "needs model.onnx, which tests/state/test_export.py exports and runs"
NOT_RUN: dict[str, dict[str, tuple[str, set[str]]]] = {
    "docs/erasure.md": {"from tidegate import Client": (SERVICE, {"token"})},
    "docs/service.md": {"from tidegate import Client": (SERVICE, {"token", "X", "y", "ids"})},
    "docs/how-to/export-a-model.md": {
        "import numpy as np\nimport onnxruntime": (FILES, set()),
        "import tidegate": ("needs files, which tests/state/test_loading.py makes", {"frame"}),
    },
    "docs/how-to/use-an-encoder.md": {
        "import torch": ("needs PyTorch and a model of the reader's", {"model", "ids", "mask"})
    },
    "docs/how-to/protect-people.md": {
        "gate.ingest(X, y, persons": (SERVICE, {"gate", "client", "X", "y", "patients"})
    },
}
"""Blocks that are not run, by how they begin: why, and which names the reader must bring."""

PLANS = ("plan", "explain", "init --list")
"""Commands that need no file, so that every line of a page that has one is run."""


class Block(NamedTuple):
    """A block of code between fences."""

    language: str
    text: str


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[Block]:
    fenced = re.findall(r"(?ms)^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"))
    return [Block(*each) for each in fenced if each[0] == language]


def sections(page: Path) -> list[list[Block]]:
    """The blocks of Python of a page, as far as they share names.

    A page is one lesson. On a page of the reference, each heading is about something else.
    """
    if "reference" not in page.parts:
        return [blocks(page, "python")]
    parts = re.split(r"(?m)^#{2,3} ", page.read_text(encoding="utf-8"))
    fenced = (re.findall(r"(?ms)^```python\n(.*?)^```$", part) for part in parts)
    return [[Block("python", text) for text in texts] for texts in fenced]


def examples(text: str) -> Iterator[doctest.Example]:
    """The statements of a block with what they print, which a comment below them says."""
    if ">>>" in text:
        yield from doctest.DocTestParser().get_examples(text)
        return
    lines = text.splitlines(keepends=True)
    body = ast.parse(text).body
    ends = [node.lineno - 1 for node in body[1:]] + [len(lines)]
    for node, end in zip(body, ends, strict=True):
        after = [line for line in lines[node.end_lineno : end] if line.startswith("#")]
        want = "".join(re.sub(r"^# ?", "", line) for line in after)
        source = "".join(lines[node.lineno - 1 : node.end_lineno])
        traced = re.match(r"Traceback [^\n]*\n(.*)", want, re.DOTALL)
        yield doctest.Example(source, want, exc_msg=traced[1] if traced else None)


def failures(section: list[Block], page: str) -> str:
    """Run the blocks of a section in one fresh namespace, and say what differs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    for block in section:
        if not_run(page, block):
            continue
        if ">>>" not in block.text and "reference" not in page:  # its comments are for people
            exec(block.text, names)
            continue
        test = doctest.DocTest(list(examples(block.text)), {}, page, page, 0, block.text)
        test.globs = names  # it copies those that it is given
        runner.run(test, out=said.append, clear_globs=False)
    return "".join(said)


def not_run(page: str, block: Block) -> bool:
    return any(block.text.startswith(start) for start in NOT_RUN.get(page, {}))


LONG = {"train-from-python.md", "run-from-python.md", "predict-a-number.md", "tidegate.md"}
"""Pages that take more than a second."""

WITH_PYTHON = [
    pytest.param(page, marks=[pytest.mark.thorough] if page.name in LONG else [], id=name_of(page))
    for page in PAGES
    if any(sections(page))
]


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_python_runs_as_printed(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for section in sections(page):
        assert failures(section, name_of(page)) == ""


def test_a_missing_import_and_a_wrong_result_are_found() -> None:
    page = "docs/reference/made-up.md"
    assert "NameError" in failures([Block("python", "sqrt(4)\n# 2.0\n")], page)
    right = "from math import sqrt\n\nsqrt(4)\n# 2.0\n"
    assert failures([Block("python", right)], page) == ""
    assert "Expected:\n    2.5\n" in failures([Block("python", right.replace("2.0", "2.5"))], page)


def free_names(text: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(text)))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not _loads(node)}
    bound |= {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return used - bound - set(vars(builtins))


def _loads(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


@pytest.mark.parametrize("page", NOT_RUN)
def test_code_that_is_not_run_names_what_the_reader_must_bring(page: str) -> None:
    for start, (_, brought) in NOT_RUN[page].items():
        (block,) = [each for each in blocks(ROOT / page, "python") if each.text.startswith(start)]
        assert free_names(block.text) == brought


def printed_commands(page: Path) -> Iterator[tuple[str, list[str]]]:
    """The commands of a page that need no file, each with the lines printed below its `$`."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        found = re.match(rf"(    )?(\$ )?tidegate ((?:{'|'.join(PLANS)})\b.*)$", line)
        if found is None:
            continue
        below = []
        for each in lines[number + 1 :] if found[2] else []:
            if each.startswith(("```", f"{found[1] or ''}$ ")) or (found[1] and each[:4].strip()):
                break
            below.append(each.removeprefix(found[1] or "").rstrip())
        yield found[3], [each for each in below if each and each != "..."]


WITH_PLANS = [page for page in PAGES if any(True for _ in printed_commands(page))]


@pytest.mark.thorough
@pytest.mark.parametrize("page", WITH_PLANS, ids=name_of)
def test_plans_are_as_printed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command, below in printed_commands(page):
        done = tidegate(*shlex.split(command, comments=True))
        assert done.returncode == 0, (command, done.stderr)
        printed = iter([line.rstrip() for line in done.stdout.splitlines()])
        missing = [line for line in below if line not in printed]  # in order
        assert missing == [], command


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks(page, "toml") and page.name != "tutorial.md"],
    ids=name_of,
)
def test_configurations_are_accepted(page: Path) -> None:
    """Those that are whole; parts are TOML, but for the tutorial's, which are single lines."""
    for block in blocks(page, "toml"):
        tables = tomllib.loads(block.text)
        if {"schedule", "budget", "records"} <= tables.keys() and "members" not in tables:
            Config.parse(block.text)
