"""The objects that all routes share."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from fastapi import HTTPException, Request
from fastapi.params import Security
from prometheus_client import CollectorRegistry, Counter, disable_created_metrics
from starlette.requests import ClientDisconnect

from tidegate.serve.audit import Audit
from tidegate.serve.bodies import ARROW, JSON, Reader
from tidegate.serve.facts import Facts, Fields
from tidegate.serve.gate_runner import GateRunner
from tidegate.serve.limits import Limits, Slots
from tidegate.serve.middleware import CLOSE, Authentication
from tidegate.serve.parser import Parser, Question
from tidegate.sources import RawBatch

MAX_INLINE_BODY_BYTES = {JSON: 2**15, ARROW: 2**11}
"""Bytes of a body that is faster to read here than in another process.

If Arrow is compressed, which is seen too late, a byte becomes at most 32 KiB: 64 MiB in all.
"""

HISTORY = {"quality", "surveys", "scores"}
"""Entries of the status that change only with a step, and are long."""

disable_created_metrics()  # type: ignore[no-untyped-call]  # they show times of first requests


class Service:
    """A running gate with authentication, limits and audit; see `create_app`."""

    def __init__(self, runner: GateRunner, folder: Path, limits: Limits) -> None:
        self.runner, self.limits = runner, limits
        self.facts = Facts(folder)
        self.audit = Audit(folder)
        self.reader = Reader(config=runner.gate.config, limits=limits)
        self.queries = replace(self.reader, labelled=False)
        self.authentication = Authentication(folder, limits)
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "tidegate_requests", "Responses.", ["route", "status"], registry=self.registry
        )
        self.watchers = Slots(
            "requests that wait for news", most=limits.watchers, each=limits.token_watchers
        )
        self._bodies = Slots("bodies", most=limits.bodies, each=limits.token_bodies)
        self._parser = Parser(self.reader)
        self._status: tuple[int, Fields] = (-1, {})

    def start(self) -> None:
        """Prepare for the first request."""
        self._parser.start()

    def needs(self, scope: str) -> list[Security]:
        """The dependency of routes that need a scope."""
        return [Security(self.authentication, scopes=[scope])]

    def status(self) -> Fields:
        """The public status, computed once per change however many ask."""
        news, (cached_news, status) = self.runner.news, self._status
        if news != cached_news:
            status = {**self.facts.status(), "training": self.runner.training}
            self._status = (news, status)
        return status

    def progress(self) -> Fields:
        """The status without its history."""
        return {name: value for name, value in self.status().items() if name not in HISTORY}

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytearray]:
        """The body of a request; HTTPException if it is too large or too slow.

        It takes one of the token's slots until the context ends.
        """
        most = self.reader.most
        fewer = "send fewer records at a time"
        too_large = HTTPException(413, f"the body must be at most {most} bytes: {fewer}", CLOSE)
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > self.limits.body:
            raise too_large
        body, size = bytearray(), 0
        with self._bodies.taken(request.state.token):
            try:
                async with asyncio.timeout(self.limits.patience):
                    async for chunk in request.stream():
                        size += len(chunk)
                        body += chunk if size <= most else b""
                        if size > self.limits.body:
                            raise too_large
            except TimeoutError:
                slow = f"the body did not arrive in {self.limits.patience:g} s: {fewer}"
                raise HTTPException(408, slow, CLOSE) from None
            except ClientDisconnect:
                raise HTTPException(400, "the body did not arrive: send it again") from None
            if size > most:  # after reading all of it, so that the client reads this response
                raise too_large
            yield body

    @asynccontextmanager
    async def batch(self, request: Request, reader: Reader) -> AsyncIterator[tuple[RawBatch, int]]:
        """The records of a request, and the size of its body; see `body`."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in {JSON, ARROW}:
            raise HTTPException(415, f"the body must be {JSON} or {ARROW}")
        async with self.body(request) as body:
            size = len(body)
            if size <= MAX_INLINE_BODY_BYTES[kind]:
                yield reader.batch(kind, body), size
            else:
                question = Question(kind, body, reader.labelled)
                yield await self._parser.batch(request.state.token, question), size

    def close(self) -> None:
        """Stop reading bodies and the state."""
        self._parser.close()
        self.facts.close()
