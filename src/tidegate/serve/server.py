"""The service on a socket."""

import gc
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from threadpoolctl import threadpool_limits

from tidegate.checks import InvalidValueError
from tidegate.gate.gate import Gate
from tidegate.serve.app import create_app
from tidegate.serve.connections import Guarded
from tidegate.serve.gate_runner import GateRunner
from tidegate.serve.limits import Limits

SWITCH = 0.0005
"""Seconds after which a thread that computes lets another one that answers have its turn."""

LOOPBACK = "127.0.0.1"


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes one that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, for only on sockets that say they are TCP does asyncio send small packets at once.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(512)  # who comes before the server is ready waits
    except OSError as error:
        made.close()
        told = f"cannot listen at {host}, port {port}: {error.strerror}"
        raise InvalidValueError(f"{told}; choose another --host or --port") from None
    return made


@contextmanager
def kept(gate: Gate, limits: Limits) -> Iterator[GateRunner]:
    """A gate that is kept beside a server: what computes leaves room for what answers."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    gc.freeze()  # or everybody waits while all that was imported is looked through for garbage
    try:
        # One thread for linear algebra: predictions are too small for more, and fits must not
        # take all cores.
        with threadpool_limits(1), GateRunner(gate, most_waiting=limits.waiting) as runner:
            yield runner
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)


def server(runner: GateRunner, folder: Path, limits: Limits | None = None) -> uvicorn.Server:
    """A server for a gate that is kept; `run` serves until it is told to stop."""
    limits = limits or Limits()
    config = uvicorn.Config(
        create_app(runner, folder, limits),
        http=type("Limited", (Guarded,), {"most": limits.connections}),
        ws="none",
        lifespan="on",
        access_log=False,  # the audit log is kept instead
        log_config=None,  # what is logged goes where the program's log goes
        log_level="warning",
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=2**14,
    )
    return uvicorn.Server(config)


def run(served: uvicorn.Server, listening: socket.socket) -> None:
    """Serve until a signal comes; uvicorn would end the process by it, before all is put away."""
    signals = (signal.SIGINT, signal.SIGTERM)

    def stop(*_: object) -> None:
        served.should_exit = True

    before = [signal.signal(each, stop) for each in signals]
    try:
        served.run(sockets=[listening])
    finally:
        for each, handler in zip(signals, before, strict=True):
            signal.signal(each, handler)
