"""A state whose database is on a server: who may have it, and what if the server goes."""

import os
import random
import select
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from tests.cli.run import tidegate
from tests.state.commands import clocked, command, grow, hashes, make, started
from tests.state.made import chain, made, records
from tests.state.postgres_server import BINARIES, Server, needs_postgres, on_server, server
from tidegate.checks import InvalidValueError, StoreError
from tidegate.gate import Gate
from tidegate.run.config import Config
from tidegate.run.config.tables import Locations
from tidegate.state.elsewhere import Elsewhere
from tidegate.state.folder_store import FolderStore
from tidegate.state.postgres import PostgresDatabase
from tidegate.state.store import Batch, Quarantined
from tidegate.state.verification import verify

pytestmark = needs_postgres
RECORDS = 800


def batch(start: int, n: int = 5) -> Batch:
    return Batch(stream="records", records=records(start, n), key=f"{start}")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    with closing(FolderStore(tmp_path / "state", "config", locations=on_server())) as store:
        store.append(batch(0))
    return tmp_path / "state"


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A server that tests may kill."""
    with TemporaryDirectory(prefix="pg-") as folder:
        server = Server(Path(folder))
        yield server
        server.stop()


def undisturbed(folder: Path) -> list[str]:
    """What a run with SQLite releases."""
    folder.mkdir()
    config = make(folder)
    grow(folder, 0, RECORDS)
    with clocked():
        assert tidegate("run", config, "--quiet") == (0, "", "")
    return hashes(folder)


# --- the server goes


def run_through(kills: int, server: Server, folder: Path) -> None:
    """Kill the server in the middle of that many runs; whatever happens, they end the same."""
    expected, rng = undisturbed(folder / "whole"), random.Random(os.getpid())
    place = folder / "disturbed"
    place.mkdir()
    config, happened, done = make(place, database=server.url), 0, 0
    while happened < kills:
        piece = min(RECORDS - done, -(-RECORDS // kills))
        grow(place, done, piece)
        done += piece
        child = started("run", config, "--quiet", "--follow", errors=place / "errors")
        child.join(rng.uniform(0.05, 0.5))
        server.kill()
        child.join(60)
        said = (place / "errors").read_text().splitlines()
        assert (child.exitcode, len(said)) == (2, 1), said
        assert server.url in said[0]
        happened += 1
        server.start()
        with suppress(StoreError), Gate.look(place / "gate.state") as gate:
            assert list(verify(gate)) == []
    grow(place, done, RECORDS - done)
    assert command("run", config, "--quiet", errors=place / "errors").code == 0
    assert hashes(place) == expected
    assert tidegate("verify", str(place / "gate.state"), "--config", config).returncode == 0


@pytest.mark.thorough
def test_the_server_is_killed_in_the_middle_of_a_run(own: Server, tmp_path: Path) -> None:
    run_through(1, own, tmp_path)


@pytest.mark.slow
def test_the_server_is_killed_again_and_again(own: Server, tmp_path: Path) -> None:
    run_through(40, own, tmp_path)


@contextmanager
def wire(server: Server, cut: threading.Event, *, arrives: bool) -> Iterator[str]:
    """The URL of a server whose wire breaks at a commit, before or after that has arrived."""
    with TemporaryDirectory(prefix="pg-") as folder, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{folder}/.s.PGSQL.5432")
        listening.listen()

        def forward() -> None:
            """One connection after the other, until there is nothing more to listen to."""
            with suppress(OSError):
                while True:
                    with listening.accept()[0] as gate, socket.socket(socket.AF_UNIX) as theirs:
                        theirs.connect(f"{server.folder}/.s.PGSQL.5432")
                        between(gate, theirs)

        def between(gate: socket.socket, theirs: socket.socket) -> None:
            while True:
                for ready in select.select([gate, theirs], [], [])[0]:
                    data = ready.recv(2**16)
                    breaks = ready is gate and cut.is_set() and b"COMMIT\0" in data
                    if data and (not breaks or arrives):
                        (theirs if ready is gate else gate).sendall(data)
                    if breaks and arrives:
                        theirs.recv(2**16)  # the answer
                    if breaks or not data:
                        return

        thread = threading.Thread(target=forward, daemon=True)
        thread.start()
        try:
            yield f"postgresql://tidegate@/postgres?host={folder}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(10)


@pytest.mark.parametrize("arrives", [False, True])
def test_a_commit_whose_answer_is_lost(own: Server, arrives: bool, tmp_path: Path) -> None:
    folder, cut = tmp_path / "state", threading.Event()
    with wire(own, cut, arrives=arrives) as url:
        FolderStore(folder, "config", locations=Locations(database=url)).close()
        for step in (0, 1):
            store = FolderStore(folder)
            cut.set()
            with pytest.raises(StoreError, match="open the state again"):
                store.append(batch(5 * step))
            with pytest.raises(StoreError):  # it has closed itself: only an opening finds out
                store.append(batch(5 * step))
            cut.clear()
            with closing(FolderStore(folder)) as store:
                assert store.count("records") == 5 * (step + arrives)
                assert store.append(batch(5 * step)) == 5 * (step + 1)
            store = FolderStore(folder)
            cut.set()
            with pytest.raises(StoreError, match="open the state again"):
                store.publish("records", 5 * (step + 1), [made(step, 5 * (step + 1))])
            cut.clear()
            with closing(FolderStore(folder)) as store:
                assert store.done("records") == 5 * (step + arrives)
                if not arrives:
                    store.publish("records", 5 * (step + 1), [made(step, 5 * (step + 1))])
                assert [line.fit.number for line in store.lines()] == list(range(step + 1))
                assert len(chain(store)) == step + 1
                assert not list(store.verify())


def test_a_server_that_cannot_be_reached_makes_no_state(tmp_path: Path) -> None:
    config = make(tmp_path, database=f"postgresql://tidegate@/postgres?host={tmp_path}")
    grow(tmp_path, 0, 10)
    done = tidegate("run", config)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "No such file" in done.stderr
    assert not (tmp_path / "gate.state" / "elsewhere.json").exists()
    make_again = Config.load(config).locations()
    assert make_again != on_server()
    FolderStore(tmp_path / "gate.state", "config", locations=on_server()).close()


@pytest.mark.slow
def test_a_server_that_would_lose_commits_is_refused(own: Server, tmp_path: Path) -> None:
    own.ask("ALTER SYSTEM SET fsync = off")
    own.kill()
    own.start()
    with pytest.raises(StoreError, match="set its server's fsync to on"):
        FolderStore(tmp_path / "state", "config", locations=Locations(database=own.url))
    own.ask("ALTER SYSTEM RESET fsync")
    own.kill()
    own.start()


@pytest.mark.slow
def test_a_standby_is_refused(own: Server, tmp_path: Path) -> None:
    """It may not know yet what was committed; who only looks may look there."""
    locations = Locations(database=own.url)
    with closing(FolderStore(tmp_path / "state", "config", locations=locations)) as store:
        store.append(batch(0))
    elsewhere = Elsewhere.of(tmp_path / "state")
    assert elsewhere is not None
    with TemporaryDirectory(prefix="pg-") as folder, ExitStack() as stack:
        standby = Server(Path(folder), ahead=own)
        stack.callback(standby.stop)
        behind = Locations(database=standby.url)
        elsewhere._replace(locations=behind).keep(tmp_path / "state")
        with pytest.raises(StoreError, match=r"is a standby.*name the server that can be written"):
            FolderStore(tmp_path / "state")
        with pytest.raises(StoreError, match="is a standby"):
            FolderStore(tmp_path / "new", "config", locations=behind)
        with closing(FolderStore(tmp_path / "state", read_only=True)) as looking:
            assert looking.count("records") == 5


# --- whose it is


@pytest.mark.thorough
def test_a_copy_of_the_folder_is_no_second_gate(state: Path, tmp_path: Path) -> None:
    with closing(FolderStore(state)):
        shutil.copytree(state, tmp_path / "copy")
        with pytest.raises(StoreError, match="in use by process"):
            FolderStore(state)
        with pytest.raises(StoreError, match="in use by another gate"):
            FolderStore(tmp_path / "copy")
        with closing(FolderStore(tmp_path / "copy", read_only=True)) as looking:
            assert looking.count("records") == 5


def test_an_older_copy_of_the_database_is_refused(state: Path) -> None:
    elsewhere = Elsewhere.of(state)
    assert elsewhere is not None
    url, name = elsewhere.locations.database, elsewhere.name
    ask = [str(BINARIES / "psql"), "-qX", f"--dbname={url}", "--set=ON_ERROR_STOP=1"]
    dump = [str(BINARIES / "pg_dump"), f"--dbname={url}", f"--schema={name}"]
    old = subprocess.run(dump, check=True, capture_output=True).stdout
    with closing(FolderStore(state)) as store:
        store.append(batch(5))
        now = subprocess.run(dump, check=True, capture_output=True).stdout
    drop = f"DROP SCHEMA {name} CASCADE;".encode()
    for copy, lost in ((old, True), (b"", True), (now, False)):
        subprocess.run(ask, input=drop + copy, check=True, capture_output=True)
        if lost:
            with pytest.raises(StoreError, match=r"lost the last \d trans|was interrupted"):
                FolderStore(state)
            with pytest.raises(StoreError, match=r"lost the last \d trans|already holds a state"):
                FolderStore(state, "config", locations=elsewhere.locations)
        drop = drop if copy else b""
    with closing(FolderStore(state)) as store:
        assert store.append(batch(5)) == 10
        assert not list(store.verify())


def test_a_state_is_not_begun_anew_in_another_database(state: Path, tmp_path: Path) -> None:
    other = Locations(database="postgresql://tidegate@other.example/ledgers")
    for wanted in (Locations(), other):
        with pytest.raises(StoreError, match=r"\[store\] says .*docs/store.md"):
            FolderStore(state, locations=wanted)
    here = tmp_path / "here"
    FolderStore(here, "config").close()
    with pytest.raises(StoreError, match=r"\[store\] says"):
        FolderStore(here, locations=on_server())
    (state / "elsewhere.json").unlink()
    with pytest.raises(StoreError, match="lost the last 2 transaction"):
        FolderStore(state, "config", locations=on_server())


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:secret@host/db",
        "postgresql://host/db?user=me&password=secret",
        "postgresql://host/db?sslpassword=secret",
    ],
)
def test_a_password_does_not_belong_into_a_configuration(url: str, tmp_path: Path) -> None:
    done = tidegate("run", make(tmp_path, database=url))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "store.database must be a URL without a password" in done.stderr
    assert "secret" not in done.stderr


def test_a_name_that_the_server_cannot_keep_is_refused_and_nothing_else(state: Path) -> None:
    with closing(FolderStore(state)) as store:
        named = Batch(stream="records", records=records(5, 5), key="a\0b")
        with pytest.raises(InvalidValueError, match="NUL"):
            store.append(named)
        assert store.append(batch(5)) == 10


def test_what_the_server_refuses_is_told_without_the_row(state: Path) -> None:
    elsewhere = Elsewhere.of(state)
    assert elsewhere is not None
    server().ask(f"ALTER TABLE {elsewhere.name}.quarantine ADD CHECK (slot < 0)")
    unusable = Quarantined(slot=0, reason="no number", payload="private-payload")
    with closing(FolderStore(state)) as store:
        with pytest.raises(StoreError, match="violates check constraint") as caught:
            store.append(replace(batch(5), quarantine=(unusable,)))
        assert "private-payload" in str(caught.value.__cause__)  # the server has quoted it
        assert "private-payload" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_transaction_that_has_failed_is_not_committed() -> None:
    database = PostgresDatabase(server().url, "nowhere", writes=False)
    database.connect()
    with closing(database):
        database.begin()
        with pytest.raises(psycopg.errors.DivisionByZero):
            database.execute("SELECT 1 / 0")
        with pytest.raises(psycopg.InternalError, match="had failed before"):
            database.commit()  # the server calls it off, and says no more than that
        database.begin()
        with pytest.raises(psycopg.ProgrammingError, match="is under way"):
            database.begin()


def test_without_its_driver_one_line_says_what_to_install(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "tidegate.state.postgres")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InvalidValueError, match=r"pip install '\.\[postgres\]'"):
        FolderStore(state)


# --- it makes no difference to anybody else


@pytest.mark.thorough
def test_every_command_says_the_same_with_either_database(tmp_path: Path) -> None:
    told = []
    for name, database in (("here", ""), ("server", str(on_server().database))):
        folder = tmp_path / name
        folder.mkdir()
        config = make(folder, database=database)
        grow(folder, 0, 650)
        state, model = str(folder / "gate.state"), str(folder / "model.npz")
        commands = [
            ("run", config, "--format", "json"),
            *((word, state, "--format", "json") for word in ("status", "ledger", "releases")),
            ("ledger", state, "--record", "310"),
            ("verify", state, *(["--connect"] if database else [])),
            ("export", state, model),
            ("predict", state, str(folder / "records.csv")),
            ("token", "create", state, "--name", "me", "--scope", "read"),
            ("token", "list", state),
        ]
        with clocked():
            done = [tidegate(*words) for words in commands]
        assert [one.returncode for one in done] == [0] * len(done), done
        unusable = [one.stderr for one in done if one.stderr]  # of those to predict
        assert [line.split(";")[0] for line in unusable] == ["tidegate: 18 records cannot be used"]
        same = [one.stdout.replace(str(folder), "") for one in done]
        told.append((*same[:-2], Path(model).read_bytes()))
    assert told[0] == told[1]
