"""The HTTP server: the FastAPI application of one gate, a socket, and uvicorn with our settings."""

import gc
import logging
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from threadpoolctl import threadpool_limits

from tidegate.checks import InvalidValueError, StoppedError, StoreError
from tidegate.gate import Gate
from tidegate.serve.connections import Connections
from tidegate.serve.examples import with_own
from tidegate.serve.gate_runner import GateRunner
from tidegate.serve.limits import Limits, NoSlotError
from tidegate.serve.middleware import RETRY_AFTER, STUCK, AuditMiddleware
from tidegate.serve.page.page import add_page
from tidegate.serve.routes.erasure_routes import erasures
from tidegate.serve.routes.ledger_routes import ledger
from tidegate.serve.routes.record_routes import records
from tidegate.serve.routes.release_routes import releases
from tidegate.serve.routes.watch_routes import watch
from tidegate.serve.service import Fields, Service

log = logging.getLogger("tidegate.serve")

MAX_ERROR_LENGTH = 1000
"""The most characters of an error message."""

ABOUT = """\
Records in, private models out. No route returns a record. Nothing computed from records is
returned except releases. Errors are `{"error": "one clear line"}`.
"""


SWITCH = 0.0005
"""Seconds after which a computing thread yields to one that serves requests."""

LOOPBACK = "127.0.0.1"


# --- the application


def create_app(runner: GateRunner, folder: Path, limits: Limits | None = None) -> FastAPI:
    """The application that serves a gate.

    Args:
        runner: Runs the gate; the caller closes it.
        folder: The gate's state, which also holds tokens and the audit log.
        limits: Limits on what clients may do.
    """
    service = Service(runner, folder, limits or Limits())

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        service.close()

    app = FastAPI(
        title="Tidegate",
        version=version("tidegate"),
        description=ABOUT,
        lifespan=life,
        openapi_url=None,  # served below, with a token only
        docs_url=None,  # it would load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,  # it would redirect to any host that the request names
    )
    for routes in (records, erasures, releases, ledger, watch):
        app.include_router(routes(service))

    @app.get("/v1/openapi.json", dependencies=service.needs("read"), include_in_schema=False)
    def openapi() -> JSONResponse:
        facts = service.facts
        own: dict[str, Callable[[], Fields]] = {
            "/v1/status": service.status,
            "/v1/plan": facts.plan,
            "/v1/ledger": facts.ledger,
            "/v1/ledger/strip": partial(facts.strip, buckets=2),
        }
        return JSONResponse(with_own(app.openapi(), own))

    add_page(app)
    _add_refusals(app)
    app.add_middleware(AuditMiddleware, audit=service.audit, requests=service.requests)
    return app


def _add_refusals(app: FastAPI) -> None:
    """Turn exceptions into one-line errors that quote nothing of a body."""

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    @app.exception_handler(InvalidValueError)
    async def invalid(_: Request, error: InvalidValueError) -> JSONResponse:
        line = " ".join(str(error).split())  # column names may contain line feeds
        return JSONResponse({"error": line[:MAX_ERROR_LENGTH]}, 422)

    @app.exception_handler(StoppedError)
    async def stopped(_: Request, error: StoppedError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 409)

    @app.exception_handler(NoSlotError)
    async def full(_: Request, error: NoSlotError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 429, RETRY_AFTER)

    @app.exception_handler(RequestValidationError)
    async def unreadable(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        return JSONResponse({"error": f"{where}: {first['msg']}"}, 422)

    @app.exception_handler(StoreError)
    async def stuck(_: Request, error: StoreError) -> JSONResponse:
        log.error("%s", error)
        return JSONResponse({"error": STUCK}, 503, RETRY_AFTER)

    @app.exception_handler(Exception)
    async def ours(_: Request, error: Exception) -> JSONResponse:
        bug = f"a bug in tidegate ({type(error).__name__}): see the operator's log"
        return JSONResponse({"error": bug}, 500)


# --- the server


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
