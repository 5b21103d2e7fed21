"""The `tidegate` command: its list of commands, and its exit codes."""

import os
import sys
import traceback
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from tidegate import plugins
from tidegate.checks import InvalidValueError, StoreError
from tidegate.cli.memory import check_room, explain, explain_os_error, lacking
from tidegate.cli.screen import escaping, one_line

ELSEWHERE = ""
"""In place of a module: another package has the command, and adds it by an entry point."""

GROUPS = {
    "try": {
        "demo": ("demo_command", "Watch private models follow a drifting stream."),
        "paper": (ELSEWHERE, "Reproduce the paper's figures."),
        "explain": ("explain_command", "Explain a term: share, ledger, epsilon, ..."),
    },
    "plan": {
        "plan": ("plan_command", "Show when models are released and what each record pays."),
        "compare": ("compare_command", "Compare schedules and budgets on public records."),
        "init": ("init_command", "Write a commented configuration to start from."),
        "check": ("check_command", "Show how a file would be read; nothing is charged."),
    },
    "run": {
        "run": ("run_command", "Run a gate on its sources; resumes where it stopped."),
        "ingest": ("run_command", "Add the records of a file to a state."),
        "fleet": ("fleet_command", "Run, inspect and verify many streams."),
    },
    "inspect": {
        "status": ("state_commands", "Show what a state holds, and why raw data is kept."),
        "ledger": ("state_commands", "Show how much of their budget records have paid."),
        "releases": ("state_commands", "List the releases: training data, cost, accuracy."),
        "survey": ("survey_command", "Show class shares, features and drift, privately."),
        "verify": ("verify_command", "Check plan, ledger, hash chain and checksums."),
    },
    "use": {
        "export": ("export_command", "Write a release or its card to a file."),
        "predict": ("predict_command", "Predict the class or the number of each record in a file."),
        "weights": ("weights_command", "Show the weights of a release by feature."),
    },
    "operate": {
        "serve": ("serve_command", "Serve a gate over HTTP, with a live page."),
        "upgrade": ("upgrade_command", "Upgrade a state to the layout of this version."),
        "token": ("token_command", "Create, list and revoke access tokens."),
        "erase": ("erase_command", "Destroy what is held of a record or a person."),
    },
}
"""The commands by purpose, each with its module in this package and a summary."""

COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}

LIGHT = {"plan", "explain"}
"""Commands that run without numpy."""


OPENING = "Train a fresh private model at every step of a stream: tidegate COMMAND --help"


class Commands(click.Group):
    """Loads a command's module only when the command is used, so that light commands start fast.

    Listing and completing names loads no module.
    """

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands by purpose, on one screen of 24 lines."""
        formatter.write(f"{OPENING}\n")
        for purpose, commands in GROUPS.items():
            for index, (name, (_, about)) in enumerate(commands.items()):
                heading = "" if index else f"{purpose}:"
                formatter.write(f"  {heading:<9}{name:<10}{about}\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read `help TOPIC` as a request for a command's help or a term's definition."""
        if args[:1] == ["help"]:
            topic = args[1:]
            is_command = not topic or topic[0] in COMMANDS
            args = [*topic, "--help"] if is_command else ["explain", *topic]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command, or an option before it."""
        names = [name for name in COMMANDS if name.startswith(incomplete)]
        commands = [CompletionItem(name, help=COMMANDS[name][1]) for name in names]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command by its name, from this package or from another that adds it."""
        if cmd_name not in LIGHT:
            check_room()
        module, _ = COMMANDS.get(cmd_name, (ELSEWHERE, ""))
        if module != ELSEWHERE:
            own: click.Command = getattr(import_module(f"tidegate.cli.{module}"), cmd_name)
            return own
        added = plugins.added(plugins.COMMANDS)
        if cmd_name in added:
            other: click.Command = plugins.load(added[cmd_name])
            return other
        if ctx.resilient_parsing:
            return None  # the shell requests completions
        if cmd_name in COMMANDS:
            raise InvalidValueError(f"tidegate {cmd_name} is not installed: {plugins.LAB}")
        near = get_close_matches(cmd_name, COMMANDS, n=1)
        hint = f"did you mean {near[0]}?" if near else "tidegate --help lists all commands"
        raise click.UsageError(f"no command {cmd_name!r}: {hint}")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("tidegate"), message="tidegate %(version)s")
@click.option("--traceback", is_flag=True, help="Show the Python traceback of an error.")
def tidegate(traceback: bool) -> None:
    """Train a fresh private model at every step of a stream, under one fixed budget."""


def main() -> None:
    """Run a command; exit with 0, with 2 after a user error or with 1 after a bug."""
    with escaping():
        _run()


def _run() -> None:  # noqa: C901 (one branch per exit code)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # print ? for what the terminal cannot show
    if "_TIDEGATE_COMPLETE" in os.environ:
        tidegate(prog_name="tidegate")  # the shell requests completions
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
        message = " ".join(error.format_message().split())  # choices are listed over several lines
        _fail(f"{message.rstrip('.')}{help_}", 2)
    except (InvalidValueError, StoreError) as error:
        _fail(str(error), 2)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", 130)
    except BrokenPipeError:
        # The reader of a pipe (head, less) has quit: discard the rest of the output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:  # last resort: one line instead of a traceback
        if lacking(error):
            _fail(explain(), 2)
        if isinstance(error, OSError):
            _fail(explain_os_error(error, "the output"), 2)
        command = "tidegate --traceback " + " ".join(sys.argv[1:2])
        kind = type(error).__name__
        _fail(f"this is a bug in tidegate ({kind}); for details run {command} ...", 1)


def _fail(message: str, code: int) -> NoReturn:
    if "--traceback" in sys.argv:
        traceback.print_exc()
    lines = "; ".join(message.strip().splitlines())  # a configuration may have several errors
    line = one_line(" ".join(lines.split()))  # a file may name its columns as it likes
    print(f"tidegate: {line}", file=sys.stderr)
    sys.exit(code)
