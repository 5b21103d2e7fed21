"""The route that erases what the state holds of a record or of a person."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import JSONResponse

from tidegate.checks import InvalidValueError
from tidegate.serve import examples
from tidegate.serve.bodies import JSON
from tidegate.serve.gate_runner import BusyError
from tidegate.serve.middleware import RETRY_AFTER

if TYPE_CHECKING:
    from tidegate.serve.service import Service

NOT_ONE = 'the body must be {"person": id} or {"record": number}; "stream" goes with a record'

BUSY = "too many erasures are waiting: try again later"
WAITS = "the erasure waits for the step that is being trained: ask again later for the receipt"


def erasures(service: "Service") -> APIRouter:
    """Routes that erase."""
    router = APIRouter(tags=["erasures"])
    runner, limits = service.runner, service.limits

    @router.post(
        "/v1/erasures",
        dependencies=service.needs("erase"),
        openapi_extra=examples.erasure_body(),
        responses=examples.answers(examples.ERASED, 408, 413, 415, 422, 429, 503),
    )
    async def erase(request: Request) -> JSONResponse:
        """Destroy what the state holds of a person or of a record; responds when it is done.

        The response is a receipt. It is the same whether or not the state holds anything of the
        person, and is sent after a whole number of seconds. Everything is covered that was
        acknowledged before the request. Releases stay.

        It may have to wait for a step that erasures made begin again before. The response is 503
        then, and the erasure is carried out when the step is done: ask again for the receipt.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise HTTPException(415, f"the body must be {JSON}")
        async with service.body(request) as body:
            target = erasure_asked_for(body)
        async with whole_ticks(limits.erasing):
            try:
                erasing = runner.erase(**target)
            except BusyError:
                raise HTTPException(429, BUSY, RETRY_AFTER) from None
            # Not cancelled if the client disconnects: it is erased in any case.
            answer = asyncio.shield(asyncio.wrap_future(erasing))
            try:
                erasure = await asyncio.wait_for(answer, limits.erasing_wait)
            except TimeoutError:
                raise HTTPException(503, WAITS, RETRY_AFTER) from None
        return JSONResponse(erasure.receipt())

    return router


@asynccontextmanager
async def whole_ticks(tick: float) -> AsyncIterator[None]:
    """Last a whole number of ticks, so that their time hardly tells what was done.

    Nothing is waited for if the request itself is refused.
    """
    begun = time.monotonic()
    try:
        yield
    except InvalidValueError:
        raise
    except BaseException:
        await _rest(begun, tick)
        raise
    await _rest(begun, tick)


async def _rest(begun: float, tick: float) -> None:
    await asyncio.sleep(tick - (time.monotonic() - begun) % tick)


def erasure_asked_for(body: bytearray) -> dict[str, Any]:
    """What a body wants to be erased, as arguments of `GateRunner.erase`."""
    try:
        given = orjson.loads(body)
    except ValueError:
        given = None
    one = {"person"}, {"record"}, {"record", "stream"}
    if not isinstance(given, dict) or set(given) not in one or None in given.values():
        raise InvalidValueError(NOT_ONE)
    if not isinstance(given.get("stream", ""), str):
        raise InvalidValueError(NOT_ONE)
    return given
