"""What all routes share."""

import asyncio
from pathlib import Path

from fastapi import HTTPException, Request
from fastapi.params import Security
from prometheus_client import CollectorRegistry, Counter, disable_created_metrics
from starlette.requests import ClientDisconnect

from tidegate.serve.access import LATER, Door
from tidegate.serve.audit import Audit
from tidegate.serve.bodies import Reader
from tidegate.serve.facts import Facts, Told
from tidegate.serve.keeper import Keeper
from tidegate.serve.limits import Limits

CLOSE = {"Connection": "close"}

disable_created_metrics()  # type: ignore[no-untyped-call]  # tells when each was first answered


class Service:
    """One Gate, and all that stands between it and those who ask.

    Args:
        keeper: Keeps the gate.
        folder: The gate's state, where tokens and the audit log are too.
        limits: What a client may ask.
    """

    def __init__(self, keeper: Keeper, folder: Path, limits: Limits) -> None:
        self.keeper, self.limits = keeper, limits
        self.facts = Facts(folder)
        self.audit = Audit(folder)
        self.reader = Reader(config=keeper.gate.config, most=limits.records)
        self.door = Door(folder, limits)
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "tidegate_requests", "Answers.", ["route", "status"], registry=self.registry
        )
        self._bodies = 0
        self._status: tuple[int, Told] = (-1, {})

    def needs(self, scope: str) -> list[Security]:
        """The dependency of routes that need a scope."""
        return [Security(self.door, scopes=[scope])]

    def status(self) -> Told:
        """How things stand: found out once for each piece of news, however many ask."""
        news, (known, told) = self.keeper.news, self._status
        if news != known:
            told = {**self.facts.status(), "training": self.keeper.training}
            self._status = (news, told)
        return told

    def progress(self) -> Told:
        """The status without its history."""
        return {name: told for name, told in self.status().items() if name != "quality"}

    async def body(self, request: Request) -> bytes:
        """The body of a request, if it is not too large and does not take too long."""
        most = self.limits.body
        too_large = HTTPException(413, f"the body must be at most {most} bytes", CLOSE)
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > most:
            raise too_large
        if self._bodies >= self.limits.bodies:
            raise HTTPException(429, "too many requests at once: come back later", LATER)
        self._bodies += 1
        chunks, size = list[bytes](), 0
        try:
            async with asyncio.timeout(self.limits.patience):
                async for chunk in request.stream():
                    chunks.append(chunk)
                    size += len(chunk)
                    if size > most:
                        raise too_large
        except TimeoutError:
            raise HTTPException(408, "the body did not arrive in time", CLOSE) from None
        except ClientDisconnect:
            raise HTTPException(400, "the body did not arrive") from None
        finally:
            self._bodies -= 1
        return b"".join(chunks)

    def check_watchers(self) -> None:
        """Refuse one more who waits for news if too many do."""
        if self.keeper.watchers >= self.limits.watchers:
            raise HTTPException(503, "too many wait for news: come back later", LATER)
