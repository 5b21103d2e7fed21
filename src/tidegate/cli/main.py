"""The `tidegate` command: its commands, and how all of them end."""

import os
import sys
from importlib.metadata import version

import click

from tidegate.checks import InvalidValueError
from tidegate.cli.plan import plan


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("tidegate"), message="tidegate %(version)s")
@click.option("--traceback", is_flag=True, help="Show where in the program an error came up.")
def tidegate(traceback: bool) -> None:
    """Release a fresh private model at every step of a stream, under one fixed bound."""


tidegate.add_command(plan)


def main() -> None:
    """Run a command; end with 0, with 2 for the user's mistake or with 1 for ours."""
    if "--traceback" in sys.argv:
        sys.exit(tidegate(standalone_mode=False))
    try:
        sys.exit(tidegate(standalone_mode=False))
    except click.ClickException as error:
        _fail(error.format_message(), 2)
    except InvalidValueError as error:
        _fail(str(error), 2)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", 130)
    except BrokenPipeError:
        # The reader of a pipe (head, less) has seen enough; nothing more can be told to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:  # the last resort of a program that owes its user one line
        _fail(f"this is a bug in tidegate ({type(error).__name__}); see it with --traceback", 1)


def _fail(message: str, code: int) -> None:
    print(f"tidegate: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)
