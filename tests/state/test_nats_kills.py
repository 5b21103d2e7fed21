"""`tidegate run` on JetStream, with the run or the server killed: it ends as if nothing had."""

import random
import time
from pathlib import Path

import pytest

from tests.state.commands import command, gate_text, hashes, killed, started
from tests.state.natsserver import STREAM, Server, needs_server
from tests.state.sent import RECORDS, from_a_file, messages
from tidegate.gate import Gate
from tidegate.state.verification import verify

pytestmark = needs_server


def config(folder: Path, server: Server, patience: float = 30) -> str:
    folder.mkdir()
    source = {"type": "nats", "url": server.url, "stream": STREAM}
    lines = [f'{name} = "{value}"\n' for name, value in source.items()]
    path = folder / "gate.toml"
    path.write_text(gate_text(folder, "[source]\n", *lines, f"patience = {patience}\n"))
    return str(path)


def check(folder: Path, expected: list[str]) -> None:
    assert hashes(folder) == expected
    with Gate.look(folder / "gate.state") as gate:
        assert gate.store.count("records") == RECORDS
        assert list(verify(gate)) == []


def run_killed(folder: Path, kills: int) -> None:
    expected, rng = from_a_file(folder / "file"), random.Random(7)
    with Server(folder / "server") as server:
        server.make()
        path, sent = config(folder / "run", server), 0
        for kill in range(1, kills + 1):
            server.send(messages(sent, kill * RECORDS // kills - sent))
            sent = kill * RECORDS // kills
            errors = folder / "errors"
            run = started("run", path, "--quiet", "--follow", errors=errors)
            assert killed(run, rng.uniform(0.1, 0.6))
        assert command("run", path, "--quiet", errors=errors).code == 0
        check(folder / "run", expected)


def server_killed(folder: Path, kills: int) -> None:
    expected = from_a_file(folder / "file")
    with Server(folder / "server") as server:
        server.make()
        path, errors, sent = config(folder / "run", server), folder / "errors", 0
        server.send(messages(0, 500))
        run = started("run", path, "--quiet", "--follow", errors=errors)
        sent = 500
        for kill in range(1, kills + 1):
            time.sleep(0.6)
            server.kill()
            time.sleep(0.3)
            server.start()
            upto = 500 + kill * (RECORDS - 500) // kills
            server.send(messages(sent, upto - sent))
            sent = upto
        until = time.monotonic() + 60
        while len(hashes(folder / "run")) < len(expected) and time.monotonic() < until:
            time.sleep(0.1)
        assert killed(run, 0)
        assert command("run", path, "--quiet", errors=folder / "last").code == 0
        check(folder / "run", expected)


@pytest.mark.thorough
def test_a_run_that_is_killed_goes_on(tmp_path: Path) -> None:
    run_killed(tmp_path, 3)


@pytest.mark.slow
def test_many_kills_of_the_run(tmp_path: Path) -> None:
    run_killed(tmp_path, 60)


@pytest.mark.slow
def test_many_kills_of_the_server(tmp_path: Path) -> None:
    server_killed(tmp_path, 20)


@pytest.mark.slow
def test_a_server_that_stays_away_ends_the_run_until_it_is_back(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with Server(tmp_path / "server") as server:
        server.make()
        server.send(messages(0, 700))
        path = config(tmp_path / "run", server, patience=0.5)
        assert command("run", path, "--quiet", errors=errors).code == 0
        server.kill()
        ended = command("run", path, "--quiet", errors=errors)
        assert ended.code == 2
        assert [line.split(" (")[0].split(" at ")[0] for line in ended.said] == [
            "the NATS server",
            "tidegate: the NATS server",
        ]
        server.start()
        assert command("run", path, "--quiet", errors=errors).code == 0
        assert len(hashes(tmp_path / "run")) == 5
