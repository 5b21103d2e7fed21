"""The `tidegate` command: its commands, and how all of them end."""

import io
import os
import sys
import traceback
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from tidegate.checks import InvalidValueError, StoreError
from tidegate.cli.memory import check_room, explain, lacking

GROUPS = {
    "try": {
        "demo": ("demo", "See private models follow a stream that drifts."),
        "paper": ("paper", "Draw the figures of the paper again."),
        "explain": ("explain", "Say what a term means: share, ledger, epsilon, ..."),
    },
    "plan": {
        "plan": ("plan", "Show what is released when, and what each record pays."),
        "compare": ("compare", "Compare schedules and budgets on public records."),
        "init": ("init", "Write a configuration with comments, to start from."),
    },
    "run": {
        "run": ("run", "Run a gate on its sources, from where it stopped."),
        "ingest": ("run", "Add the records of a file to a state."),
        "fleet": ("fleet", "Run, watch and verify many streams."),
    },
    "look": {
        "status": ("state", "Say what a state holds, and why raw data is kept."),
        "ledger": ("state", "Say what the records have paid."),
        "releases": ("state", "List the releases: what they know and cost."),
        "verify": ("state", "Recompute plan, ledger, hash chain and checksums."),
    },
    "share": {
        "export": ("export", "Write a release or its card to a file."),
        "predict": ("export", "Predict the class of each record in a file."),
    },
    "operate": {
        "serve": ("serve", "Serve a gate over HTTP, with a page to watch it on."),
        "token": ("token", "Make, list and revoke the tokens of a served state."),
    },
}
"""The commands by purpose: in which module of this package each is, and what it does."""

COMMANDS = {name: known for group in GROUPS.values() for name, known in group.items()}

LIGHT = {"plan", "explain"}
"""Commands that run without numpy."""


CLOSING = "Options: -h, --version, --traceback. Of a command: tidegate COMMAND --help"


class Commands(click.Group):
    """Loads a command when it is asked for: planning needs nothing of what running needs.

    To list or to complete their names none is loaded: nobody waits a second for a word.
    """

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands by purpose, on one screen of 24 lines."""
        formatter.write("Usage: tidegate COMMAND [OPTIONS] ...\n\n")
        formatter.write(
            "Release a fresh private model at every step of a stream, under one bound.\n\n"
        )
        for purpose, commands in GROUPS.items():
            for index, (name, (_, about)) in enumerate(commands.items()):
                heading = "" if index else f"{purpose}:"
                formatter.write(f"  {heading:<9}{name:<10}{about}\n")
        formatter.write(f"\n{CLOSING}\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take `help TOPIC` for the help of a command, or for the meaning of a term."""
        if args[:1] == ["help"]:
            topic = args[1:]
            known = not topic or topic[0] in COMMANDS
            args = [*topic, "--help"] if known else ["explain", *topic]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a name, or an option of all commands."""
        names = [name for name in COMMANDS if name.startswith(incomplete)]
        found = [CompletionItem(name, help=COMMANDS[name][1]) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Their names."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name."""
        if cmd_name not in COMMANDS and ctx.resilient_parsing:
            return None  # the shell asks for completions
        if cmd_name not in COMMANDS:
            near = get_close_matches(cmd_name, COMMANDS, n=1)
            hint = f"did you mean {near[0]}?" if near else "tidegate --help lists all"
            raise click.UsageError(f"no command {cmd_name!r}: {hint}")
        if cmd_name not in LIGHT:
            check_room()
        module = import_module(f"tidegate.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("tidegate"), message="tidegate %(version)s")
@click.option("--traceback", is_flag=True, help="Show where in the program an error came up.")
def tidegate(traceback: bool) -> None:
    """Release a fresh private model at every step of a stream, under one fixed bound."""


def main() -> None:  # noqa: C901 (a list of endings)
    """Run a command; end with 0, with 2 for the user's mistake or with 1 for ours."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our characters shows ?
    if "_TIDEGATE_COMPLETE" in os.environ:
        tidegate(prog_name="tidegate")  # the shell asks for completions
    try:
        with tidegate.make_context("tidegate", sys.argv[1:]) as context:
            tidegate.invoke(context)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        usage = getattr(error, "ctx", None)
        help_ = f"; see {usage.command_path} --help" if usage else ""
        _fail(f"{error.format_message().rstrip('.')}{help_}", 2)
    except (InvalidValueError, StoreError) as error:
        _fail(str(error), 2)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", 130)
    except BrokenPipeError:
        # The reader of a pipe (head, less) has seen enough; nothing more can be told to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:  # the last resort: a program owes its user one line
        if lacking(error):
            _fail(explain(), 2)
        if isinstance(error, OSError):
            _fail(f"{error.strerror or error}: {error.filename or 'the output'}", 2)
        command = "tidegate --traceback " + " ".join(sys.argv[1:2])
        _fail(f"this is a bug in tidegate ({type(error).__name__}); see it with {command} ...", 1)


def _fail(message: str, code: int) -> NoReturn:
    if "--traceback" in sys.argv:
        traceback.print_exc()
    lines = "; ".join(message.strip().splitlines())  # a configuration may have several mistakes
    print(f"tidegate: {' '.join(lines.split())}", file=sys.stderr)
    sys.exit(code)
