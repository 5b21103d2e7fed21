"""A PostgreSQL server of our own, from Debian's packages: on a socket in a temporary folder."""

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import time
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psycopg
import pytest

from tidegate.run.config.tables import Locations


def newest(versions: Path) -> Path:
    """The folder with the newest server's programs; one that does not exist if there is none."""
    return max(versions.glob("*/bin/initdb"), default=versions / "none" / "initdb").parent


BINARIES = newest(Path("/usr/lib/postgresql"))
needs_postgres = pytest.mark.skipif(
    not BINARIES.exists(), reason="needs PostgreSQL (apt-get install postgresql)"
)

# what tests damage rows with: SQLite has one
ZEROBLOB = """
CREATE FUNCTION zeroblob(size bigint) RETURNS bytea LANGUAGE sql
AS $$ SELECT decode(repeat('00', size::int), 'hex') $$
"""


class Server:
    """A server that can be killed and started again; commits are durable as in earnest.

    Args:
        folder: Where its data and its socket are; a socket's path must be short.
        address: Where else it listens, an address of this machine.
        ahead: The server that it is a standby of.
    """

    def __init__(self, folder: Path, address: str = "", ahead: "Server | None" = None) -> None:
        self.folder, self.address = folder, address
        # it refuses to be root
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        folder.chmod(0o755)
        new = ["initdb", "-A", "trust", "-E", "UTF8", "--no-locale"]
        copy = ["pg_basebackup", "-R", "-c", "fast", "-h", str(ahead and ahead.folder)]
        where = ("-D", f"{folder}/data", "-U", "tidegate", "--no-sync")
        self._run(*(copy if ahead else new), *where).wait(60)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()
        if not ahead:
            self.ask(ZEROBLOB)

    @property
    def url(self) -> str:
        """Where the server is."""
        return f"postgresql://tidegate@/postgres?host={self.folder}"

    def _run(self, program: str, *words: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [str(BINARIES / program), *words],
            cwd=self.folder,
            env={"PATH": os.defpath},
            user=self._user.pw_uid,
            group=self._user.pw_gid,
            extra_groups=[],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def start(self) -> None:
        """Start it, as often as it takes: what is left of one that was killed may be in its way."""
        for _ in range(600):
            if self._process is None or self._process.poll() is not None:
                how = ("-c", f"listen_addresses={self.address}", "-c", "max_connections=20")
                self._process = self._run("postgres", "-D", "data", "-k", str(self.folder), *how)
            if self._run("pg_isready", "-h", str(self.folder)).wait(60) == 0:
                return
            time.sleep(0.05)
        raise TimeoutError("the server does not start")

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Have the server do or say something, as its operator would."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            answer = connection.execute(query.encode())
            return answer.fetchall() if answer.description else []

    def put(self, name: str, text: str) -> None:
        """Give it one of the files that it finds beside its data."""
        path = self.folder / "data" / name
        path.write_text(text)
        path.chmod(0o600)
        os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def kill(self) -> None:
        """End it as a failing machine would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it at once, and delete its data."""
        self._end(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(60)


@cache
def server() -> Server:
    """The one that all tests of a process share; each state has a schema of its own there."""
    started = Server(Path(mkdtemp(prefix="pg-")))
    atexit.register(started.stop)
    return started


def on_server() -> Locations:
    """A database on the server that all share."""
    return Locations(database=server().url)


DATABASES = [
    pytest.param(Locations, id="sqlite"),
    pytest.param(on_server, id="postgres", marks=[needs_postgres, pytest.mark.slow]),
]
"""Where a state's database may be: functions, for a server is started when it is needed."""
