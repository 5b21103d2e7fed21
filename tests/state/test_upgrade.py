"""States of older layouts: opened, run on and verified by this version."""

import json
import os
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import chdir, closing
from pathlib import Path

import numpy as np
import psycopg
import pytest

from tests.cli.run import tidegate
from tests.state.postgres_server import needs_postgres, server
from tests.state.states.make import (
    DUMP,
    FIRST,
    HERE,
    MORE,
    PUBLISHED,
    STATE,
    config,
    grow,
    names,
    run,
)
from tidegate.checks import StoreError
from tidegate.failpoints import UPGRADES
from tidegate.gate import Gate
from tidegate.run.config import Config
from tidegate.state import publish_folder, verify_published
from tidegate.state.folder_store import FolderStore
from tidegate.state.layout import LAYOUT, MIGRATIONS, SCHEMA
from tidegate.state.lock import Lock
from tidegate.state.verification import verify

LAYOUTS = [*MIGRATIONS, LAYOUT]
STATES = [
    pytest.param(layout, name, marks=needs_postgres if name == "postgres" else ())
    for layout in LAYOUTS
    for name in names(layout)
]
OLD = [(layout, "sliding") for layout in MIGRATIONS]


def restored(folder: Path, layout: int, name: str) -> Config:
    """Put a state that an older version has made into a folder; what its gate is told."""
    with tarfile.open(HERE / f"{layout}-{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    grow(folder, 0, FIRST)
    if name != "postgres":
        return config(name)
    note = folder / STATE / "elsewhere.json"
    known = json.loads(note.read_text())
    with psycopg.connect(server().url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {known['name']} CASCADE".encode())
        lines = (folder / DUMP).read_text().splitlines()
        connection.execute("\n".join(each for each in lines if each[:1] != "\\").encode())
    note.write_text(json.dumps({**known, "database": server().url}))
    return config(name, store={"database": server().url})


def hashes(gate: Gate) -> list[str]:
    return [release.hash for release in gate.releases()]


@pytest.mark.parametrize(("layout", "name"), STATES)
def test_a_state_of_every_layout_goes_on(layout: int, name: str, tmp_path: Path) -> None:
    settings = restored(tmp_path, layout, name)
    before = sorted(path.name for path in (tmp_path / PUBLISHED).glob("*.json"))
    with chdir(tmp_path):
        done = tidegate("upgrade", STATE)
        assert (done.returncode, f"layout {LAYOUT}" in done.stdout) == (0, True)
        with Gate.look(STATE) as gate:
            old = hashes(gate)
            assert len(old) == len(before) >= 2
            with closing(FolderStore(Path(STATE), read_only=True)) as store:
                assert store._db.layout() == LAYOUT
        Gate.open(STATE, settings).close()
        with Gate.look(STATE) as gate:
            assert list(verify(gate)) == []
        assert list(verify_published.verify(PUBLISHED)) == []
        grow(tmp_path, FIRST, FIRST + MORE)
        run(tmp_path, settings)
        with Gate.look(STATE) as gate:
            assert list(verify(gate)) == []
            new = hashes(gate)
            assert new[: len(old)] == old
            assert len(new) > len(old)
            assert gate.config.records.rule == 1  # of spelling, for ever
            assert not any("spelling" in release.card for release in gate.releases())
            for stream in gate.streams:  # a batch of a known name is not taken twice
                assert gate.store.count(stream) == FIRST + MORE + 2
        assert list(verify_published.verify(PUBLISHED)) == []
        assert publish_folder.newest_published(PUBLISHED) == len(new) - 1


def test_an_upgraded_state_has_the_tables_of_a_new_one(tmp_path: Path) -> None:
    for layout, name in OLD:
        folder = tmp_path / f"{layout}"
        folder.mkdir()
        restored(folder, layout, name)
        with closing(FolderStore(folder / STATE)) as store:
            made = store._db.schema()
            assert made is not None
            assert sorted(made) == sorted(each.strip() for each in SCHEMA.split(";"))


def test_an_upgraded_state_has_dropped_what_a_new_one_would(tmp_path: Path) -> None:
    for layout in (2, 3):
        for name in ("sliding", "growing"):
            folder = tmp_path / f"{layout}-{name}"
            folder.mkdir()
            restored(folder, layout, name)
            with closing(sqlite3.connect(folder / STATE / "state.db")) as connection:
                before = connection.execute("SELECT number, weights FROM fits").fetchall()
            with closing(FolderStore(folder / STATE)) as store:
                lines = list(store.lines())
                dropped = dict(store._db.execute("SELECT number, norm FROM dropped").fetchall())
                texts = store._db.execute("SELECT fit || card FROM fits").fetchall()
            assert not any('"emphasis":[[' in text for (text,) in texts)
            assert any(line.fit.slot_weights for line in lines) == (name == "growing")
            unreleased = [line.fit.number for line in lines if not line.fit.released]
            assert sorted(dropped) == unreleased[:-1]  # a window of three steps has one base
            for number, data in before:
                if number in dropped:
                    assert dropped[number] == pytest.approx(np.linalg.norm(np.frombuffer(data)))


def test_damage_from_before_an_upgrade_is_found_after_it(tmp_path: Path) -> None:
    settings = restored(tmp_path, 3, "sliding")
    with closing(sqlite3.connect(tmp_path / STATE / "state.db")) as connection:
        connection.execute("UPDATE quarantine SET reason = 'none'")
        connection.commit()
    with chdir(tmp_path), Gate.open(STATE, settings) as gate:
        assert "rows of the table quarantine were changed" in str(list(verify(gate)))


def contents(state: Path) -> list[str]:
    """All that a database holds."""
    with closing(sqlite3.connect(state / "state.db")) as connection:
        return [*connection.iterdump(), str(connection.execute("PRAGMA user_version").fetchone())]


@pytest.mark.thorough
@pytest.mark.parametrize("failpoint", UPGRADES)
@pytest.mark.parametrize(("layout", "name"), OLD)
def test_a_killed_upgrade_is_as_if_it_had_not_begun(
    failpoint: str, layout: int, name: str, tmp_path: Path
) -> None:
    settings = restored(tmp_path, layout, name)
    before = contents(tmp_path / STATE)
    killed = subprocess.run(
        [sys.executable, "-m", "tidegate", "upgrade", STATE],
        cwd=tmp_path,
        env={**os.environ, "TIDEGATE_FAILPOINT": failpoint},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -9
    assert (contents(tmp_path / STATE) == before) == (failpoint == "migrate.commit")
    with chdir(tmp_path), Gate.open(STATE, settings) as gate:
        assert list(verify(gate)) == []


def test_a_newer_layout_is_refused_by_name(tmp_path: Path) -> None:
    FolderStore(tmp_path / STATE, "{}").close()
    with closing(sqlite3.connect(tmp_path / STATE / "state.db")) as connection:
        connection.execute(f"PRAGMA user_version={LAYOUT + 1}")
    for read_only in (False, True):
        with pytest.raises(StoreError, match=f"has layout {LAYOUT + 1}, of a newer Tidegate"):
            FolderStore(tmp_path / STATE, read_only=read_only)


def test_a_layout_that_nobody_released_is_refused(tmp_path: Path) -> None:
    FolderStore(tmp_path / STATE, "{}").close()
    with closing(sqlite3.connect(tmp_path / STATE / "state.db")) as connection:
        connection.execute("PRAGMA user_version=1")
    with pytest.raises(StoreError, match="layout 1, which no released version wrote"):
        FolderStore(tmp_path / STATE)


@pytest.mark.parametrize(("layout", "name"), OLD)
def test_a_state_that_is_in_use_is_not_upgraded(layout: int, name: str, tmp_path: Path) -> None:
    restored(tmp_path, layout, name)
    before = contents(tmp_path / STATE)
    with closing(Lock(tmp_path / STATE)), pytest.raises(StoreError, match="in use by process"):
        FolderStore(tmp_path / STATE)
    assert contents(tmp_path / STATE) == before


READING = (["status"], ["ledger"], ["releases"], ["survey"], ["export", "model.npz"])
WRITING = (["erase", "--record", "3"], ["ingest", "more.csv"])


@pytest.mark.parametrize("words", [*READING, *WRITING], ids=lambda words: words[0])
def test_only_run_serve_and_upgrade_write_a_new_layout(words: list[str], tmp_path: Path) -> None:
    restored(tmp_path, 5, "sliding")
    before = everything(tmp_path)
    with chdir(tmp_path):
        done = tidegate(words[0], STATE, *words[1:])
    assert done.returncode == 2
    assert done.stderr.endswith(
        f"{STATE} has layout 5; this version reads layout {LAYOUT}: copy the state, then run "
        f"tidegate upgrade {STATE}\n"
    )
    assert everything(tmp_path) == before


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a folder: when it was written, and its content."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.mark.parametrize(("layout", "name"), OLD)
def test_verify_checks_an_older_layout_on_a_private_copy(
    layout: int, name: str, tmp_path: Path
) -> None:
    restored(tmp_path, layout, name)
    before = everything(tmp_path)
    with chdir(tmp_path):
        done = tidegate("verify", STATE)
    assert done.returncode == 0, done
    assert done.stdout.startswith(f"Checking {STATE} as a state.\nSound: ")
    assert everything(tmp_path) == before
    next((tmp_path / PUBLISHED).glob("000000.json")).write_text("{}")
    with chdir(tmp_path):
        done = tidegate("verify", STATE)
    assert (done.returncode, "000000.json" in done.stdout) == (1, True)


@needs_postgres
def test_verify_upgrades_nothing_on_a_server(tmp_path: Path) -> None:
    restored(tmp_path, 5, "postgres")
    done = tidegate("verify", str(tmp_path / STATE), "--connect")
    assert done.returncode == 2
    assert "has layout 5, and verify writes to no server" in done.stderr
    with pytest.raises(StoreError, match="has layout 5; this version reads layout 6"):
        FolderStore(tmp_path / STATE, read_only=True)


def test_upgrading_again_changes_nothing(tmp_path: Path) -> None:
    restored(tmp_path, 4, "sliding")
    with chdir(tmp_path):
        assert "from layout 4 to layout 6" in tidegate("upgrade", STATE).stdout
        assert "nothing was changed" in tidegate("upgrade", STATE).stdout
        done = tidegate("upgrade", "nowhere", "--format", "json")
    assert (done.returncode, "holds no state" in done.stderr) == (2, True)


@pytest.mark.parametrize("layout", [2, 3])
def test_a_damaged_state_is_not_upgraded(layout: int, tmp_path: Path) -> None:
    restored(tmp_path, layout, "sliding")
    with closing(sqlite3.connect(tmp_path / STATE / "state.db")) as connection:
        connection.execute("UPDATE streams SET count = count + 1")
        connection.commit()
    before = contents(tmp_path / STATE)
    with pytest.raises(StoreError, match="checksum"):
        FolderStore(tmp_path / STATE)
    assert contents(tmp_path / STATE) == before


def test_every_layout_has_its_states() -> None:
    found = {path.name for path in HERE.glob("*.tar.gz")}
    assert found == {f"{layout}-{name}.tar.gz" for layout in LAYOUTS for name in names(layout)}
