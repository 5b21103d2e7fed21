"""`tidegate verify` of a stranger's folder: it ends, writes nothing and connects to nobody."""

import json
import os
import random
import secrets
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.cli.run import Done, tidegate
from tests.state.hostile import (
    NASTY,
    Verdict,
    bases,
    content,
    fuzz,
    places,
    redo,
    replaced,
    with_sums_redone,
)
from tidegate.checks import StoreError
from tidegate.data.records import Records
from tidegate.gate import Gate
from tidegate.release import export_formats, to_markdown
from tidegate.run.config.tables import Locations
from tidegate.state import segments
from tidegate.state.folder_store import FolderStore
from tidegate.state.inspecting import Consent, host_of
from tidegate.state.person_rows import Run
from tidegate.state.segments import pack, unpack

HERE = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return bases(tmp_path_factory.mktemp("bases"))


@pytest.fixture
def published(made: dict[str, Path], tmp_path: Path) -> Path:
    shutil.copytree(made["published"], tmp_path / "published")
    return tmp_path / "published"


@pytest.fixture
def state(made: dict[str, Path], tmp_path: Path) -> Path:
    shutil.copytree(made["state"], tmp_path / "state")
    return tmp_path / "state"


def verified(folder: Path, *words: str) -> Done:
    """Verify a folder, which must stay as it is."""
    before = content(folder)
    done = tidegate("verify", str(folder), *words)
    assert content(folder) == before
    assert "bug" not in done.stderr
    return done


def refused(done: Done, *texts: str) -> None:
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done
    for text in texts:
        assert text in done.stderr


# --- what a folder is taken for


def test_the_first_line_says_what_a_folder_was_taken_for(state: Path, published: Path) -> None:
    first = [verified(each).stdout.splitlines()[0] for each in (state, published)]
    assert first == [
        f"Checking {state} as a state.",
        f"Checking {published} as a published folder.",
    ]
    told = json.loads(verified(published, "--format", "json").stdout)
    assert told == {"sound": True, "problems": [], "checked_as": "published folder"}


@pytest.mark.parametrize("mark", ["elsewhere.json", "state.db"])
def test_a_folder_that_is_both_is_refused_unless_one_is_named(published: Path, mark: str) -> None:
    os.mkfifo(published / mark)  # nothing is opened to find out
    refused(verified(published), mark, "--state or --published")
    assert verified(published, "--published").returncode == 0
    refused(verified(published, "--state"), "Not a regular file", mark)
    refused(verified(published, "--state", "--published"), "one of --state and --published")


def test_a_folder_that_is_neither_holds_no_state(tmp_path: Path) -> None:
    refused(verified(tmp_path), "holds no state")


# --- nobody is connected to


