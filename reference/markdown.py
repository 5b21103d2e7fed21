"""The pieces of Markdown that pages consist of."""

from collections.abc import Iterable, Sequence


def heading(level: int, text: str) -> str:
    """A heading."""
    return f"{'#' * level} {text}"


def anchor(text: str) -> str:
    """The anchor of a heading, for links to it."""
    kept = "".join(each for each in text.lower() if each.isalnum() or each in " -_")
    return f"#{kept.replace(' ', '-')}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, with bars inside cells escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )


def code(text: str, language: str = "") -> str:
    """A block of code."""
    return f"```{language}\n{text}\n```"


def sentence(text: str) -> str:
    """A phrase as a sentence: capitalized and with a full stop."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def page(*parts: str) -> str:
    """A page made of its non-empty parts."""
    note = "<!-- Written by `make reference`. Do not edit: change the code that it describes. -->"
    return "\n\n".join([note, *(part for part in parts if part)]) + "\n"
