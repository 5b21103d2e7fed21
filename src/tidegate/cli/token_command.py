"""`tidegate token`: create, list and revoke the tokens of a state's service."""

import os
import re
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from tidegate.checks import refuse
from tidegate.cli import options
from tidegate.cli.options import Read
from tidegate.serve.access_tokens import SCOPES, Audit, Tokens
from tidegate.state.opening import holds_state, no_state

CREATE_EPILOG = """\b
Examples:
  tidegate token create tidegate.state --name app --scope ingest
  tidegate token create tidegate.state --name me --scope read --expires 30d
"""
LIST_EPILOG = "\b\nExample:\n  tidegate token list tidegate.state\n"
REVOKE_EPILOG = "\b\nExample:\n  tidegate token revoke tidegate.state me\n"
EPILOG = f"""{CREATE_EPILOG}\
  tidegate token list tidegate.state
  tidegate token revoke tidegate.state me
"""

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _duration(name: str, value: Any) -> timedelta:
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", str(value))
    if not match:
        raise refuse(name, "a duration such as 30d, 12h or 15m", value)
    return timedelta(**{UNITS[match[2]]: int(match[1])})


DURATION = Read("DURATION", _duration)


@click.group(epilog=EPILOG)
def token() -> None:
    """Create, list and revoke access tokens of a state's service, also while it runs.

    Scopes: ingest (send records), read (read what is published, predict), admin (read the audit
    log) and erase (erase records and persons). No scope can read records.
    """


@token.command(epilog=CREATE_EPILOG)
@options.state
@click.option("--name", required=True, help="Name of the token in the audit log.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice(SCOPES),
    help="What the token allows; repeat for several.",
)
@click.option("--expires", type=DURATION, help="Lifetime, such as 30d or 12h [no limit].")
@options.form
def create(
    state: Path, name: str, scopes: tuple[str, ...], expires: timedelta | None, form: str
) -> None:
    """Create a token and print it. It is shown only once: the state keeps its hash."""
    secret = _tokens(state).create(name, scopes, expires)
    Audit(state).note(name, "token create", 200, scopes=scopes, user=os.getuid())
    options.answer({"name": name, "token": secret}, form, secret)


@token.command("list", epilog=LIST_EPILOG, short_help="List the tokens and their scopes.")
@options.state
@options.form
def listed(state: Path, form: str) -> None:
    """List names, scopes and dates of the tokens, but not the tokens themselves."""
    now, rows = datetime.now(UTC), []
    for each in _tokens(state).all():
        row = {**asdict(each), "scopes": " ".join(each.scopes), "valid": each.valid(now)}
        del row["hash"]
        rows.append(row)
    options.show(rows, form, folded="name")


@token.command(epilog=REVOKE_EPILOG)
@options.state
@click.argument("name")
@options.form
def revoke(state: Path, name: str, form: str) -> None:
    """Revoke a token, with immediate effect."""
    _tokens(state).revoke(name)
    Audit(state).note(name, "token revoke", 200, user=os.getuid())
    options.answer({"name": name, "valid": False}, form, f"{name} is revoked")


def _tokens(state: Path) -> Tokens:
    if not holds_state(state):
        raise no_state(state)
    return Tokens(state)
