"""The `tidegate` command: its commands, and how all of them end."""

import io
import os
import sys
import traceback
from importlib import import_module
from importlib.metadata import version
from typing import NoReturn

import click

from tidegate.checks import InvalidValueError, StoreError

COMMANDS = {
    "demo": "demo",
    "plan": "plan",
    "init": "init",
    "run": "run",
    "ingest": "run",
    "status": "state",
    "ledger": "state",
    "releases": "state",
    "verify": "state",
    "export": "export",
    "predict": "export",
    "serve": "serve",
    "token": "token",
}
"""In which module of this package each command is, in the order in which one meets them."""


class Commands(click.Group):
    """Loads a command when it is asked for: planning needs nothing of what running needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Their names."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of a name."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"tidegate.cli.{COMMANDS[cmd_name]}")
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
        tidegate()  # the shell asks for completions
    try:
        with tidegate.make_context("tidegate", sys.argv[1:]) as context:
            tidegate.invoke(context)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _fail(error.format_message(), 2)
    except (InvalidValueError, StoreError) as error:
        _fail(str(error), 2)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", 130)
    except BrokenPipeError:
        # The reader of a pipe (head, less) has seen enough; nothing more can be told to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        _fail(f"{error.strerror or error}: {error.filename or 'the output'}", 2)
    except Exception as error:  # the last resort: a program owes its user one line
        command = "tidegate --traceback " + " ".join(sys.argv[1:2])
        _fail(f"this is a bug in tidegate ({type(error).__name__}); see it with {command} ...", 1)


def _fail(message: str, code: int) -> NoReturn:
    if "--traceback" in sys.argv:
        traceback.print_exc()
    print(f"tidegate: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)
