"""Full disks, locked folders and damaged files, met by the commands that a user runs."""

import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import mkdtemp
from unittest.mock import patch

import pytest

from tests.cli.run import Done, tidegate
from tests.state.commands import NOBODY, Ended, clocked, command, grow, hashes, make
from tidegate.checks import StoreError
from tidegate.gate import Gate
from tidegate.state.database import SqliteDatabase
from tidegate.state.publish_folder import newest_published
from tidegate.state.verify_published import verify as verify_folder

FIRST, ALL = 650, 950


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("whole")
    config = make(folder)
    grow(folder, 0, ALL)
    with clocked():
        assert tidegate("run", config, "--quiet") == (0, "", "")
    return hashes(folder)


@pytest.fixture(autouse=True)
def clock() -> Iterator[None]:
    with clocked():
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run that has taken in some of its records; the rest has come since."""
    config = make(tmp_path)
    grow(tmp_path, 0, FIRST)
    assert tidegate("run", config, "--quiet") == (0, "", "")
    grow(tmp_path, FIRST, ALL - FIRST)
    return tmp_path


def run(folder: Path) -> Done:
    return tidegate("run", str(folder / "gate.toml"), "--quiet")


def refused(done: Done | Ended, *words: str) -> None:
    """One clear line, and the code for what the user has to see to."""
    code, said = done[0], done[-1]
    lines = said.splitlines() if isinstance(said, str) else said
    assert (code, len(lines)) == (2, 1), done
    assert all(word in lines[0] for word in words), done


def ends_as_if_undisturbed(folder: Path, expected: list[str]) -> None:
    assert run(folder) == (0, "", "")
    assert hashes(folder) == expected
    assert tidegate("verify", str(folder / "gate.state")).returncode == 0
    assert list(verify_folder(folder / "out")) == []
    assert newest_published(folder / "out") == len(expected) - 1


def newest(folder: Path) -> Path:
    return max((folder / "gate.state" / "segments").iterdir())


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 0x10]))


# --- full disks


@pytest.mark.parametrize("limit", [1_000, 3_000, 20_000, 60_000, 75_000, 90_000, 110_000])
def test_a_disk_that_fills_up(limit: int, tmp_path: Path, expected: list[str]) -> None:
    """No file may grow beyond the limit: of segments, of the database, of its log, of releases."""
    config = make(tmp_path)
    grow(tmp_path, 0, FIRST)
    done = command("run", config, "--quiet", errors=tmp_path / "errors", limit=limit)
    if done.code or limit < 60_000:  # a log that is emptied in time stays below the others
        refused(done)
    grow(tmp_path, FIRST, ALL - FIRST)
    ends_as_if_undisturbed(tmp_path, expected)


def test_a_database_that_cannot_grow(folder: Path, expected: list[str]) -> None:
    with Gate.open(folder / "gate.state") as gate:
        gate.store._db.execute("PRAGMA max_page_count = 1")
        with pytest.raises(StoreError, match=r"disk is full.*open the state again"):
            list(gate.run())
    ends_as_if_undisturbed(folder, expected)


# --- folders that cannot be written


@pytest.fixture
def reachable(folder: Path) -> Iterator[Path]:
    """The run moved to where another user can get to it, and owned by that user."""
    place = Path(mkdtemp())
    (place / "gate.toml").write_text(
        (folder / "gate.toml").read_text().replace(str(folder), str(place))
    )
    for name in ("gate.state", "out"):
        shutil.copytree(folder / name, place / name)
    shutil.copy(folder / "records.csv", place)
    Gate.open(place / "gate.state", place / "gate.toml").close()  # it learns where it publishes
    place.chmod(0o755)
    if os.geteuid() == 0:
        for path in [place, *place.rglob("*")]:
            os.chown(path, NOBODY, NOBODY)
    yield place
    lock(place, writable=True)
    shutil.rmtree(place)


def lock(folder: Path, *, writable: bool = False) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(
            (0o700 if writable else 0o500) if path.is_dir() else (0o600 if writable else 0o400)
        )


def as_user(*words: str) -> Ended:
    user = NOBODY if os.geteuid() == 0 else None
    errors = Path(mkdtemp()) / "errors"
    ended = command(*words, errors=errors, user=user)
    shutil.rmtree(errors.parent)
    return ended


LOOKS = (["status"], ["ledger"], ["releases"], ["verify"])


def test_a_state_that_cannot_be_written_can_be_looked_at(
    reachable: Path, expected: list[str]
) -> None:
    state = str(reachable / "gate.state")
    lock(reachable / "gate.state")
    for words in LOOKS:
        assert as_user(*words, state) == (0, [])
    assert as_user("export", state, str(reachable / "model.npz")) == (0, [])
    before = sorted(os.listdir(state))
    refused(as_user("run", str(reachable / "gate.toml")), "lock", "denied", "write permission")
    assert sorted(os.listdir(state)) == before
    lock(reachable / "gate.state", writable=True)
    assert as_user("run", "--quiet", str(reachable / "gate.toml")) == (0, [])
    assert hashes(reachable) == expected


def test_a_state_that_cannot_be_written_and_was_not_closed(reachable: Path, folder: Path) -> None:
    """What is in the log only cannot be left out: it is read, or it is said why not."""
    with Gate.open(reachable / "gate.state") as gate:
        gate.ingest([[1.0, 0.5, 0.5]], [1])
        shutil.copytree(reachable / "gate.state", folder / "copy")
    shutil.copytree(folder / "copy", reachable / "gate.state", dirs_exist_ok=True)
    if os.geteuid() == 0:
        for path in reachable.rglob("*"):
            os.chown(path, NOBODY, NOBODY)
    lock(reachable / "gate.state")
    for words in LOOKS:
        assert as_user(*words, str(reachable / "gate.state")) == (0, [])
    (reachable / "gate.state").chmod(0o700)
    (reachable / "gate.state" / "state.db-shm").unlink()
    (reachable / "gate.state").chmod(0o500)
    for words in LOOKS:
        ended = as_user(*words, str(reachable / "gate.state"))
        if words[0] == "verify":  # it reads a private copy
            assert ended == (0, [])
        else:
            refused(ended, "was not closed", "where it can be written")


def test_a_publish_folder_that_cannot_be_written(reachable: Path, expected: list[str]) -> None:
    config = str(reachable / "gate.toml")
    lock(reachable / "out")
    for _ in range(2):
        refused(as_user("run", config), "denied", "is safe in the state", "run again")
    assert len(hashes(reachable)) == 5
    assert list(verify_folder(reachable / "out")) == []
    lock(reachable / "out", writable=True)
    assert as_user("run", "--quiet", config) == (0, [])
    assert hashes(reachable) == expected
    assert newest_published(reachable / "out") == len(expected) - 1


# --- damage


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing", "emptied"])
def test_a_damaged_segment(damage: str, tmp_path: Path, expected: list[str]) -> None:
    config = make(tmp_path)
    grow(tmp_path, 0, FIRST)
    assert tidegate("run", config, "--quiet") == (0, "", "")
    before, file = hashes(tmp_path), newest(tmp_path)
    shutil.copy(file, tmp_path / "copy")
    if damage == "flipped":
        flip(file, file.stat().st_size // 2)
    elif damage == "missing":
        file.unlink()
    else:
        os.truncate(file, 0 if damage == "emptied" else file.stat().st_size - 100)
    grow(tmp_path, FIRST, ALL - FIRST)
    state = str(tmp_path / "gate.state")
    told = tidegate("verify", state)
    assert told.returncode == 1
    assert file.name in told.stdout
    for _ in range(2):
        refused(run(tmp_path), file.name, "restore it from a copy")
    assert hashes(tmp_path) == before
    assert newest_published(tmp_path / "out") == len(before) - 1
    shutil.copy(tmp_path / "copy", file)
    ends_as_if_undisturbed(tmp_path, expected)


def crashed(folder: Path) -> Path:
    """A copy of a run whose log has not been merged: as a power failure leaves it.

    After forgetting the log is emptied, but not while somebody reads in it.
    """
    copy, reads = folder / "crashed", patch.object(SqliteDatabase, "scrub", lambda _: False)
    with reads, Gate.open(folder / "gate.state") as gate:
        (source,) = gate.config.sources().values()
        for raw in source.batches(gate.store.offset(source.name)):
            gate.take(raw, source=source.name)
            next(gate.advance())
            break
        shutil.copytree(folder / "gate.state", copy, ignore=lambda *_: ["state.db-shm"])
    shutil.rmtree(folder / "gate.state")
    return copy.rename(folder / "gate.state")


def test_a_torn_last_page_of_the_log(folder: Path, expected: list[str]) -> None:
    """The start of a transaction that never came to its end: it is left out."""
    log = crashed(folder) / "state.db-wal"
    with log.open("ab") as file:
        file.write(random.Random(1).randbytes(3000))
    ends_as_if_undisturbed(folder, expected)


@pytest.mark.parametrize("damage", ["cut", "flipped", "missing"])
def test_a_log_that_has_lost_what_was_acknowledged(
    damage: str, folder: Path, expected: list[str]
) -> None:
    state = crashed(folder)
    log = state / "state.db-wal"
    shutil.copytree(state, folder / "copy")
    files = sorted(os.listdir(state / "segments"))
    if damage == "missing":
        log.unlink()
    elif damage == "cut":
        os.truncate(log, log.stat().st_size - 5000)
    else:
        flip(log, log.stat().st_size // 2)
    for _ in range(2):
        refused(run(folder), "has lost the last", "restore")
    assert sorted(os.listdir(state / "segments")) == files
    shutil.rmtree(state)
    shutil.copytree(folder / "copy", state)
    ends_as_if_undisturbed(folder, expected)


def flips(folder: Path, expected: list[str], times: int) -> None:
    """Flip one bit of the database at a time: it is refused, or it makes no difference."""
    database, published = folder / "gate.state" / "state.db", len(hashes(folder))
    shutil.copytree(folder / "gate.state", folder / "copy")
    shutil.copytree(folder / "out", folder / "copy of out")
    rng = random.Random(os.getpid())
    for _ in range(times):
        at = rng.randrange(database.stat().st_size)
        flip(database, at)
        told = tidegate("verify", str(folder / "gate.state"))
        assert told.returncode < 2 or "bug" not in told.stderr, (at, told)
        done = run(folder)
        if done.returncode:
            refused(done)
        else:
            with Gate.look(folder / "gate.state") as gate:
                new = [release.hash for release in gate.releases(published)]
            assert new == expected[published:], (at, told)
        for path in sorted((folder / "out").glob("*.safetensors"))[:published]:
            assert path.read_bytes() == (folder / "copy of out" / path.name).read_bytes()
        for name, copy in (("gate.state", "copy"), ("out", "copy of out")):
            shutil.rmtree(folder / name)
            shutil.copytree(folder / copy, folder / name)
    ends_as_if_undisturbed(folder, expected)


@pytest.mark.parametrize("column", ["history", "sources", "stop"])
def test_no_release_is_chained_to_a_damaged_step(column: str, folder: Path) -> None:
    """Releases that follow would name a history that no steps lead to."""
    with closing(sqlite3.connect(folder / "gate.state" / "state.db")) as database:
        newest = "number = (SELECT max(number) FROM steps)"
        (value,) = database.execute(f"SELECT {column} FROM steps WHERE {newest}").fetchone()
        other = value + 1 if isinstance(value, int) else value.translate(str.maketrans("01", "10"))
        assert other != value
        database.execute(f"UPDATE steps SET {column} = ? WHERE {newest}", (other,))
        database.commit()
    refused(run(folder), "hash mismatch" if column != "stop" else "")


@pytest.mark.thorough
def test_flipped_bits_of_the_database(folder: Path, expected: list[str]) -> None:
    flips(folder, expected, 10)


@pytest.mark.slow
def test_many_flipped_bits_of_the_database(folder: Path, expected: list[str]) -> None:
    flips(folder, expected, 1000)


@pytest.mark.parametrize("ending", ["safetensors", "json", "md"])
def test_a_damaged_published_file(ending: str, folder: Path, expected: list[str]) -> None:
    file = folder / "out" / f"000001.{ending}"
    flip(file, file.read_bytes().index(b"hash" if ending != "md" else b"Hash `") + 8)
    told = tidegate("verify", str(folder / "gate.state"))
    assert told.returncode == 1
    assert "release 1" in told.stdout or "000001" in told.stdout
    for name in ("latest", f"000001.{ending}"):
        (folder / "out" / name).unlink()
    ends_as_if_undisturbed(folder, expected)


def test_a_release_of_another_state_is_found_in_the_folder(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    config = Path(make(other))
    config.write_text(config.read_text().replace("seed = 7", "seed = 8"))
    grow(other, 0, FIRST)
    assert run(other) == (0, "", "")
    shutil.rmtree(folder / "out")
    shutil.copytree(other / "out", folder / "out")
    told = tidegate("verify", "--quiet", str(folder / "gate.state"))
    assert told.returncode == 1
    last = newest_published(other / "out")
    assert last
    said = f"000000.json and {4 * (last + 1) - 1} more"
    assert told.stdout.startswith(f"{folder / 'out'}: {said}")
    assert len(told.stdout.splitlines()) == 1
    refused(run(folder), "has a different release")
