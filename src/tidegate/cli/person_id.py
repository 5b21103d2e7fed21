"""Read the id of a person from standard input, so that no shell history or process list has it."""

import sys

import click

from tidegate.checks import InvalidValueError

MAX_ID_BYTES = 2**20
"""The most bytes that are read."""


class ReadsId(click.Command):
    """A command whose --person reads an id from standard input; one on the command line is refused.

    The message does not quote it.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See click."""
        named = "--person" in args
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if named and "unexpected extra argument" in error.message:
                advice = "--person reads the id from standard input: --person < id.txt"
                raise click.UsageError(advice, ctx) from None
            raise


def read_id() -> str:
    """The id of a person: one line of standard input, or what is typed without being shown."""
    if sys.stdin.isatty():
        text: str = click.prompt("Id of the person", hide_input=True, err=True)
        return text
    data = sys.stdin.buffer.read(MAX_ID_BYTES + 1)
    line = data.removesuffix(b"\n").removesuffix(b"\r")
    if b"\n" in line:
        raise InvalidValueError("standard input must be the id of one person, on one line")
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise InvalidValueError("the id on standard input must be UTF-8 text") from None
