"""`tidegate erase`: destroy what a state holds of a record or of a person."""

import json
from pathlib import Path

import click

from tidegate.checks import StoreError
from tidegate.cli import options
from tidegate.cli.options import ReadsId, count, read_id
from tidegate.gate import Gate
from tidegate.state.lock import is_locked

EPILOG = """\b
Examples:
  tidegate erase tidegate.state --record 4096
  tidegate erase tidegate.state --person < id.txt
  tidegate erase tidegate.state --record 12 --stream target --format json
"""


@click.command(cls=ReadsId, epilog=EPILOG)
@options.state
@click.option(
    "--person", is_flag=True, help="Erase all records of the person whose id is on stdin."
)
@click.option("--record", type=count(least=0), help="Erase this record, counted from 0.")
@click.option("--stream", metavar="NAME", help="Stream of the record, if there are two.")
@options.form
def erase(state: Path, person: bool, record: int | None, stream: str | None, form: str) -> None:
    """Destroy what a state holds of a record or of a person, and print a receipt.

    The slots stay, as unusable ones, with what they have paid. Releases stay: they are private with
    respect to every record. The next steps are trained without the records. Copies elsewhere, such
    as backups and source files, are yours to delete: see docs/erasure.md.

    No process may have the state open. If a service runs on it, send POST /v1/erasures to that.
    """
    if person == (record is not None):
        raise click.UsageError("Name what to erase: --person or --record N.")
    if person and stream:
        raise click.UsageError("--stream goes with --record: a person is erased from every stream.")
    whose = read_id() if person else None
    try:
        gate = Gate.open(state, upgrade=False)
    except StoreError as error:
        if state.is_dir() and is_locked(state):
            other = "if that is tidegate serve, send POST /v1/erasures to it"
            raise StoreError(f"{error}; {other}, see docs/erasure.md") from error
        raise
    with gate:
        erasure = gate.erase(record=record, stream=stream, person=whose)
    receipt = erasure.receipt()
    what = "1 slot was" if erasure.slots == 1 else f"{erasure.slots:,} slots were"
    told = f"{what} erased (do not publish this number). Releases and charges stay."
    options.answer(receipt, form, told, f"Receipt: {json.dumps(receipt)}")
