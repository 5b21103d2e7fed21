"""What reaches the terminal: no control character of a text that somebody else wrote.

A card, a column or a file can be named so that a terminal moves its cursor, hides a line or paints
one. All output of the command passes here: `escaping` guards what is printed, and `Screen` what
rich draws, which writes control characters of its own.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

UNSAFE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and newline
    "\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, or reorder
    "\ud800-\udfff\U000e0000-\U000e007f"
)
CONTROL = re.compile(f"[{UNSAFE}]")
BREAKING = re.compile(f"[{UNSAFE}\t\n]")


def escaped(text: str) -> str:
    r"""A text whose control characters are written out, except tabs and ends of lines.

    >>> escaped("\x1b[2JSound\n")
    '\\u001b[2JSound\n'
    """
    return CONTROL.sub(_written_out, text)


def one_line(text: str) -> str:
    r"""A text as one line.

    >>> one_line("a\nSound: all")
    'a\\u000aSound: all'
    """
    return BREAKING.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code < 2**16 else f"\\U{code:08x}"


class Escaped:
    """A stream of text that writes out control characters."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text."""
        return self.stream.write(escaped(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts."""
        self.stream.writelines(map(escaped, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def escaping() -> Iterator[None]:
    """A context in which standard output and standard error write out control characters."""
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", Escaped(stream)) for stream in (out, err))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err


class Screen(Console):
    """A rich console on standard output or standard error; texts are shown as they are.

    Nothing in brackets is markup, unless a caller asks for it.
    """

    def __init__(self, *, stderr: bool = False, **more: Any) -> None:
        stream = sys.stderr if stderr else sys.stdout
        file = stream.stream if isinstance(stream, Escaped) else stream
        super().__init__(file=file, highlight=False, **{"markup": False, **more})

    def say(self, text: str) -> None:
        """Print one line, whatever is quoted in it."""
        self.print(one_line(text))

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render an object; the control characters of its texts are written out."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))
