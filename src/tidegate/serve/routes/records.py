"""The routes that take records and return predictions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import orjson
from fastapi import APIRouter, Header, HTTPException, Query, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from tidegate.checks import refuse
from tidegate.gate.sources import RawBatch
from tidegate.release import Model, RegressionModel
from tidegate.serve import examples
from tidegate.serve.bodies import ARROW, JSON
from tidegate.serve.gate_runner import BusyError, Current
from tidegate.serve.middleware import NOTHING_YET, RETRY_AFTER
from tidegate.serve.service import Service

PREDICTED_AT_ONCE = 1024
"""Records predicted at a time; this many probabilities or fewer need no other thread."""

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="Names the batch. A batch with the same name and token is added only once.",
    ),
]
Stream = Annotated[
    str | None,
    Query(max_length=20, description='"source" or "target", if there are two streams.'),
]


def records(service: Service) -> APIRouter:
    """Routes that take records."""
    router = APIRouter(tags=["records"])
    runner = service.runner

    @asynccontextmanager
    async def read(request: Request, *, labelled: bool) -> AsyncIterator[tuple[RawBatch, int]]:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in {JSON, ARROW}:
            raise HTTPException(415, f"the body must be {JSON} or {ARROW}")
        async with service.body(request) as body:
            raw = await service.batch(request, kind, body, labelled=labelled)
            yield raw, len(body) + raw.X.nbytes

    @router.post(
        "/v1/records",
        dependencies=service.needs("ingest"),
        openapi_extra=examples.body(examples.RECORDS),
        responses=examples.answers(examples.TAKEN, 408, 409, 413, 415, 422, 429, 503),
    )
    async def take(request: Request, stream: Stream = None, key: Key = None) -> JSONResponse:
        """Take records; responds when they are durable.

        A record that cannot be used (a value that is not a number, an unknown label) keeps its
        slot, and the response does not mention it. A batch is refused only as a whole: then none
        of it is taken. A stopped state takes none: see "stopped" in `/v1/status`.
        """
        async with read(request, labelled=True) as (raw, size):
            request.state.records = raw.n
            token = request.state.token
            name = None if key is None else f"{token}:{key}"
            try:
                waiting = runner.take(raw, size=size, stream=stream, key=name, sender=token)
            except BusyError:
                busy = "too many records are waiting to be made durable: try again later"
                raise HTTPException(429, busy, RETRY_AFTER) from None
            # Not cancelled if the client disconnects: the records are taken in any case.
            count, taken = await asyncio.shield(asyncio.wrap_future(waiting))
        return JSONResponse({"count": count, "taken": taken})

    @router.post(
        "/v1/predict",
        dependencies=service.needs("read"),
        openapi_extra=examples.body(examples.TO_PREDICT),
        responses=examples.answers(examples.PREDICTED, 408, 409, 413, 415, 422, 429),
    )
    async def predict(request: Request) -> Response:
        """Predict with the newest release. The request is not stored.

        If the gate predicts a number, the answer has "target" (its range) and "predictions" in
        place of classes, labels and probabilities.
        """
        async with read(request, labelled=False) as (raw, _):
            current = runner.current
            if current is None:
                raise HTTPException(409, NOTHING_YET)
            model = current.model
            classes = len(model.classes) if isinstance(model, Model) else 1
            if raw.n * classes > service.limits.answers:
                most = max(1, service.limits.answers // classes)
                raise refuse("a body", f"of at most {most} records, with {classes} classes", raw.n)
            if raw.n * classes <= PREDICTED_AT_ONCE and not service.reader.text:
                answer = predicted(current, raw)
            else:
                answer = await run_in_threadpool(predicted, current, raw)
        return Response(answer, media_type=JSON)

    return router


def predicted(current: Current, raw: RawBatch) -> bytes:
    """The predictions of a release, as JSON.

    It predicts a few records at a time, so that other threads can run and memory use stays small.
    """
    model, labels, probabilities = current.model, list[bytes](), list[bytes]()
    number = current.release.number
    width = raw.X.shape[1] if raw.X.ndim == 2 else 0
    if raw.n and model.features is None and width != model.width:
        raise refuse("x", f"of {model.width} columns", width)
    few = max(1, PREDICTED_AT_ONCE // max(1, width // PREDICTED_AT_ONCE))
    if isinstance(model, RegressionModel):
        for start in range(0, raw.n, few):
            values = model.predict(raw.X[start : start + few])
            labels.append(orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1])
        target = orjson.dumps(model.target.on_card())
        predictions = b",".join(labels)
        return b'{"release":%d,"target":%b,"predictions":[%b]}' % (number, target, predictions)
    for start in range(0, raw.n, few):
        proba = model.predict_proba(raw.X[start : start + few])
        best = model.classes[proba.argmax(axis=1)]
        labels.append(orjson.dumps(best.tolist())[1:-1])
        probabilities.append(orjson.dumps(proba, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1])
    return b'{"release":%d,"classes":%b,"labels":[%b],"probabilities":[%b]}' % (
        number,
        orjson.dumps(model.classes.tolist()),
        b",".join(labels),
        b",".join(probabilities),
    )
