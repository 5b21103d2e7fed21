"""Authentication, the headers of responses, and the audit of requests."""

import logging
import math
import re
from collections import defaultdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes
from prometheus_client import Counter
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.checks import InvalidValueError
from tidegate.serve.access_tokens import Audit, Token, Tokens, UnnotedError
from tidegate.serve.limits import Bucket, Limits

log = logging.getLogger("tidegate.serve")

NO = "this needs a valid token with the right scope: ask the operator for one"
"""The only error for missing rights; it reveals nothing."""

STUCK = "the state cannot do this at the moment: try again later"
RETRY_AFTER = {"Retry-After": "1"}
"""The only response when the store fails; the operator's log has the reason."""

NOTHING_YET = "nothing is released yet: try again when more records have arrived"

CLOSE = {"Connection": "close"}

FRAMES = {b"content-length", b"transfer-encoding"}
TWO_LENGTHS = "a request must have Content-Length or Transfer-Encoding, not both"
"""A proxy might use one of them and we the other, which allows request smuggling."""

METHODS = {"GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"}
HARMLESS = re.compile("[0-9]{1,16}|[a-z]+[.][a-z]+")
"""The path parameters that the audit log quotes: numbers and file names. Anything else might be a
token that somebody put there by mistake."""

HEADERS = {
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
    b"referrer-policy": b"no-referrer",  # the address of the page may have held a token
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
}
"""The default headers of every response."""

bearer = HTTPBearer(
    auto_error=False,
    description="A token from `tidegate token create`, with the scope that the operation names.",
)
Given = Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]


class Authentication:
    """Checks that a request's token is valid, has the scopes of the route, and keeps its rate."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._tokens = Tokens(folder)
        bucket = partial(Bucket, rate=limits.rate, burst=limits.burst)
        self._buckets: defaultdict[str, Bucket] = defaultdict(bucket)  # by the names of tokens

    async def __call__(self, request: Request, needed: SecurityScopes, given: Given) -> Token:
        """The token of a request; HTTPException if it has no valid one."""
        try:
            token = self._tokens.find(given.credentials if given else "")
        except (InvalidValueError, OSError) as error:  # refuse everybody; only the log says why
            log.error("%s", error)  # noqa: TRY400
            token = None
        if token is None:
            raise HTTPException(401, NO, {"WWW-Authenticate": "Bearer"})
        request.state.token = token.name
        if not set(needed.scopes) <= set(token.scopes):
            raise HTTPException(403, NO)
        if wait := self._buckets[token.name].wait():
            later = {"Retry-After": str(math.ceil(wait))}
            slow_down = "too many requests with this token: wait as Retry-After says"
            raise HTTPException(429, slow_down, later)
        return token

    def accepts(self, token: Token) -> bool:
        """Whether a token that was accepted before is still valid."""
        try:
            return token in self._tokens.all() and token.valid(datetime.now(UTC))
        except (InvalidValueError, OSError):
            return False


class AuditMiddleware:
    """Adds the default headers to every response, and writes requests to the audit log."""

    def __init__(self, app: ASGIApp, audit: Audit, requests: Counter) -> None:
        self._app, self._audit, self._requests = app, audit, requests
        self._strangers = Bucket(rate=1.0, burst=100)  # so that they cannot fill the disk
        self._unnoted = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle the request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})
        two = FRAMES.issubset(name for name, _ in scope["headers"])
        app = JSONResponse({"error": TWO_LENGTHS}, 400, CLOSE) if two else self._app

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = list((HEADERS | dict(message["headers"])).items())
                self._note(scope, message["status"])
            await send(message)

        try:
            await app(scope, receive, answer)
        except UnnotedError as error:  # no response without a line in the audit log
            log.error("%s", error)  # noqa: TRY400
            await JSONResponse({"error": STUCK}, 503, RETRY_AFTER)(scope, receive, send)

    def _note(self, scope: Scope, status: int) -> None:
        state = scope["state"]
        route = getattr(scope.get("route"), "path", "none")
        self._requests.labels(route, str(status)).inc()
        if "token" not in state and status not in {401, 429}:
            return  # a public route, or none
        token = state.get("token")
        if token is None and self._strangers.wait():
            self._unnoted += 1
            return
        more: dict[str, Any] = {"records": state["records"]} if "records" in state else {}
        if self._unnoted:
            more["unnoted"], self._unnoted = self._unnoted, 0
        client = (scope.get("client") or [None])[0]
        method = scope["method"] if scope["method"] in METHODS else "other"
        more["path"] = _path(scope, route)
        self._audit.note(token, f"{method} {route}", status, client=client, **more)


def _path(scope: Scope, route: str) -> str:
    """The path of a request, with only those parameters that cannot be a secret.

    >>> _path({"path_params": {"number": "12", "file": "tidegate_A"}}, "/v1/{number}/{file}")
    '/v1/12/{file}'
    """
    for name, value in scope.get("path_params", {}).items():
        if HARMLESS.fullmatch(value):
            route = route.replace(f"{{{name}}}", value)
    return route
