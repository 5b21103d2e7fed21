"""What all routes share."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import HTTPException, Request
from fastapi.params import Security
from prometheus_client import CollectorRegistry, Counter, disable_created_metrics
from starlette.requests import ClientDisconnect

from tidegate.gate.sources import RawBatch
from tidegate.serve.audit import Audit
from tidegate.serve.bodies import Reader
from tidegate.serve.facts import Facts, Told
from tidegate.serve.gate_runner import GateRunner
from tidegate.serve.limits import Limits
from tidegate.serve.middleware import CLOSE, Authentication
from tidegate.serve.parser import Parser
from tidegate.serve.slots import Slots

SMALL = 2**15
"""Bytes of a body that is read and predicted sooner than it is handed to another thread."""

disable_created_metrics()  # type: ignore[no-untyped-call]  # tells when each was first answered


class Service:
    """One Gate, and all that stands between it and those who ask; see `create_app`."""

    def __init__(self, runner: GateRunner, folder: Path, limits: Limits) -> None:
        self.runner, self.limits = runner, limits
        self.facts = Facts(folder)
        self.audit = Audit(folder)
        self.reader = Reader(config=runner.gate.config, limits=limits)
        self.authentication = Authentication(folder, limits)
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "tidegate_requests", "Answers.", ["route", "status"], registry=self.registry
        )
        self.watchers = Slots(
            "requests that wait for news", most=limits.watchers, each=limits.token_watchers
        )
        self._bodies = Slots("bodies", most=limits.bodies, each=limits.token_bodies)
        self._parser = Parser(self.reader)
        self._status: tuple[int, Told] = (-1, {})

    def needs(self, scope: str) -> list[Security]:
        """The dependency of routes that need a scope."""
        return [Security(self.authentication, scopes=[scope])]

    def status(self) -> Told:
        """How things stand: found out once for each piece of news, however many ask."""
        news, (known, told) = self.runner.news, self._status
        if news != known:
            told = {**self.facts.status(), "training": self.runner.training}
            self._status = (news, told)
        return told

    def progress(self) -> Told:
        """The status without its history."""
        return {name: told for name, told in self.status().items() if name != "quality"}

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytearray]:
        """The body of a request, if it is not too large and does not take too long to arrive.

        Its token has a slot less for others until the context is left.
        """
        most = self.reader.most
        too_large = HTTPException(413, f"the body must be at most {most} bytes", CLOSE)
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
                raise HTTPException(408, "the body did not arrive in time", CLOSE) from None
            except ClientDisconnect:
                raise HTTPException(400, "the body did not arrive") from None
            if size > most:  # heard to its end, or the client would not hear this
                raise too_large
            yield body

    async def batch(
        self, request: Request, kind: str, body: bytearray, *, labelled: bool
    ) -> RawBatch:
        """The records of a body."""
        if len(body) <= SMALL:
            return self.reader.batch(kind, body, labelled=labelled)
        return await self._parser.batch(request.state.token, kind, body, labelled=labelled)

    def close(self) -> None:
        """Stop reading, the state and bodies."""
        self._parser.close()
        self.facts.close()
