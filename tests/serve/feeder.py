"""A service that a test may kill, and a sender that does not mind."""

from multiprocessing.connection import Connection
from pathlib import Path

from tests.serve.served import config
from tidegate.gate import Gate
from tidegate.serve.limits import Limits
from tidegate.serve.server import listen, run, running_gate, server


def serve(kind: type[Gate], folder: Path, port: int, ready: Connection) -> None:
    """Serve until killed."""
    limits = Limits(rate=10_000, burst=10_000)
    with (
        listen("127.0.0.1", port) as listening,
        running_gate(kind.open(folder, config()), limits) as it,
    ):
        ready.send(True)
        run(server(it, folder, limits), listening)
