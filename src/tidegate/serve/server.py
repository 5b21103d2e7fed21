"""The HTTP server: a socket, and uvicorn with our settings."""

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
from tidegate.gate import Gate
from tidegate.serve.app import create_app
from tidegate.serve.connections import Connections
from tidegate.serve.gate_runner import GateRunner
from tidegate.serve.limits import Limits

SWITCH = 0.0005
"""Seconds after which a computing thread yields to one that serves requests."""

LOOPBACK = "127.0.0.1"


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 chooses a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns on TCP_NODELAY only for sockets with an explicit IPPROTO_TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(512)  # clients wait until the server is ready
    except OSError as error:
        listener.close()
        wrong = f"cannot listen at {host}, port {port}: {error.strerror}"
        raise InvalidValueError(f"{wrong}; choose another --host or --port") from None
    return listener


@contextmanager
def running_gate(gate: Gate, limits: Limits) -> Iterator[GateRunner]:
    """Run a gate beside a server, so that training leaves time for requests."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    gc.freeze()  # keeps garbage collections short: imported modules are not scanned
    try:
        # One thread for linear algebra: predictions are small, and fits must not take all cores.
        with threadpool_limits(1), GateRunner(gate, most_waiting=limits.waiting) as runner:
            yield runner
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)


def server(runner: GateRunner, folder: Path, limits: Limits | None = None) -> uvicorn.Server:
    """A server for a running gate; `run` starts it."""
    limits = limits or Limits()
    config = uvicorn.Config(
        create_app(runner, folder, limits),
        http=Connections(limits.connections),  # type: ignore[arg-type]  # makes protocols
        ws="none",
        lifespan="on",
        access_log=False,  # there is the audit log
        log_config=None,  # use the logging of the program
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
    """Serve until SIGINT or SIGTERM; uvicorn's own handlers would skip the cleanup."""
    signals = (signal.SIGINT, signal.SIGTERM)

    def stop(*_: object) -> None:
        served.should_exit = True

    before = [signal.signal(each, stop) for each in signals]
    try:
        served.run(sockets=[listening])
    finally:
        for each, handler in zip(signals, before, strict=True):
            signal.signal(each, handler)
