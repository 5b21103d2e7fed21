"""The routes for the ledger, the plan and the status."""

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from tidegate.checks import MAX_COUNT, refuse
from tidegate.serve import examples

if TYPE_CHECKING:
    from tidegate.serve.service import Service


def ledger(service: "Service") -> APIRouter:
    """Routes that return public numbers."""
    router = APIRouter(tags=["ledger"], dependencies=service.needs("read"))
    facts = service.facts

    @router.get("/v1/ledger", responses=examples.answers(examples.OWN, 422))
    def paid(
        record: Annotated[int | None, Query(ge=0, le=MAX_COUNT)] = None,
        stream: Annotated[str | None, Query(max_length=20)] = None,
    ) -> JSONResponse:
        """What the most-charged record has paid, or one `record` line by line."""
        if stream is not None and stream not in facts.gate.streams:
            raise refuse("stream", " or ".join(facts.gate.streams), stream)
        return JSONResponse(facts.ledger(record, stream))

    @router.get("/v1/ledger/strip", responses=examples.answers(examples.OWN))
    def strip(buckets: Annotated[int, Query(ge=1, le=2000)] = 200) -> JSONResponse:
        """For each bucket, what its most-charged record has paid so far; the bound is 1."""
        return JSONResponse(facts.strip(buckets))

    @router.get("/v1/plan", responses=examples.answers(examples.OWN))
    def plan() -> JSONResponse:
        """Schedule, budget, what any record ever pays, and the blocks of the newest release."""
        return JSONResponse(facts.plan())

    @router.get("/v1/status", responses=examples.answers(examples.OWN))
    def status() -> JSONResponse:
        """The status, in public numbers."""
        return JSONResponse(service.status())

    return router
