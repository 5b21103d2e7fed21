"""The service: one Gate over HTTP."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tidegate.checks import InvalidValueError, StoreError
from tidegate.serve.gate_runner import GateRunner
from tidegate.serve.limits import Limits
from tidegate.serve.middleware import LATER, STUCK, AuditMiddleware
from tidegate.serve.page.page import add_page
from tidegate.serve.routes.ledger import ledger
from tidegate.serve.routes.records import records
from tidegate.serve.routes.releases import releases
from tidegate.serve.routes.watch import watch
from tidegate.serve.service import Service
from tidegate.serve.slots import NoSlotError

log = logging.getLogger("tidegate.serve")

LONGEST = 1000
"""Characters of an error's line."""

ABOUT = """\
Records in, private models out. No route hands out a record, or anything computed from records but
what is released. Errors are `{"error": "one clear line"}`.
"""


def create_app(runner: GateRunner, folder: Path, limits: Limits | None = None) -> FastAPI:
    """The service around a gate that is kept.

    Args:
        runner: Keeps the gate; closed by whoever made it.
        folder: The gate's state, where tokens and the audit log are as well.
        limits: What a client may ask.
    """
    service = Service(runner, folder, limits or Limits())

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="Tidegate",
        version=version("tidegate"),
        description=ABOUT,
        lifespan=life,
        openapi_url=None,  # served below, to those who have a token
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # it would redirect to whatever host the request names
    )
    for routes in (records, releases, ledger, watch):
        app.include_router(routes(service))

    @app.get("/v1/openapi.json", dependencies=service.needs("read"), include_in_schema=False)
    def openapi() -> JSONResponse:
        return JSONResponse(app.openapi())

    add_page(app)
    _add_refusals(app)
    app.add_middleware(AuditMiddleware, audit=service.audit, requests=service.requests)
    return app


def _add_refusals(app: FastAPI) -> None:
    """Say what is refused in one line that quotes nothing of a body."""

    @app.exception_handler(HTTPException)
    async def told(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    @app.exception_handler(InvalidValueError)
    async def invalid(_: Request, error: InvalidValueError) -> JSONResponse:
        line = " ".join(str(error).split())  # names of columns may hold anything
        return JSONResponse({"error": line[:LONGEST]}, 422)

    @app.exception_handler(NoSlotError)
    async def full(_: Request, error: NoSlotError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 429, LATER)

    @app.exception_handler(RequestValidationError)
    async def unreadable(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        return JSONResponse({"error": f"{where}: {first['msg']}"}, 422)

    @app.exception_handler(StoreError)
    async def stuck(_: Request, error: StoreError) -> JSONResponse:
        log.error("%s", error)
        return JSONResponse({"error": STUCK}, 503, LATER)

    @app.exception_handler(Exception)
    async def ours(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": f"a bug in tidegate ({type(error).__name__})"}, 500)
