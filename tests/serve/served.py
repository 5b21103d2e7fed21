"""A service on loopback, for a while."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from tidegate.client import Client
from tidegate.gate import Config, Gate
from tidegate.serve.access_tokens import Tokens
from tidegate.serve.gate_runner import GateRunner
from tidegate.serve.limits import Limits
from tidegate.serve.parser import Parser
from tidegate.serve.server import listen, running_gate, server
from tidegate.state.folder_store import FolderStore
from tidegate.state.store import Batch

SCOPES = ("ingest", "read", "admin", "erase")


def config(**sections: Any) -> Config:
    """A small gate whose first release comes after 300 records."""
    return Config.of(
        {
            "schedule": {"kind": "sliding", "window": 300, "step": 100},
            "budget": {"epsilon": 1.0},
            "records": {"classes": [0, 1], "norm": 1.5, "columns": ["a", "b"], "label": "y"},
            "quality": {"share": "1/20"},
        }
        | sections
    )


def stream(n: int, start: int = 0) -> tuple[Any, Any]:
    """Records that can be told apart."""
    slots = np.arange(start, start + n)
    y = slots % 2
    return np.column_stack([2.0 * y - 1, np.cos(slots)]), y


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the service said."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, kw_only=True)
class Served:
    """A service that runs, with a token for each scope."""

    folder: Path
    port: int
    runner: GateRunner
    tokens: dict[str, str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, *scopes: str, patience: float = 10.0) -> Client:
        """A client with a token of its own."""
        name = f"test-{len(Tokens(self.folder).all())}"
        return Client(
            self.url, Tokens(self.folder).create(name, scopes or SCOPES), patience=patience
        )

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        **headers: str,
    ) -> Answer:
        """One request, by default with the token whose scope it needs."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is None:
            needed = "ingest" if path.startswith("/v1/records") else "read"
            needed = "erase" if path.startswith("/v1/erasures") else needed
            token = self.tokens["admin" if path.startswith("/v1/audit") else needed]
        if token:
            given["Authorization"] = f"Bearer {token}"
        if body is not None and not isinstance(body, bytes):
            body, given = json.dumps(body).encode(), {"Content-Type": "application/json", **given}
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            return Answer(status=answer.status, body=answer.read(), headers=dict(answer.headers))
        finally:
            connection.close()

    def wait_for(self, number: int) -> None:
        """Wait until a release predicts, and training rests.

        That it is listed is not enough: it is stored a moment before it predicts.
        """
        runner = self.runner
        assert become(lambda: runner.current.number >= number and not runner.training)

    def send(self, n: int, start: int = 0, **headers: str) -> Answer:
        """A batch of the stream."""
        X, y = stream(n, start)
        return self.ask("POST", "/v1/records", {"x": X.tolist(), "y": y.tolist()}, **headers)


@contextmanager
def served(
    folder: Path,
    settings: Config | None = None,
    limits: Limits | None = None,
    gate: Gate | None = None,
    parsing: bool = False,
) -> Iterator[Served]:
    """A service of a state, which is made if it is not there; or of a gate that is open.

    Most tests send no large body. So the process that parses them starts with the first one, unless
    `parsing`: then it starts with the service, as everywhere else.
    """
    limits = limits or Limits(rate=10_000, burst=10_000)
    gate = gate or Gate.open(folder, settings or config())
    ahead = nullcontext() if parsing else patch.object(Parser, "start")
    with ahead, listen("127.0.0.1", 0) as listening, running_gate(gate, limits) as runner:
        tokens = Tokens(folder)
        known = {scope: tokens.create(f"{scope}-{len(tokens.all())}", [scope]) for scope in SCOPES}
        running = server(runner, folder, limits)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            port = listening.getsockname()[1]
            yield Served(folder=folder, port=port, runner=runner, tokens=known)
        finally:
            running.should_exit = True
            thread.join()


def become(met: Callable[[], bool]) -> bool:
    """Whether it does, in a while; long enough for a machine that has much else to do."""
    deadline = time.monotonic() + 120
    while not met() and time.monotonic() < deadline:
        time.sleep(0.01)
    return met()


@contextmanager
def slow_disk() -> Iterator[threading.Event]:
    """Records become durable only when the event is set, or after a while."""
    going, append = threading.Event(), FolderStore.append

    def slow(self: FolderStore, batch: Batch) -> int:
        going.wait(120)
        return append(self, batch)

    with patch.object(FolderStore, "append", slow):
        yield going
