"""`tidegate fleet`: many streams in one configuration, each with a state of its own."""

import json
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

from tidegate.checks import StoreError
from tidegate.cli import options
from tidegate.cli.fleet_scheduler import Turn, run_fleet
from tidegate.cli.types import PATH, count
from tidegate.gate.fleet import Fleet, Member, MemberStatus, member_row
from tidegate.gate.gate import Gate
from tidegate.gate.store import NoStateError, Problem
from tidegate.gate.verify import verify as problems_of

EPILOG = """\b
Examples:
  tidegate fleet run fleet.toml --workers 8
  tidegate fleet run fleet.toml --follow
  tidegate fleet status fleet.toml
  tidegate fleet verify fleet.toml --format json
"""

ASIDE = {"epsilon", "delta", "held_records", "held_bytes", "why"}
"""What the table of `status` leaves to JSON, and to lines below it: it has to fit 80 columns."""


@click.group(epilog=EPILOG)
def fleet() -> None:
    """Run many streams, each with a state and a ledger of its own, from one FLEET.toml.

    It is the configuration that all share, with a table [members.NAME] for each stream that says
    what is its own. A text that has {member} in it has the name there.
    """


def of_fleet(command: Callable[..., None]) -> Callable[..., None]:
    """A command that is told of a fleet, and how to print."""

    @wraps(command)
    def loaded(config: Path, state: Path | None, **more: Any) -> None:
        command(Fleet.load(config, state), **more)

    file = click.argument("config", metavar="FLEET", type=PATH)
    root = click.option(
        "--state",
        type=PATH,
        help="Where the states are kept; by default beside FLEET, under its name.",
    )
    return file(root(options.form(loaded)))


@fleet.command(short_help="Run all members, from where each stopped.")
@of_fleet
@click.option("--follow", is_flag=True, help="Go on with all members as their sources grow.")
@click.option("--workers", type=count(), help="Members at a time; by default as there are cores.")
@options.quiet
def run(known: Fleet, form: str, follow: bool, workers: int | None, quiet: bool) -> None:
    """Run all members, a few at a time, from where each stopped the last time.

    They take turns, so that none waits for another to end. One that fails does not stop the
    others: it is named with the reason, and the command ends with 2.
    """
    count = min(workers or os.cpu_count() or 1, len(known.members))
    with options.progress("{task.description}", quiet, form) as progress:
        said = _Said(progress, len(known.members))
        statuses = run_fleet(known, workers=count, follow=follow, told=said.turn)
    if not quiet:
        _show(known, form)
    if any(status.state == "failed" for status in statuses.values()):
        sys.exit(2)


class _Said:
    """What a run says while it goes on: how far all are, and who has failed."""

    def __init__(self, progress: Progress, members: int) -> None:
        self._progress, self._members = progress, members
        self._task = progress.add_task("", total=None)
        self._turns: dict[str, Turn] = {}
        self._statuses: dict[str, MemberStatus] = {}

    def turn(self, member: Member, status: MemberStatus, turn: Turn) -> None:
        """Say that a turn has ended."""
        if status.state == "failed" and status != self._statuses.get(member.name):
            click.echo(f"tidegate: {member.name} failed: {status.why}", err=True)
        if status.state != "failed":
            self._turns[member.name] = turn
        self._statuses[member.name] = status
        states = Counter(each.state for each in self._statuses.values())
        states["running"] += self._members - len(self._statuses)
        records = sum(each.records for each in self._turns.values())
        releases = sum(each.releases for each in self._turns.values())
        each = ", ".join(f"{n:,} {state}" for state, n in states.items() if n)
        told = f"{records:,} records, {releases:,} releases: {each}"
        self._progress.update(self._task, description=told)


@fleet.command(short_help="Say what each member holds and has released.")
@of_fleet
def status(known: Fleet, form: str) -> None:
    """Say what each member holds and has released, and what became of it.

    It counts records that cannot be used, which no release tells: for the operator only.
    """
    _show(known, form)


def _show(known: Fleet, form: str) -> None:
    statuses = known.statuses()
    rows = [member_row(member, statuses[member.name]) for member in known.members]
    if form == "json":
        options.show(rows, form)
        return
    narrow = [{name: row[name] for name in row if name not in ASIDE} for row in rows]
    options.show(narrow, form, folded="member")
    for row in rows:
        if row["why"] is not None:
            click.echo(f"{row['member']} failed: {row['why']}")


@fleet.command(short_help="Verify the state of each member.")
@of_fleet
@options.quiet
def verify(known: Fleet, form: str, quiet: bool) -> None:
    """Verify the state of each member as `tidegate verify` does; end with 1 if one is unsound."""
    found: dict[str, list[Problem]] = {}
    with options.progress("{task.description}", quiet, form) as progress:
        task = progress.add_task("", total=None)
        for member in known.members:
            progress.update(task, description=member.name)
            found[member.name] = _problems(member)
    for name, problems in found.items():
        if form == "json":
            told = [asdict(each) for each in problems]
            click.echo(json.dumps({"member": name, "sound": not problems, "problems": told}))
        for problem in problems if form == "table" else []:
            click.echo(f"{name}: {problem.where}: {problem.what}")
    if any(found.values()):
        sys.exit(1)
    if form == "table" and not quiet:
        click.echo(f"Sound: {len(found):,} members.")


def _problems(member: Member) -> list[Problem]:
    try:
        with Gate.look(member.folder) as gate:
            return list(problems_of(gate))
    except NoStateError:
        return []  # it has not begun
    except StoreError as error:
        return [Problem(where=str(member.folder), what=str(error))]
