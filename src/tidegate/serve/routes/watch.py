"""Whether the service is well, and who has used it."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse
from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidegate.serve import examples
from tidegate.serve.service import Service


def watch(service: Service) -> APIRouter:
    """Routes for those who look after the service."""
    router = APIRouter(tags=["service"])
    service.registry.register(Numbers(service))

    @router.get("/v1/health", responses=examples.answers(examples.HEALTH, 503))
    async def health() -> JSONResponse:
        """Whether records are taken and models made. Open to all; nothing else is said."""
        if service.runner.trouble is None:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "trouble"}, 503)

    @router.get(
        "/metrics",
        dependencies=service.needs("read"),
        responses=examples.other("text/plain", "Numbers."),
    )
    def metrics() -> Response:
        """Public numbers for Prometheus."""
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return Response(generate_latest(service.registry), media_type=kind)

    @router.get(
        "/v1/audit", dependencies=service.needs("admin"), responses=examples.answers(examples.AUDIT)
    )
    def audit(last: Annotated[int, Query(ge=1, le=10_000)] = 100) -> JSONResponse:
        """Who did what, the newest last."""
        return JSONResponse({"lines": service.audit.last(last)})

    return router


class Numbers(Collector):
    """The status for Prometheus. No durations: how long a fit takes depends on the records."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        """The numbers as they are now."""
        status, ledger = self._service.status(), self._service.facts.ledger()
        told = {
            "tidegate_releases": ("Models released.", status["releases"]),
            "tidegate_training": ("Whether a step is being carried out.", status["training"]),
            "tidegate_batches_waiting": ("Batches on the way in.", self._service.runner.waiting),
        }
        for name, (words, value) in told.items():
            yield GaugeMetricFamily(name, words, float(value))
        by_stream = {
            "records": ("Records taken in.", status["streams"]),
            "done": ("Records whose steps are carried out.", status["streams"]),
            "held_records": ("Raw records held.", status["streams"]),
            "paid": ("What the record has paid that paid most.", ledger["lines"]),
        }
        for name, (words, rows) in by_stream.items():
            family = GaugeMetricFamily(f"tidegate_{name}", words, labels=["stream"])
            for row in rows:
                family.add_metric([row["stream"]], row[name])
            yield family
