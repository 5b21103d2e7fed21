"""Who a server lets in: a password that nobody gets to see, and a wire that nobody can read."""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import pytest

from tests.cli.run import Done, tidegate
from tests.state.certificate import certificate
from tests.state.commands import grow, make
from tests.state.postgres_server import Server, needs_postgres
from tidegate.checks import StoreError
from tidegate.run.config.tables import Locations
from tidegate.state.folder_store import FolderStore

pytestmark = [needs_postgres, pytest.mark.slow]
RIGHT, WRONG = "right-7d1f0c", "wrong-93ab5e"
ONLY_BY_TLS = "local all all trust\nhostssl all all all scram-sha-256\n"
ENCRYPTED = """
SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
WHERE application_name = 'tidegate' AND client_addr IS NOT NULL
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that takes passwords, over TLS alone, at an address of its own."""
    process = os.getpid()
    with TemporaryDirectory(prefix="pg-") as folder:
        server = Server(Path(folder), address=f"127.71.{process // 250 % 250}.{process % 250 + 1}")
        for file in certificate(Path(folder)):
            server.put(file.name, file.read_text())
        server.ask(f"ALTER ROLE tidegate PASSWORD '{RIGHT}'")
        server.ask("ALTER SYSTEM SET ssl = on")
        server.put("pg_hba.conf", ONLY_BY_TLS)
        server.kill()
        server.start()
        yield server
        server.stop()


def url(server: Server, host: str = "localhost", **more: object) -> str:
    words = "".join(f"&{name}={quote(str(value), safe='')}" for name, value in more.items())
    return f"postgresql://tidegate@{host}/postgres?hostaddr={server.address}{words}"


WAYS = {"PGPASSWORD": None, "PGPASSFILE": "passwords", "": ".pgpass", "PGSERVICEFILE": "services"}
"""Where libpq finds a password: a variable, and a file in the user's home that it may name."""


def given(way: str, password: str, server: Server, home: Path) -> dict[str, str]:
    """The variables by which libpq finds a password."""
    name = WAYS[way]
    if name is None:
        return {way: password}
    where = f"host=localhost\nhostaddr={server.address}\nuser=tidegate\ndbname=postgres"
    text = f"localhost:*:postgres:tidegate:{password}\n"
    if name == "services":
        text = f"[ledgers]\n{where}\npassword={password}\n"
    (home / name).write_text(text)
    (home / name).chmod(0o600)
    return {way: str(home / name)} if way else {}


def nowhere(secret: str, folder: Path, done: list[Done], log: str) -> bool:
    """Whether something is told nowhere: not by commands, nor by files, nor by loggers."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    told = [*(f"{one.stdout}{one.stderr}" for one in done), log]
    texts = [*map(str.encode, told), *(path.read_bytes() for path in files)]
    assert len(texts) > 2
    return not any(secret.encode() in text for text in texts)


@pytest.mark.parametrize("way", WAYS)
def test_a_password_is_used_and_told_to_nobody(
    way: str, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    folder, home = tmp_path / "run", tmp_path / "home"
    for each in (folder, home):
        each.mkdir()
    database = "postgresql://?service=ledgers" if way == "PGSERVICEFILE" else url(server)
    config, state = make(folder, database=database), str(folder / "gate.state")
    grow(folder, 0, 450)
    wrong = given(way, WRONG, server, home)
    refused = tidegate("run", config, HOME=str(home), **wrong)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "password authentication failed" in refused.stderr
    assert not (folder / "gate.state" / "elsewhere.json").exists()
    right = given(way, RIGHT, server, home)
    done = [
        tidegate(*command, *how, HOME=str(home), **right)
        for command in [("run", config), ("status", state), ("verify", state, "--connect")]
        for how in [(), ("--format", "json")]
    ]
    assert {one.returncode for one in done} == {0}, done
    assert json.loads((folder / "out" / "000001.json").read_text())["card"]
    for secret in (RIGHT, WRONG):
        assert nowhere(secret, folder, [refused, *done], caplog.text)


@pytest.mark.parametrize("mode", ["require", "verify-full"])
def test_the_wire_is_encrypted(
    mode: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", RIGHT)
    trusted = url(server, sslmode=mode, sslrootcert=server.folder / "server.crt")
    locations = Locations(database=trusted if mode == "verify-full" else url(server, sslmode=mode))
    with closing(FolderStore(tmp_path / "state", "config", locations=locations)):
        assert server.ask(ENCRYPTED) == [(True,)]


def test_a_server_that_is_not_who_it_should_be_is_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And told no password: one that is certified by others, or for others, or in plain text."""
    monkeypatch.setenv("PGPASSWORD", RIGHT)
    _, other = certificate(tmp_path)
    full, signed = {"sslmode": "verify-full"}, server.folder / "server.crt"
    for database, told in (
        (url(server, **full, sslrootcert=other), "certificate verify failed"),
        (url(server, host="db.example", **full, sslrootcert=signed), "does not match host name"),
        (url(server, sslmode="disable"), "no encryption"),
    ):
        with pytest.raises(StoreError, match=told) as caught:
            FolderStore(tmp_path / "state", "config", locations=Locations(database=database))
        assert "\n" not in str(caught.value)
        assert RIGHT not in str(caught.value)