@pytest.fixture
def listener() -> Any:
    """A server that waits for whoever connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        yield server


def connected(server: socket.socket) -> bool:
    try:
        server.accept()
    except BlockingIOError:
        return False
    return True


@pytest.mark.parametrize("published_too", [False, True])
def test_verify_connects_to_no_server_unasked(
    state: Path, published: Path, listener: socket.socket, published_too: bool
) -> None:
    port = listener.getsockname()[1]
    folder = published if published_too else state
    url = f"postgresql://someone@127.0.0.1:{port}/x"
    note = {"name": "tidegate_0", "database": url, "segments": None}
    (folder / "elsewhere.json").write_text(json.dumps(note))
    refused(verified(folder, *["--state"] * published_too), f"127.0.0.1:{port}", "--connect")
    assert not connected(listener)
    config = folder.parent / "other.toml"
    config.write_text(
        '[schedule]\nkind = "independent"\nstep = 100\n[budget]\nepsilon = 1.0\n'
        '[records]\nclasses = [0, 1]\nnorm = 1.0\n[store]\ndatabase = "postgresql://elsewhere/x"'
    )
    words = ["--config", str(config), *["--state"] * published_too]
    refused(verified(folder, *words), f"127.0.0.1:{port}", "--config")
    assert not connected(listener)


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ({"database": "postgresql:///x?host=a.example&hostaddr=192.0.2.7"}, "a.example, hostaddr"),
        ({"database": "postgresql://a.example,b.example/x"}, "a.example,b.example"),
        ({"database": "postgresql:///x?service=evil"}, "service evil"),
        ({"database": "postgresql:///x"}, "this machine"),
        ({"segments": "s3://bucket/x?endpoint_override=c.example"}, "endpoint_override c.example"),
        ({"segments": "gs://bucket/x"}, "bucket (gs)"),
    ],
)
def test_the_host_is_named(place: dict[str, str], shown: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="to connect there, add --connect") as error:
        Consent().check(tmp_path, Locations(**place))
    assert shown in str(error.value)
    Consent(connect=True).check(tmp_path, Locations(**place))
    Consent(locations=Locations(**place)).check(tmp_path, Locations(**place))
    assert host_of("postgresql://u@h/x") == "h"


# --- what is no file


@pytest.mark.parametrize(
    "name", ["elsewhere.json", "lock", "tokens.json", "person.key", "state.db", "state.db-wal"]
)
def test_what_is_no_file_is_not_waited_for(state: Path, name: str) -> None:
    for seed in range(12):
        replaced(state / name, random.Random(seed))
        done = verified(state)
        assert done.returncode in {0, 1, 2}
        path = state / name
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


@pytest.mark.parametrize("file", ["../../../dev/zero", "/dev/zero", "..", "a/b", "fifo"])
def test_a_segment_is_a_file_of_its_folder(state: Path, file: str) -> None:
    os.mkfifo(state / "segments" / "fifo")
    with closing(sqlite3.connect(state / "state.db")) as connection:
        connection.execute("UPDATE segments SET file = ?, data = NULL", (file,))
        connection.commit()
    with_sums_redone(state)
    done = verified(state)
    assert done.returncode == 1, done


# --- databases


NEVER = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS number FROM c"


@pytest.mark.parametrize(
    "statement",
    [
        f"DROP TABLE steps; CREATE VIEW steps AS {NEVER}",
        "CREATE TRIGGER t AFTER UPDATE ON state BEGIN DELETE FROM fits; END",
        f"CREATE VIEW more AS {NEVER}",
        "CREATE VIRTUAL TABLE more USING fts5(x)",
        "CREATE TABLE more (x)",
        "ALTER TABLE steps ADD COLUMN more",
    ],
)
def test_other_tables_than_those_of_the_layout_are_refused(state: Path, statement: str) -> None:
    with closing(sqlite3.connect(state / "state.db")) as connection:
        connection.executescript(statement)
    refused(verified(state), "its tables are not those of layout 6")


def test_a_statement_that_does_not_end_is_ended(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.state.inspecting.check_tables", lambda _: None)
    monkeypatch.setattr("tidegate.state.inspecting.LEAST", 10**6)
    with closing(sqlite3.connect(state / "state.db")) as connection:
        connection.executescript(f"DROP TABLE steps; CREATE VIEW steps AS {NEVER}")
    store = FolderStore(state, consent=Consent())
    with closing(store), pytest.raises(StoreError, match="interrupted"):
        store._state.one("SELECT sum(number) FROM steps")


def test_a_log_is_read_in_a_private_copy(state: Path, tmp_path: Path) -> None:
    """After a crash the newest rows are in the log; reading it there would write."""
    with Gate.open(state) as gate:
        gate.ingest(np.ones((7, 3)), np.ones(7))
        shutil.copytree(state, tmp_path / "crashed")
    assert (tmp_path / "crashed" / "state.db-wal").stat().st_size
    assert verified(tmp_path / "crashed").returncode == 0
    (tmp_path / "crashed" / "state.db-shm").unlink()
    assert verified(tmp_path / "crashed").returncode == 0


def test_a_state_whose_gate_runs_can_be_verified(state: Path) -> None:
    with Gate.open(state) as gate:
        gate.ingest(np.ones((7, 3)), np.ones(7))
        assert tidegate("verify", str(state)).returncode == 0


# --- numbers, and keys that nobody knows


@pytest.mark.parametrize("path", [("share",), ("emphasis", 0, 2), ("survey", "share")])
def test_a_number_without_end_is_no_share(published: Path, path: tuple[Any, ...]) -> None:
    release = export_formats.load_release(published / "000001.safetensors")
    card = json.loads(json.dumps(release.card))
    card["emphasis"] = card["emphasis"] or [[card["start"], card["stop"], "1"]]
    table = card
    for name in path[:-1]:
        table = table[name]
    table[path[-1]] = "1e9999999"
    redo(published, _releases(published), 1, card)
    done = verified(published)
    assert (done.returncode, "release 1: its settings cannot be" in done.stdout) == (1, True)


@pytest.mark.parametrize(
    "path",
    [
        *(("settings", "noise_scale.really"), ("really",), ("budget", "gamma")),
        *(("learner", "secret"), ("schedule", "secret"), ("survey", "more")),
    ],
)
def test_a_key_that_no_card_has_is_reported(published: Path, path: tuple[str, ...]) -> None:
    card = json.loads(
        json.dumps(export_formats.load_release(published / "000000.safetensors").card)
    )
    table = card
    for name in path[:-1]:
        table = table[name]
    table[path[-1]] = 1.0
    redo(published, _releases(published), 0, card)
    done = verified(published)
    assert (done.returncode, "release 0" in done.stdout) == (1, True)


@pytest.mark.parametrize("number", [None, "", "9" * 5000, "/dev/zero", True, -1, 0.5, []])
def test_a_release_without_a_number_is_reported(published: Path, number: Any) -> None:
    card = json.loads(
        json.dumps(export_formats.load_release(published / "000001.safetensors").card)
    )
    card["release"] = number
    redo(published, _releases(published), 1, card)
    done = verified(published)
    assert (done.returncode, "000001.safetensors is damaged" in done.stdout) == (1, True)


def _releases(folder: Path) -> list[Any]:
    return [export_formats.load_release(path) for path in sorted(folder.glob("*.safetensors"))]


@pytest.mark.thorough
@pytest.mark.parametrize("value", NASTY, ids=lambda value: repr(value)[:20])
def test_no_value_of_a_card_hangs_or_breaks_verify(made: dict[str, Path], value: Any) -> None:
    from tidegate.state.verify_published import problems_of_card  # noqa: PLC0415

    release = _releases(made["published"])[1]
    for path in places(release.card):
        card = json.loads(json.dumps(release.card))
        table = card
        for name in path[:-1]:
            table = table[name]
        table[path[-1]] = value
        list(problems_of_card(card))


# --- what reaches the terminal


PAINT = "\x1b[2J\x1b[1;1HSound: all is well\x1b[8m\x9b31m\u202e\x07\r\nSound: really"


def test_no_card_paints_the_terminal(published: Path, tmp_path: Path) -> None:
    card = json.loads(
        json.dumps(export_formats.load_release(published / "000000.safetensors").card)
    )
    card["neighbours"], card["settings"][PAINT] = PAINT, 1.0
    redo(published, _releases(published), 0, card)
    done = verified(published)
    assert done.returncode == 1
    assert all(line.startswith(("Checking ", str(published))) for line in done.stdout.splitlines())
    assert done.stdout.replace("\n", "").isprintable()
    records = tmp_path / "new.csv"
    records.write_text("a,b,c\n1,2,3\n")
    card["classes"], card["columns"] = [PAINT, "no"], ["a", "b", "c"]
    redo(published, _releases(published), 0, card)
    done = tidegate("predict", str(published / "000000.safetensors"), str(records))
    assert done.stdout.replace("\n", "").isprintable()
    for line in to_markdown(card).splitlines():
        assert line.isprintable()
        assert "Sound" not in line or line.startswith(("|", "**"))


@pytest.mark.parametrize("text", ["<img src=x>", "![x](http://example.invalid)", "a|b", "[a](b)"])
def test_a_markdown_card_shows_values_as_they_are(made: dict[str, Path], text: str) -> None:
    card = {**_releases(made["published"])[0].card, "label": text, "stream": text}
    shown = to_markdown(card)
    assert "<img" not in shown
    assert "](" not in shown
    assert "a|b" not in shown


# --- segments and runs


def records() -> Records:
    return Records(np.ones((50, 3)), np.zeros(50, np.intp), np.ones(50, np.bool_))


def test_a_segment_is_not_unpacked_to_more_than_it_is() -> None:
    assert unpack(pack(records())).n == 50
    table = pa.ipc.open_file(pa.BufferReader(pack(records()))).get_batch(0)
    for codec in ("lz4", "zstd"):
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression=codec)
        with pa.ipc.new_file(sink, table.schema, options=options) as writer:
            writer.write_batch(table)
        with pytest.raises(ValueError, match="compressed"):
            unpack(sink.getvalue())


def test_no_damaged_segment_is_read_beyond_its_end() -> None:
    data, seed = pack(records()).to_pybytes(), secrets.randbits(32)
    rng = random.Random(seed)
    for _ in range(2000):
        broken = bytearray(data)
        for _ in range(rng.choice([1, 2, 8])):
            broken[rng.randrange(len(data))] = rng.randrange(256)
        kept = bytes(broken).lstrip(b"\0")
        piece = segments.Stored(
            where="here",
            data=bytes(broken),
            size=len(kept),
            checksum=segments.checksum(kept),
            count=50,
            slots=slice(0, 50),
            sound=set(),
        )
        try:
            read = piece.load()
        except StoreError:
            continue
        assert len(read.y) == 50, f"seed {seed}"
        read.X.tobytes()  # touches every byte of it


def test_a_run_of_persons_is_not_longer_than_its_bytes() -> None:
    owners = np.array([[1, 2]], np.uint64)
    one = np.ones(1, np.int64)
    data = Run(owners, one, 0 * one, one).pack()
    assert Run.unpack(data).stops.tolist() == [1]
    bomb = data[:8] + (2**40).to_bytes(8, "little") + data[16:]
    with pytest.raises(ValueError, match=str(2**40)):
        Run.unpack(bomb)


# --- fuzz


@pytest.mark.thorough
def test_tampered_folders_do_no_harm(tmp_path: Path) -> None:
    assert fuzz(tmp_path, range(40)) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_tampered_folders_do_no_harm(part: int, tmp_path: Path) -> None:
    """Ten thousand in all, in processes that are used again."""
    assert fuzz(tmp_path, range(1000 + 500 * part, 1500 + 500 * part)) == []


def command(folder: Path) -> Verdict:
    """Verify a folder by the command."""
    scratch = folder.parent / "scratch"
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", "verify", str(folder)],
        env={**os.environ, "TMPDIR": str(scratch), "PGPASSWORD": "secret"},
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Verdict(done.returncode, f"{done.stdout}\0{done.stderr}", [])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_the_command_does_no_harm(part: int, tmp_path: Path) -> None:
    """Two hundred in all."""
    check: Callable[[Path], Verdict] = command
    assert fuzz(tmp_path, range(20_000 + 50 * part, 20_050 + 50 * part), check) == []
