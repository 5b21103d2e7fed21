"""`tidegate fleet`: many streams from one configuration, each with its own state."""

import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress

from tidegate.checks import InvalidValueError, StoreError
from tidegate.cli import options
from tidegate.cli.fleet import Fleet, Member, MemberStatus, Turn, member_row, run_fleet
from tidegate.cli.options import PATH, count
from tidegate.gate import Gate
from tidegate.run.step_admission import WARN_BELOW_SHARE
from tidegate.state.damage import Problem
from tidegate.state.inspecting import Consent
from tidegate.state.store import NoStateError
from tidegate.state.verification import verify as problems_of

NOT_IN_TABLE = {
    "admitted",
    "epsilon",
    "delta",
    "steps_waiting",
    "held_records",
    "held_bytes",
    "why",
}
"""Fields that only JSON, or lines below the table, show: the table has to fit 80 columns."""

RUN_EPILOG = """\b
Examples:
  tidegate fleet run fleet.toml --workers 8
  tidegate fleet run fleet.toml --follow
"""
STATUS_EPILOG = "\b\nExample:\n  tidegate fleet status fleet.toml\n"
VERIFY_EPILOG = "\b\nExample:\n  tidegate fleet verify fleet.toml --format json\n"
EPILOG = f"""{RUN_EPILOG}\
  tidegate fleet status fleet.toml
  tidegate fleet verify fleet.toml --format json
"""


@click.group(epilog=EPILOG)
def fleet() -> None:
    """Run many streams from one FLEET file, each with its own state and ledger.

    FLEET is a TOML file: the configuration that all streams share, and a table [members.NAME] with
    the settings of each stream. {member} in a text stands for the member's name.
    """


def of_fleet(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument FLEET and the options --state and --format."""

    @wraps(command)
    def with_fleet(config: Path, state: Path | None, **more: Any) -> None:
        command(Fleet.load(config, state), **more)

    file = click.argument("config", metavar="FLEET", type=PATH)
    root = click.option(
        "--state", type=PATH, help="Folder for the states [FLEET with the extension .state]."
    )
    return file(root(options.form(with_fleet)))


@fleet.command(epilog=RUN_EPILOG, short_help="Run all members; each resumes where it stopped.")
@of_fleet
@click.option("--follow", is_flag=True, help="Keep running as the members' sources grow.")
@click.option("--workers", type=count(), help="Members that run at once [one per core].")
@options.quiet
def run(gates: Fleet, form: str, follow: bool, workers: int | None, quiet: bool) -> None:
    """Run all members, a few at a time; each resumes where it stopped.

    Members take turns, so none waits for another to finish. If one fails, the others continue; the
    command prints the reason and exits with 2.
    """
    count = min(workers or os.cpu_count() or 1, len(gates.members))
    with options.progress("{task.description}", quiet, form) as progress:
        reporter = _Reporter(progress, len(gates.members))
        statuses = run_fleet(gates, workers=count, follow=follow, on_turn=reporter.turn)
    if not quiet:
        _show(gates, form)
    if any(status.state == "failed" for status in statuses.values()):
        sys.exit(2)


class _Reporter:
    """Shows the progress of a fleet, and reports members that fail."""

    def __init__(self, progress: Progress, members: int) -> None:
        self._progress, self._members = progress, members
        self._task = progress.add_task("", total=None)
        self._turns: dict[str, Turn] = {}
        self._statuses: dict[str, MemberStatus] = {}

    def turn(self, member: Member, status: MemberStatus, turn: Turn) -> None:
        """Report the end of a turn."""
        if status.state == "failed" and status != self._statuses.get(member.name):
            options.say(f"tidegate: {member.name} failed: {status.why}", err=True)
        if status.state != "failed":
            self._turns[member.name] = turn
        self._statuses[member.name] = status
        states = Counter(each.state for each in self._statuses.values())
        states["running"] += self._members - len(self._statuses)
        records = sum(each.records for each in self._turns.values())
        releases = sum(each.releases for each in self._turns.values())
        counts = ", ".join(f"{n:,} {state}" for state, n in states.items() if n)
        line = f"{records:,} records, {releases:,} releases: {counts}"
        self._progress.update(self._task, description=line)


@fleet.command(epilog=STATUS_EPILOG, short_help="Show the status of each member.")
@of_fleet
def status(gates: Fleet, form: str) -> None:
    """Show each member's status, records and releases.

    For the operator only: the exact number of unusable records is in no release.
    """
    _show(gates, form)


def _show(gates: Fleet, form: str) -> None:
    statuses = gates.statuses()
    rows = [member_row(member, statuses[member.name]) for member in gates.members]
    if form == "json":
        options.show(rows, form)
        return
    narrow = [{name: row[name] for name in row if name not in NOT_IN_TABLE} for row in rows]
    options.show(narrow, form, folded="member")
    for row in rows:
        if row["why"]:
            options.say(f"{row['member']} failed: {row['why']}")
        if row["admitted"] is not None and row["admitted"] < WARN_BELOW_SHARE:
            options.say(
                f"{row['member']}: {row['admitted']:.1%} of the newest step's records count; "
                "its tidegate status says what to do"
            )


@fleet.command(epilog=VERIFY_EPILOG, short_help="Verify the state of each member.")
@of_fleet
@click.option("--connect", is_flag=True, help="Connect to whatever server a state says it is on.")
@options.quiet
def verify(gates: Fleet, form: str, connect: bool, quiet: bool) -> None:
    """Verify the state of each member as `tidegate verify` does; exit with 1 on any problem.

    Nothing is written. A member's state on a server that FLEET does not name is a problem.
    """
    by_member: dict[str, list[Problem]] = {}
    with options.progress("{task.description}", quiet, form) as progress:
        task = progress.add_task("", total=None)
        for member in gates.members:
            progress.update(task, description=member.name)
            by_member[member.name] = _problems(member, connect=connect)
    for name, problems in by_member.items():
        row = {"member": name, "sound": not problems, "problems": list(map(asdict, problems))}
        options.answer(row, form, *(f"{name}: {each.where}: {each.what}" for each in problems))
    if any(by_member.values()):
        sys.exit(1)
    if form == "table" and not quiet:
        options.say(f"Sound: {len(by_member):,} members.")


def _problems(member: Member, *, connect: bool) -> list[Problem]:
    consent = Consent(connect=connect, locations=member.config.locations())
    try:
        with Gate.inspect(member.folder, consent) as gate:
            return list(problems_of(gate))
    except NoStateError:
        return []  # the member has not started
    except (InvalidValueError, StoreError) as error:
        return [Problem(where=str(member.folder), what=str(error))]
