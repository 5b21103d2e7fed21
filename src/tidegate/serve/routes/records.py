"""Records in, predictions out."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, Query, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from tidegate.gate.sources import RawBatch
from tidegate.serve import examples
from tidegate.serve.access import LATER
from tidegate.serve.bodies import ARROW, JSON
from tidegate.serve.keeper import BusyError, Current
from tidegate.serve.service import Service

SMALL = 2**15
"""Bytes that are read and predicted sooner than they are handed to another thread."""

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="Names the batch among those of this token: sent again, it is not added again.",
    ),
]
Stream = Annotated[
    str | None,
    Query(max_length=20, description='"source" or "target", where there are two streams.'),
]


def records(service: Service) -> APIRouter:
    """Routes that take records."""
    router = APIRouter(tags=["records"])
    keeper = service.keeper

    async def read(request: Request, *, labelled: bool) -> tuple[RawBatch, int]:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in {JSON, ARROW}:
            raise HTTPException(415, f"the body must be {JSON} or {ARROW}")
        body = await service.body(request)
        if len(body) <= SMALL or kind == ARROW:
            return service.reader.batch(kind, body, labelled=labelled), len(body)
        raw = await run_in_threadpool(service.reader.batch, kind, body, labelled=labelled)
        return raw, len(body)

    @router.post(
        "/v1/records",
        dependencies=service.needs("ingest"),
        openapi_extra=examples.body(examples.RECORDS),
        responses=examples.answers(examples.TAKEN, 408, 413, 415, 422, 429, 503),
    )
    async def take(request: Request, stream: Stream = None, key: Key = None) -> JSONResponse:
        """Take records in; answered when they are durable.

        A record that cannot be used (a value that is no number, an unknown label) keeps its slot
        and is not told. A batch is refused only as a whole, and then nothing of it is taken.
        """
        raw, size = await read(request, labelled=True)
        request.state.records = raw.n
        name = None if key is None else f"{request.state.token}:{key}"
        try:
            waiting = keeper.take(raw, size=size, stream=stream, key=name)
        except BusyError:
            busy = "more records wait than may: come back later"
            raise HTTPException(429, busy, LATER) from None
        # Taken for good, whether or not the client is still there to hear it.
        taken = await asyncio.shield(asyncio.wrap_future(waiting))
        return JSONResponse({"count": taken.count, "taken": taken.taken})

    @router.post(
        "/v1/predict",
        dependencies=service.needs("read"),
        openapi_extra=examples.body(examples.TO_PREDICT),
        responses=examples.answers(examples.PREDICTED, 408, 409, 413, 415, 422, 429),
    )
    async def predict(request: Request) -> JSONResponse:
        """Predict with the newest release; what is sent is not kept."""
        raw, size = await read(request, labelled=False)
        current = keeper.current
        if current is None:
            raise HTTPException(409, "nothing is released yet")
        if size <= SMALL:
            return JSONResponse(predicted(current, raw))
        return JSONResponse(await run_in_threadpool(predicted, current, raw))

    return router


def predicted(current: Current, raw: RawBatch) -> dict[str, Any]:
    """What a release says of some records."""
    number, found = current.release.number, current.model
    if not raw.n:
        return {"release": number, "labels": [], "probabilities": []}
    probabilities = found.predict_proba(raw.X)
    labels = found.classes[probabilities.argmax(axis=1)]
    return {
        "release": number,
        "labels": labels.tolist(),
        "probabilities": probabilities.tolist(),
    }
