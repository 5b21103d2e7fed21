"""Scenarios, each recorded in an interpreter of its own: a first release, a prediction, a walk.

    python -m tests.house.scenarios release
    python -m tests.house.scenarios prediction
    python -m tests.house.scenarios walk

print what they recorded as JSON. Interpreters of their own, because a function whose result is in a
cache is not called. All of the package is imported first, and noise comes from a seed, so that two
runs make the same calls.
"""

import json
import re
import socket
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import uvicorn

from tests.house.calls import Calls, import_everything, installed, module_of
from tests.serve.served import served
from tidegate.gate import Gate

STEP = 1024

CONFIG = f"""
not_private_seed = 7
[schedule]
kind = "fading"
step = {STEP}
forget = "3/10"
[budget]
epsilon = 1.0
delta = 1e-6
[records]
classes = [0, 1]
norm = 10.0
columns = ["a", "b"]
label = "y"
dtype = "float32"
[learner]
kind = "auto"
loss = "auto"
[survey]
share = 0.05
[quality]
share = 0.05
"""
"""What `tidegate init fading` writes, and a seed."""

SETTINGS = ("Settings", "Config")
"""The class that is counted by `settings_built`: the first of these names that the package has."""

SECONDS = 60
"""After so many seconds without an answer a service is given up."""

Found = Mapping[str, Any]


# --- a first release


def release() -> Found:
    """From a CSV file to the first release, on SQLite, with a survey and scores.

    A TOML file has the configuration that `tidegate init fading` writes, for a CSV file with one
    step of 1,024 records of two numbers and a label. Recorded are `Gate.open(folder, toml)`, which
    creates the state, and `gate.run()` up to its first release. Scores are paid for and configured;
    the first release has none, because there is no earlier model to be scored.

    Returns:
        opening: The modules with a function called while the state is opened.
        running: The same from then to the first release.
        settings: How often the settings were built until then, and when opening the state again.
        opening_queries: The statements that SQLite ran while the state was opened.
        queries: The same from then to the first release; BEGIN and COMMIT are statements too.
    """
    opening, running = Calls(), Calls()
    with TemporaryDirectory() as folder, _statements() as statements, _built() as built:
        toml, state = _written(Path(folder)), Path(folder) / "state"
        with installed(opening), opening.record():
            gate = Gate.open(state, toml)
        at_opening = list(statements)
        statements.clear()
        with gate:
            with installed(running), running.record(), closing(gate.run()) as releases:
                next(releases)
                queries = list(statements)
            first = sum(built.values())
        Gate.open(state, toml).close()
    return {
        "opening": opening.modules,
        "running": running.modules,
        "settings": [first, sum(built.values()) - first],
        "opening_queries": Counter(map(_form, at_opening)),
        "queries": Counter(map(_form, queries)),
    }


# --- the way of a record


def walk() -> Found:
    """The way of records to a second release, as `release` makes the first, and published as files.

    Returns:
        order: The functions called, in the order of their first calls.
    """
    calls = Calls()
    with TemporaryDirectory() as folder:
        toml, state = _written(Path(folder), steps=2), Path(folder) / "state"
        published = (Path(folder) / "published").as_posix()
        toml.write_text(f'{toml.read_text()}[publish]\nfolder = "{published}"\n')
        with Gate.open(state, toml) as gate, installed(calls), calls.record():
            if len(list(gate.run())) != 2:
                raise RuntimeError("two steps did not make two releases")
    return {"order": [f"{module_of(code)}:{code.co_qualname}" for code in calls.of]}


def _written(folder: Path, *, steps: int = 1) -> Path:
    """A configuration whose source is a CSV file with some steps."""
    records, toml = folder / "records.csv", folder / "tidegate.toml"
    lines = (f"{i % 2 * 2 - 1},{i % 7 / 7:.3f},{i % 2}" for i in range(steps * STEP))
    records.write_text("\n".join(["a,b,y", *lines, ""]))
    toml.write_text(f'{CONFIG}[source]\ntype = "csv"\npath = "{records.as_posix()}"\n')
    return toml


@contextmanager
def _statements() -> Iterator[list[str]]:
    """The statements that all new connections of SQLite run."""
    found: list[str] = []
    connect = sqlite3.connect

    def traced(*given: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **named)
        connection.set_trace_callback(found.append)
        return connection

    with patch.object(sqlite3, "connect", traced):
        yield found


