"""Converts docstrings to Markdown."""

import re
from collections.abc import Callable
from doctest import DocTestParser, Example
from itertools import groupby

from reference.markdown import code

SECTION = re.compile(r"(?m)^(Args|Attributes|Returns|Raises|Yields):\n((?:(?: {4}.*)?(?:\n|\Z))+)")
ITEM = re.compile(r"(?m)^ {4}(\*{0,2}\w+): ")
TITLES = {"Args": "Parameters:", "Attributes": "Attributes:"}


def to_markdown(docstring: str, imports: Callable[[str], list[str]] = lambda _: []) -> str:
    """Convert a docstring: parameters to lists, examples to code blocks.

    Args:
        docstring: What to convert.
        imports: Given the code of all its examples, the imports to print before the first one.
    """
    pieces = [each for each in DocTestParser().parse(docstring) if not _blank(each)]
    groups = [list(group) for _, group in groupby(pieces, type)]
    sources = [each.source for each in pieces if isinstance(each, Example)]
    before = imports("".join(sources))
    parts = []
    for each in groups:
        if isinstance(each[0], str):
            parts.append(_prose(each[0]))
        else:
            parts.append(_code(before, each))
            before = []
    return "\n\n".join(parts)


def _blank(piece: str | Example) -> bool:
    return isinstance(piece, str) and not piece.strip()


def _code(imports: list[str], examples: list[str | Example]) -> str:
    """Examples as code to copy, with the output in comments."""
    lines = [*imports, ""] if imports else []
    for each in examples:
        if isinstance(each, Example):
            lines += each.source.rstrip("\n").split("\n")
            lines += [
                f"# {line}".rstrip() for line in each.want.replace("<BLANKLINE>", "").splitlines()
            ]
    return code("\n".join(lines), "python")


def _prose(text: str) -> str:
    return SECTION.sub(_section, text.strip("\n") + "\n").strip("\n")


def _section(match: re.Match[str]) -> str:
    title, body = match.groups()
    _, *items = ITEM.split(body) if title in {*TITLES, "Raises"} else ("",)
    if not items:
        return f"{title}: {_one_line(body)}\n\n"
    pairs = zip(items[::2], items[1::2], strict=True)
    listed = "\n".join(f"- `{name}`: {_one_line(text)}" for name, text in pairs)
    return f"{TITLES.get(title, f'{title}:')}\n\n{listed}\n\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())
