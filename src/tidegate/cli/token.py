"""`tidegate token`: who may use the service of a state."""

import json
import os
import re
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from tidegate.checks import StoreError, refuse
from tidegate.cli import options
from tidegate.cli.types import Read
from tidegate.gate.opening import holds_state
from tidegate.serve.audit import Audit
from tidegate.serve.tokens import SCOPES, Tokens

EPILOG = """\b
Examples:
  tidegate token create tidegate.state --name app --scope ingest
  tidegate token create tidegate.state --name dashboard --scope read --expires 30d
  tidegate token list tidegate.state
  tidegate token revoke tidegate.state dashboard
"""

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _duration(name: str, value: Any) -> timedelta:
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", str(value))
    if match is None:
        raise refuse(name, "how long from now on, such as 30d, 12h or 15m", value)
    return timedelta(**{UNITS[match[2]]: int(match[1])})


DURATION = Read("DURATION", _duration)


@click.group(epilog=EPILOG)
def token() -> None:
    """Make, list and revoke the tokens of a state's service, also while it runs.

    A scope is ingest (send records), read (see what is published, predict) or admin (see who did
    what). No scope reads records.
    """


@token.command()
@options.state
@click.option("--name", required=True, help="What it is called in the audit log.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice(SCOPES),
    help="What it may do; once for each.",
)
@click.option("--expires", type=DURATION, help="After how long it is worth nothing: 30d, 12h.")
@options.form
def create(
    state: Path, name: str, scopes: tuple[str, ...], expires: timedelta | None, form: str
) -> None:
    """Make a token and show it, this once: only its hash is kept."""
    secret = _tokens(state).create(name, scopes, expires)
    Audit(state).note(name, "token create", 200, scopes=scopes, user=os.getuid())
    click.echo(json.dumps({"name": name, "token": secret}) if form == "json" else secret)


@token.command("list", short_help="List the tokens: what they are called and may do.")
@options.state
@options.form
def listed(state: Path, form: str) -> None:
    """List the tokens: what they are called and may do, not what they are."""
    now, rows = datetime.now(UTC), []
    for each in _tokens(state).all():
        row = {**asdict(each), "scopes": " ".join(each.scopes), "valid": each.valid(now)}
        del row["hash"]
        rows.append(row)
    options.show(rows, form, folded="name")


@token.command()
@options.state
@click.argument("name")
@options.form
def revoke(state: Path, name: str, form: str) -> None:
    """Make a token worth nothing, at once."""
    _tokens(state).revoke(name)
    Audit(state).note(name, "token revoke", 200, user=os.getuid())
    told = json.dumps({"name": name, "valid": False})
    click.echo(told if form == "json" else f"{name} is revoked")


def _tokens(state: Path) -> Tokens:
    if not holds_state(state):
        raise StoreError(f"{state} holds no state: make one with tidegate serve or tidegate run")
    return Tokens(state)