def _form(statement: str) -> str:
    """A statement without its values.

    >>> _form("SELECT a  FROM b WHERE c = 'it''s' AND d = 7 AND e = x'00ff'")
    'SELECT a FROM b WHERE c = ? AND d = ? AND e = ?'
    """
    without = re.sub(r"(?:\b[xX])?'(?:[^']|'')*'", "?", statement)
    return " ".join(re.sub(r"(?<![\w])-?\d[\d.e+-]*\b", "?", without).split())


@contextmanager
def _built() -> Iterator[Counter[str]]:
    """How often an object of the class that holds the settings is made, by the class."""
    found: Counter[str] = Counter()
    classes = _settings_classes()
    made = {kind: vars(kind)["__init__"] for kind in classes}

    def counting(kind: type) -> Any:
        def begin(self: object, *given: Any, **named: Any) -> None:
            found[f"{kind.__module__}.{kind.__name__}"] += 1
            made[kind](self, *given, **named)

        return begin

    for kind in classes:
        kind.__init__ = counting(kind)  # type: ignore[misc]
    try:
        yield found
    finally:
        for kind, before in made.items():
            kind.__init__ = before  # type: ignore[misc]


def _settings_classes() -> list[type]:
    """The classes of the package called `Settings`; while there is none, those called `Config`."""
    modules = [each for name, each in sorted(sys.modules.items()) if name.startswith("tidegate.")]
    for name in SETTINGS:
        found = {kind for each in modules if isinstance(kind := getattr(each, name, None), type)}
        own = [kind for kind in found if kind.__module__.startswith("tidegate.")]
        if own:
            return sorted(own, key=lambda kind: kind.__module__)
    raise LookupError(f"the package has no class called {' or '.join(SETTINGS)}")


# --- a prediction


def prediction() -> Found:
    """The second prediction of one record that a service makes.

    The state is that of `release`, without a source, and has one release. A client on loopback
    sends {"records": [{"a": 1.0, "b": 0.5}]} to POST /v1/predict, in one piece, on a connection of
    its own. Recorded is every thread of the service from then until it has done with the request.

    Returns:
        modules: The modules with a function called.
        functions: The functions called, each once.
        calls: How often they were called together.
    """
    calls = Calls()
    with TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        slots = np.arange(STEP)
        toml = Path(folder) / "tidegate.toml"
        toml.write_text(CONFIG)
        with Gate.open(state, toml) as gate:
            gate.ingest(np.column_stack([slots % 2 * 2.0 - 1, slots % 7 / 7]), slots % 2)
        with _answered() as answered, installed(calls):
            sys.setprofile(None)  # the client is on this thread
            with served(state, gate=Gate.open(state)) as service, ExitStack() as opened:
                request = _request(service.tokens["read"])
                client = Client(("127.0.0.1", service.port), request, answered, opened)
                client.ask()  # it loads the model
                with calls.record():
                    client.ask()
    return {
        "modules": calls.modules,
        "functions": calls.functions,
        "calls": sum(calls.of.values()),
    }


def _request(token: str) -> bytes:
    body = json.dumps({"records": [{"a": 1.0, "b": 0.5}]})
    lines = [
        "POST /v1/predict HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", body]).encode()


@dataclass(frozen=True)
class Client:
    """Asks a service for predictions; connections stay open, because closing one is work too."""

    address: tuple[str, int]
    request: bytes
    answered: threading.Event
    opened: ExitStack

    def ask(self) -> None:
        """Ask, and wait until the service has done all that it does for it."""
        self.answered.clear()
        connection = closing(socket.create_connection(self.address, SECONDS))
        client = self.opened.enter_context(connection)
        client.sendall(self.request)
        answer = client.recv(2**16)
        if not answer.startswith(b"HTTP/1.1 200 ") or not self.answered.wait(SECONDS):
            raise RuntimeError(f"no prediction: {answer!r}")


@contextmanager
def _answered() -> Iterator[threading.Event]:
    """An event that is set whenever a service has done all that it does for a request."""
    done, load = threading.Event(), uvicorn.Config.load

    def wrapped(config: uvicorn.Config) -> None:
        load(config)
        inner = config.loaded_app

        async def app(scope: Any, receive: Any, send: Any) -> None:
            try:
                await inner(scope, receive, send)
            finally:
                done.set()

        config.loaded_app = app

    with patch.object(uvicorn.Config, "load", wrapped):
        yield done


SCENARIOS = {"release": release, "prediction": prediction, "walk": walk}


def main(scenario: str) -> None:
    """Print what a scenario records, as JSON."""
    import_everything()
    print(json.dumps(SCENARIOS[scenario]()))


if __name__ == "__main__":
    main(sys.argv[1])
