"""The scripts in `contrib/`: a backup that can be made every night, and a check that restarts."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.state.gatelife import config, opened, stream
from tests.state.postgres_server import BINARIES, DATABASES
from tidegate.gate import Gate
from tidegate.run.config.tables import Locations
from tidegate.state.elsewhere import Elsewhere
from tidegate.state.verification import verify

CONTRIB = Path(__file__).parent.parent / "contrib"


def run(script: str, *words: object, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(CONTRIB / script), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | variables,
    )


def back_up(state: Path, folder: Path, keep: object = 2) -> "subprocess.CompletedProcess[str]":
    found = f"{BINARIES}{os.pathsep}{os.environ['PATH']}"
    return run(
        "tidegate-backup",
        state,
        folder,
        keep,
        PATH=found,
        TIDEGATE_BIN=str(Path(sys.executable).parent),
    )


def restore(backup: Path, state: Path) -> None:
    """Put a backup in the place of a state, as docs/operate.md says."""
    shutil.rmtree(state)
    shutil.copytree(backup, state)
    elsewhere = Elsewhere.of(state)
    if elsewhere is not None:
        ask = [str(BINARIES / "psql"), "-qX", f"--dbname={elsewhere.locations.database}"]
        name = elsewhere.name
        away = f"--command=ALTER SCHEMA {name} RENAME TO {name}_broken"
        subprocess.run([*ask, away], check=True)
        load = ["--set=ON_ERROR_STOP=1", f"--file={state}/database.sql"]
        subprocess.run([*ask, *load], check=True, stdout=subprocess.DEVNULL)
        (state / "database.sql").unlink()


@pytest.mark.thorough
@pytest.mark.parametrize("locations", DATABASES)
def test_backups_of_a_gate_that_runs_are_complete_and_rotate(
    locations: Callable[[], Locations], tmp_path: Path
) -> None:
    state, folder = tmp_path / "gate", tmp_path / "backups"
    folder.mkdir()
    (folder / "gate-2026-01-31T023000Z").mkdir()
    (folder / "gate-2-2026-01-31T023000Z").mkdir()  # of another state
    (folder / ".gate.unfinished").mkdir()  # of a backup that was killed
    store = {name: place for name, place in asdict(locations()).items() if place is not None}
    made = []
    with opened(state, config(store=store)) as gate:
        gate.ingest(*stream(900))
        for start in (900, 1000):
            gate.ingest(*stream(100, start))
            done = back_up(state, folder)
            assert (done.returncode, done.stderr) == (0, "")
            made.append(Path(done.stdout.strip()))
        kept = [release.hash for release in gate.releases()]
    assert sorted(made) == sorted(folder.glob("gate-20*T*[0-9]Z"))
    assert (folder / "gate-2-2026-01-31T023000Z").exists()
    assert not (folder / ".gate.unfinished").exists()
    assert made[0].stat().st_mode & 0o777 == 0o700
    restore(made[-1], state)
    with Gate.open(state) as gate:
        assert [release.hash for release in gate.releases()] == kept
        assert gate.ingest(*stream(100, 1100)) == 1200
        assert list(verify(gate)) == []


@pytest.mark.thorough
def test_a_backup_has_the_key_of_persons(tmp_path: Path) -> None:
    state, folder = tmp_path / "gate", tmp_path / "backups"
    folder.mkdir()
    person = {"id": "who", "contributions": 2}
    with opened(state, config(person=person)) as gate:
        gate.ingest(*stream(800), persons=list(range(800)))
    done = back_up(state, folder)
    assert (done.returncode, done.stderr) == (0, "")
    restore(Path(done.stdout.strip()), state)
    with Gate.open(state) as gate:
        gate.ingest(*stream(100, 800), persons=list(range(100)))
        assert list(verify(gate)) == []


@pytest.mark.thorough
def test_a_release_made_during_a_backup_does_no_harm(tmp_path: Path) -> None:
    state, then, folder = tmp_path / "gate", tmp_path / "then", tmp_path / "backups"
    folder.mkdir()
    with opened(state, config(publish={"folder": str(tmp_path / "published")})) as gate:
        gate.ingest(*stream(900))
    shutil.copytree(state, then)  # as if copied while the gate went on
    with Gate.open(state) as gate:
        gate.ingest(*stream(200, 900))
    assert list((tmp_path / "published").glob("000004.*"))
    done = back_up(then, folder)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.thorough
def test_a_damaged_state_costs_no_backup(tmp_path: Path) -> None:
    state, folder = tmp_path / "gate", tmp_path / "backups"
    folder.mkdir()
    old = folder / "gate-2026-01-31T023000Z"
    old.mkdir()
    with opened(state, config()) as gate:
        gate.ingest(*stream(900))
    segment = min((state / "segments").iterdir())
    segment.write_bytes(segment.read_bytes()[:-100])
    done = back_up(state, folder, keep=1)
    assert done.returncode == 1
    assert segment.name in done.stderr
    assert "The copy is not sound" in done.stderr
    assert [path for path in folder.iterdir() if path.is_dir()] == [old]


def test_a_backup_of_nothing_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "gate", config()):
        pass
    here = tmp_path / "backups"
    assert "is no folder: is the disk mounted?" in back_up(tmp_path / "gate", here).stderr
    here.mkdir()
    assert "holds no state: is the disk mounted?" in back_up(tmp_path / "gone", here).stderr
    assert "KEEP must be a number" in back_up(tmp_path / "gate", here, keep=0).stderr
    assert list(here.iterdir()) == []


class Health(BaseHTTPRequestHandler):
    """Answers the status that the path names."""

    def do_GET(self) -> None:
        self.send_response(int(self.path[1:]))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def service() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Health) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl (apt-get install curl)")
@pytest.mark.parametrize(
    ("state", "path", "asked"),
    [
        ("failed", "/503", ["reset-failed tidegate", "start --no-block tidegate"]),
        ("failed", None, ["reset-failed tidegate", "start --no-block tidegate"]),
        ("active", "/200", []),
        ("active", "/503", ["try-restart --no-block tidegate"]),
        ("active", None, []),
        ("inactive", "/503", []),
    ],
)
def test_a_unit_is_restarted_unless_somebody_stopped_it(
    state: str, path: str | None, asked: list[str], service: str, tmp_path: Path
) -> None:
    systemctl, log = tmp_path / "systemctl", tmp_path / "log"
    systemctl.write_text(
        f'#!/bin/sh\ncase $1 in is-*) [ "$1" = "is-{state}" ]; exit ;; esac\necho "$@" >> {log}\n'
    )
    systemctl.chmod(0o755)
    log.touch()
    words = ["tidegate"] if path is None else ["tidegate", service + path]
    found = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = run("tidegate-health", *words, PATH=found, TIDEGATE_HEALTH_PAUSE="1")
    assert done.returncode == 0, done.stderr
    assert log.read_text().splitlines() == asked
