"""The routes for releases: the list, the newest, events, and files."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Header, HTTPException, Query, Request, Response, Security
from fastapi import Path as InPath
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from tidegate.checks import MAX_COUNT, InvalidValueError
from tidegate.release import StoredRelease
from tidegate.release.export_formats import to_md, to_onnx, to_safetensors
from tidegate.serve import examples
from tidegate.serve.access_tokens import Token
from tidegate.serve.gate_runner import Current
from tidegate.serve.middleware import NOTHING_YET

if TYPE_CHECKING:
    from tidegate.serve.service import Fields, Service

PAUSE = 0.25
"""The least seconds between two progress events."""

HEARTBEAT = 15.0
"""The most seconds without an event, so that proxies keep the connection open."""

CHUNK = 100
"""Releases read at a time."""

FILES: dict[str, tuple[Callable[[StoredRelease], bytes], str]] = {
    "weights.safetensors": (to_safetensors, "application/octet-stream"),
    "model.onnx": (to_onnx, "application/octet-stream"),
    "card.md": (to_md, "text/markdown; charset=utf-8"),
}

Number = Annotated[int, InPath(ge=0, le=MAX_COUNT, description="The number of the release.")]
File = Annotated[
    Literal["weights.safetensors", "model.onnx", "card.md"], InPath(description="The file.")
]
IfNoneMatch = Annotated[str, Header(description="The ETag of the release that the client has.")]
LastEvent = Annotated[
    str,
    Header(
        alias="Last-Event-ID",
        description="The id of the last release received; those after it are sent first.",
    ),
]


def releases(service: "Service") -> APIRouter:  # noqa: C901 (a list of routes)
    """Routes that return releases."""
    router = APIRouter(tags=["releases"], dependencies=service.needs("read"))
    runner, facts, limits = service.runner, service.facts, service.limits

    @router.get("/v1/releases", responses=examples.answers({"releases": [examples.RELEASE]}))
    def listed(
        start: Annotated[int, Query(alias="from", ge=0, le=MAX_COUNT)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
    ) -> JSONResponse:
        """The releases from a number on, at most `limit` of them."""
        return JSONResponse({"releases": facts.releases(start, limit)})

    @router.get("/v1/releases/latest", responses=examples.answers(examples.RELEASE, 304, 404))
    async def latest(
        request: Request,
        wait: Annotated[float, Query(ge=0, le=3600)] = 0.0,
        if_none_match: IfNoneMatch = "",
    ) -> Response:
        """The newest release. With `wait`, wait up to that many seconds for a newer one."""
        until = time.monotonic() + min(wait, limits.wait)
        slot = service.watchers.taken(request.state.token) if wait else nullcontext()
        with slot, runner.watched() as news:
            while True:
                news.clear()
                current = runner.current
                same = if_none_match == "*" or current.tag in if_none_match
                if isinstance(current, Current) and not same:
                    summary = await run_in_threadpool(facts.summary, current.release)
                    return JSONResponse(summary, headers={"ETag": current.tag})
                if not await _within(news, until - time.monotonic()):
                    break
        if not current.tag:
            raise HTTPException(404, NOTHING_YET)
        return Response(status_code=304, headers={"ETag": current.tag})

    @router.get("/v1/releases/events", responses=examples.other("text/event-stream", "Events."))
    async def events(
        token: Annotated[Token, Security(service.authentication, scopes=["read"])],
        last: LastEvent = "",
    ) -> StreamingResponse:
        """Server-sent events: `release` for each new one, `drift` for an alarm, `progress`."""
        return Events(_events(service, token, last), service.watchers.taken(token.name))

    @router.get("/v1/releases/{number}", responses=examples.answers(examples.RELEASE, 404))
    def release(number: Number) -> JSONResponse:
        """One release: its card and its place in the hash chain."""
        return JSONResponse(facts.summary(_existing(service, number)))

    @router.get(
        "/v1/releases/{number}/{file}",
        responses=examples.other("application/octet-stream", "The file."),
    )
    def download(number: Number, file: File) -> Response:
        """A release as a file."""
        made, kind = FILES[file]
        try:
            content = made(_existing(service, number))
        except InvalidValueError as error:  # it cannot be exported to this format
            raise HTTPException(404, str(error)) from None
        name = f'attachment; filename="release-{number:06}-{file}"'
        return Response(content, media_type=kind, headers={"Content-Disposition": name})

    return router


class Events(StreamingResponse):
    """Server-sent events; the slot is taken before the response starts, or the request fails."""

    def __init__(self, events: AsyncIterator[str], slot: AbstractContextManager[None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._slot = slot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See `StreamingResponse`."""
        with self._slot:
            await super().__call__(scope, receive, send)


def _existing(service: "Service", number: int) -> StoredRelease:
    release = service.facts.release(number)
    if release is None:
        raise HTTPException(404, f"there is no release {number}: /v1/releases lists all")
    return release


async def _within(news: asyncio.Event, seconds: float) -> bool:
    """Whether the event was set within some seconds."""
    with suppress(TimeoutError):
        await asyncio.wait_for(news.wait(), seconds)
    return news.is_set()


async def _events(service: "Service", token: Token, last: str) -> AsyncIterator[str]:
    runner = service.runner
    newest = runner.current.number
    seen = min(newest, int(last)) if re.fullmatch("[0-9]{1,16}", last) else newest
    with runner.watched() as news:
        known = _newest_alarm(await run_in_threadpool(service.status))  # this and earlier: not sent
        while service.authentication.accepts(token):  # it may be revoked meanwhile
            news.clear()
            # a release is sent once it also answers /v1/predict, a moment after its commit
            while most := min(CHUNK, runner.current.number - seen):
                for release in await run_in_threadpool(service.facts.releases, seen + 1, most):
                    seen = release["number"]
                    yield f"id: {seen}\n{_event('release', release)}"
            progress = await run_in_threadpool(service.progress)
            alarm = _newest_alarm(progress)
            if alarm and alarm != known:
                yield _event("drift", alarm)
            known = alarm
            yield _event("progress", progress)
            await asyncio.sleep(PAUSE)
            await _within(news, HEARTBEAT)


def _newest_alarm(status: "Fields") -> Any:
    """The newest drift alarm; None if there was none, or drift is not watched."""
    return (status["drift"] or {}).get("newest_alarm")


def _event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
