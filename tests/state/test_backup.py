"""A backup that is taken while a gate runs can be restored, if its parts are copied in order."""

import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.state.gatelife import config, opened, stream
from tests.state.postgres_server import BINARIES, DATABASES
from tidegate.checks import StoreError
from tidegate.gate import Gate
from tidegate.run.config.tables import Locations
from tidegate.state.elsewhere import Elsewhere
from tidegate.state.verification import verify


def copy_segments(state: Path, backup: Path) -> None:
    """As `cp --recursive --update`: nothing is deleted from the copy."""
    for file in (state / "segments").iterdir():
        shutil.copy2(file, backup / "segments")


def dump(state: Path, backup: Path) -> None:
    """Copy the database, as `sqlite3 .backup` or `pg_dump` does, while a gate has it open."""
    elsewhere = Elsewhere.of(state)
    if elsewhere is None:
        with (
            closing(sqlite3.connect(state / "state.db")) as theirs,
            closing(sqlite3.connect(backup / "state.db")) as ours,
        ):
            theirs.backup(ours)
        return
    shutil.copy2(state / "elsewhere.json", backup)
    server = f"--dbname={elsewhere.locations.database}"
    copied = [str(BINARIES / "pg_dump"), server, f"--schema={elsewhere.name}"]
    text = subprocess.run(copied, check=True, capture_output=True).stdout
    (backup / "dump.sql").write_bytes(text)


def restore(backup: Path) -> None:
    """Put the database of a backup in the place of the one that there is."""
    elsewhere = Elsewhere.of(backup)
    if elsewhere is not None:
        server = f"--dbname={elsewhere.locations.database}"
        ask = [str(BINARIES / "psql"), "-qX", server, "--set=ON_ERROR_STOP=1"]
        drop = f"DROP SCHEMA {elsewhere.name} CASCADE;".encode()
        text = drop + (backup / "dump.sql").read_bytes()
        subprocess.run(ask, input=text, check=True, capture_output=True)
        (backup / "dump.sql").unlink()


@pytest.mark.parametrize("locations", DATABASES)
@pytest.mark.parametrize("order", ["lock first", "lock last"])
def test_a_backup_of_a_gate_that_runs(
    order: str, locations: Callable[[], Locations], tmp_path: Path
) -> None:
    state, backup = tmp_path / "state", tmp_path / "backup"
    (backup / "segments").mkdir(parents=True)
    store = {name: place for name, place in asdict(locations()).items() if place is not None}
    with opened(state, config(store=store)) as gate:
        gate.ingest(*stream(900))
        copy_segments(state, backup)
        if order == "lock first":
            shutil.copy2(state / "lock", backup)
        gate.ingest(*stream(200, 900))
        dump(state, backup)
        kept = [release.hash for release in gate.releases()]
        gate.ingest(*stream(100, 1100))  # forgets a segment that the dump names
        if order == "lock last":
            shutil.copy2(state / "lock", backup)
        copy_segments(state, backup)
    restore(backup)
    if order == "lock last":
        with pytest.raises(StoreError, match=r"has lost the last \d+ transaction"):
            Gate.open(backup)
        return
    with Gate.look(backup) as looking:
        assert list(verify(looking)) == []
    with Gate.open(backup) as gate:
        assert gate.store.count("records") == 1100
        assert [release.hash for release in gate.releases()] == kept
        assert gate.ingest(*stream(100, 1100)) == 1200
        assert list(verify(gate)) == []
