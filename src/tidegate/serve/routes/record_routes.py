"""The routes that take records and return predictions."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from fastapi import APIRouter, Header, HTTPException, Query, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from tidegate.checks import refuse
from tidegate.release import RegressionModel
from tidegate.release.model import probabilities
from tidegate.serve import examples
from tidegate.serve.bodies import JSON
from tidegate.serve.gate_runner import BusyError, Current
from tidegate.serve.middleware import NOTHING_YET, RETRY_AFTER

if TYPE_CHECKING:
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


def records(service: "Service") -> APIRouter:
    """Routes that take records."""
    router = APIRouter(tags=["records"])
    runner = service.runner

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
        async with service.batch(request, service.reader) as (raw, size):
            request.state.records = raw.n
            token, held = request.state.token, size + raw.X.nbytes
            name = None if key is None else f"{token}:{key}"
            try:
                waiting = runner.take(raw, size=held, stream=stream, key=name, sender=token)
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
        async with service.batch(request, service.queries) as (raw, _):
            current = runner.current
            if not isinstance(current, Current):
                raise HTTPException(409, NOTHING_YET)
            n, classes = len(raw.X), max(1, len(current.classes))
            if n * classes > service.limits.answers:
                most = max(1, service.limits.answers // classes)
                raise refuse("a body", f"of at most {most} records, with {classes} classes", n)
            if n * classes <= PREDICTED_AT_ONCE and not service.reader.text:
                answer = predicted(current, raw.X)
            else:
                answer = await run_in_threadpool(predicted, current, raw.X)
        return Response(answer, media_type=JSON)

    return router


def predicted(current: Current, X: Any) -> bytes:
    """The predictions of a release, as JSON.

    It predicts a few records at a time, so that other threads can run and memory use stays small.
    """
    model, scorer, labels, shares = current.model, current.scorer, list[bytes](), list[bytes]()
    n, width = len(X), X.shape[1] if X.ndim == 2 else 0
    if n and model.features is None and width != scorer.width:
        raise refuse("x", f"of {scorer.width} columns", width)
    few = max(1, PREDICTED_AT_ONCE // max(1, width // PREDICTED_AT_ONCE))
    for start in range(0, n, few):
        part = X[start : start + few]
        features = part if model.features is None else scorer.intake.mapped(part)
        margins = scorer.margins(features, part)
        if isinstance(model, RegressionModel):
            labels.append(
                orjson.dumps(model.target.predictions(margins), option=orjson.OPT_SERIALIZE_NUMPY)[
                    1:-1
                ]
            )
        else:
            proba = probabilities(margins)
            labels.append(orjson.dumps(model.classes[proba.argmax(axis=1)].tolist())[1:-1])
            shares.append(orjson.dumps(proba, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1])
    if isinstance(model, RegressionModel):
        answer = {"release": current.number, "target": model.target.on_card()}
        lists = {"predictions": labels}
    else:
        answer = {"release": current.number, "classes": current.classes}
        lists = {"labels": labels, "probabilities": shares}
    written = (b'"%b":[%b]' % (name.encode(), b",".join(each)) for name, each in lists.items())
    return b",".join([orjson.dumps(answer)[:-1], *written]) + b"}"
