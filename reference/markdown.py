"""Pieces of Markdown that all pages are made of."""

from collections.abc import Iterable, Sequence


def heading(level: int, text: str) -> str:
    """A heading."""
    return f"{'#' * level} {text}"


def anchor(text: str) -> str:
    """What links to a heading end with."""
    kept = "".join(each for each in text.lower() if each.isalnum() or each in " -_")
    return f"#{kept.replace(' ', '-')}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar inside a cell does not end it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )


def code(text: str, language: str = "") -> str:
    """A block of code."""
    return f"```{language}\n{text}\n```"


def sentence(text: str) -> str:
    """A few words as a sentence."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def page(*parts: str) -> str:
    """A page of parts; empty ones are left out."""
    note = "<!-- Written by `make reference`. Do not edit: change what it describes. -->"
    return "\n\n".join([note, *(part for part in parts if part)]) + "\n"
