"""Read the id of a person from standard input, so that no shell history or process list has it."""

import sys

import click

from tidegate.checks import InvalidValueError

MOST = 2**20
"""The most bytes that are read."""


def read_id() -> str:
    """The id of a person: one line of standard input, or what is typed without being shown."""
    if sys.stdin.isatty():
        text: str = click.prompt("Id of the person", hide_input=True, err=True)
        return text
    data = sys.stdin.buffer.read(MOST + 1)
    line = data.removesuffix(b"\n").removesuffix(b"\r")
    if b"\n" in line:
        raise InvalidValueError("standard input must be the id of one person, on one line")
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise InvalidValueError("the id on standard input must be UTF-8 text") from None
