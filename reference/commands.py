"""The command-line reference, generated from the commands."""

import inspect
import re
from collections.abc import Iterator

import click

from reference.markdown import anchor, code, heading, page, table
from tidegate.cli.main import tidegate

INTRODUCTION = """\
All commands and options, as `tidegate COMMAND --help` shows them.

Every command exits with 0 on success, with 2 after a user error, and with 1 after a bug in Tidegate or if `verify` finds a
problem. Errors go to standard error, in one line. Every command has `-h` and `--help`."""


def command_page() -> str:
    """The page of all commands."""
    contexts = list(_walk(click.Context(tidegate, info_name="tidegate")))
    rows = [
        (f"[`{ctx.command_path}`]({anchor(ctx.command_path)})", ctx.command.get_short_help_str(200))
        for ctx in contexts
    ]
    parts = [part for ctx in contexts for part in _described(ctx)]
    title = heading(1, "Command-line reference")
    return page(title, INTRODUCTION, table(("command", "what it does"), rows), *parts)


def _walk(ctx: click.Context) -> Iterator[click.Context]:
    """The contexts of a command and of all its subcommands."""
    yield ctx
    if not isinstance(group := ctx.command, click.Group):
        return
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is not None and not command.hidden:
            yield from _walk(click.Context(command, info_name=name, parent=ctx))


def _described(ctx: click.Context) -> Iterator[str]:
    command = ctx.command
    yield heading(2, ctx.command_path)
    yield code(" ".join(["Usage:", ctx.command_path, *command.collect_usage_pieces(ctx)]))
    yield _prose(command.help or "")
    options = [each for each in command.params if isinstance(each, click.Option)]
    records = [each.get_help_record(ctx) for each in options]
    if rows := [_option(*record) for record in records if record]:
        yield table(("option", "meaning"), rows)
    yield _prose(command.epilog or "")


def _option(usage: str, meaning: str) -> tuple[str, str]:
    """An option and its meaning, which lists the choices."""
    text = " ".join(meaning.split())
    if not (choice := re.fullmatch(r"(.*) \[(.*\|.*)\]", usage)):
        return f"`{usage}`", text
    names = ", ".join(f"`{each}`" for each in choice[2].split("|"))
    return f"`{choice[1]}`", f"One of {names}. {text}"


def _prose(text: str) -> str:
    """Paragraphs as Markdown; one that click must not rewrap becomes a code block."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if not paragraph.startswith("\b"):
            parts.append(" ".join(paragraph.split()))
            continue
        laid_out = paragraph.removeprefix("\b").strip("\n")
        title, _, rest = laid_out.partition("\n")
        if title.startswith(" ") or not rest:
            title, rest = "", laid_out
        lines = re.sub(r"\\\n\s*", "", rest)  # join a command that is on two lines
        lines = re.sub(
            r"(?m)^( *\S.*?)( {2,})(\S)", r"\1\2# \3", lines
        )  # make remarks shell comments
        parts += [title, code(inspect.cleandoc(f"\n{lines}"), "sh")]
    return "\n\n".join(filter(None, parts))
