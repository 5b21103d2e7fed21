"""The objects that all routes share, and the public facts of a state that they answer with.

Facts are numbers of the plan, the ledger and the releases. Nothing else that depends on the content
of records is public, not even how many cannot be used.
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from fastapi import HTTPException, Request
from fastapi.params import Security
from prometheus_client import CollectorRegistry, Counter, disable_created_metrics
from starlette.requests import ClientDisconnect

from tidegate.gate import Gate
from tidegate.privacy.budget import down
from tidegate.release import Card, StoredRelease, described
from tidegate.schedule.plan import ONLY, TwoStreamPlan
from tidegate.serve.access_tokens import Audit
from tidegate.serve.bodies import ARROW, JSON, Reader
from tidegate.serve.gate_runner import GateRunner
from tidegate.serve.limits import Limits, Slots
from tidegate.serve.middleware import CLOSE, Authentication
from tidegate.serve.parser import Parser, Question
from tidegate.sources import RawBatch
from tidegate.state.status import promise, public_status

Fields = dict[str, Any]

LEFT_OUT = {"transform", "noisy_counts", "calibration", "thresholds", "confusion"}
"""Entries of a card that listings leave out, wherever they are."""


MAX_INLINE_BODY_BYTES = {JSON: 2**15, ARROW: 2**11}
"""Bytes of a body that is faster to read here than in another process.

If Arrow is compressed, which is seen too late, a byte becomes at most 32 KiB: 64 MiB in all.
"""

HISTORY = {"quality", "surveys", "scores"}
"""Entries of the status that change only with a step, and are long."""


def _short(card: Any) -> Any:
    """A card for a listing; /v1/releases/{number} has the whole card."""
    if not isinstance(card, dict):
        return card
    return {key: _short(value) for key, value in card.items() if key not in LEFT_OUT}


class Facts:
    """Reads the public facts of a state without waiting for its writer; thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.gate = Gate.look(folder)
        self._view = self.gate.ledger_view()
        self._reading = threading.Lock()

    def close(self) -> None:
        """Stop reading."""
        self.gate.close()

    def releases(self, start: int, most: int) -> list[Fields]:
        """The releases from a number on."""
        with self._reading:
            listed = list(islice(self.gate.releases(start), most))
            return [self._summary(release, _short(release.card)) for release in listed]

    def summary(self, release: StoredRelease) -> Fields:
        """A release without its weights."""
        with self._reading:
            return self._summary(release, release.card)

    def _summary(self, release: StoredRelease, card: Card) -> Fields:
        return {
            "number": release.number,
            "at": card["at"],
            "hash": release.hash,
            "previous": release.previous,
            "time": card["time"],
            "trained_on": self._view.trained_on(card["fit"]),
            "card": card,
        }

    def release(self, number: int) -> StoredRelease | None:
        """One release; None if there is none with this number."""
        with self._reading:
            return next(islice(self.gate.releases(number), 1), None)

    def ledger(self, record: int | None = None, stream: str | None = None) -> Fields:
        """What the records of each stream have paid, or one record, line by line."""
        with self._reading:
            self._view.catch_up()
            lines = self._view.totals() if record is None else self._view.paid(record)
        if record is None:
            most = {"worst": max(line["paid"] for line in lines), "most_for_ever": 1.0}
            return {"lines": lines, "summary": {"fits": sum(row["fits"] for row in lines), **most}}
        lines = [line for line in lines if stream in {None, line["stream"]}]
        return {"lines": lines, "summary": {"record": record, "lines": len(lines)}}

    def strip(self, buckets: int) -> Fields:
        """The most that any record of each bucket has paid so far."""
        with self._reading:
            self._view.catch_up()
            strips = [self._view.strip(stream, buckets) for stream in self.gate.streams]
        return {"bound": 1, "streams": strips}

    def plan(self) -> Fields:
        """The plan, and the blocks behind the newest release."""
        with self._reading:
            self._view.catch_up()
            chain = self._view.chain()
        config, window = self.gate.config, None
        records, read, columns = config.records, config.read, config.column_map()
        if chain:  # with two streams, only the blocks of the stream of the newest fit
            own = [block for block in chain if block["stream"] == chain[-1]["stream"]]
            start = min(block["start"] for block in own)
            window = {"start": start, "stop": max(block["stop"] for block in own)}
        return {
            **promise(self.gate),
            "allocation": described(self.gate.plan.allocation),
            "forever": self._forever(),
            "records": {
                "columns": None if records.text or read is None else list(read),
                "kinds": [each.described() for each in columns.checked] if columns else None,
                "text": records.text,
                "label": records.label,
                "classes": list(records.groups),
                "target": list(records.target) if records.target else None,
            },
            "chain": chain,
            "window": window,
        }

    def _forever(self) -> dict[str, float]:
        """The most that any record of each stream ever pays; at most 1."""
        plan = self.gate.plan
        most = plan.forever if isinstance(plan, TwoStreamPlan) else {ONLY: plan.forever}
        return {stream: down(share + plan.reserve) for stream, share in most.items()}

    def status(self) -> Fields:
        """The public status."""
        with self._reading:
            self._view.catch_up()
            return public_status(self.gate, self._view)


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
