"""The routes for health, metrics and the audit log."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse
from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidegate.serve import examples
from tidegate.serve.measure_metrics import measured

if TYPE_CHECKING:
    from tidegate.serve.service import Service


def watch(service: "Service") -> APIRouter:
    """Routes for operators of the service."""
    router = APIRouter(tags=["service"])
    service.registry.register(Numbers(service))

    @router.get("/v1/health", responses=examples.answers(examples.HEALTH, 503))
    async def health() -> JSONResponse:
        """Whether records are taken and models trained. It needs no token and says nothing else.

        "stopped": most records of the first step cannot be used; `/v1/status` says more. "behind":
        two or more complete steps wait, because records arrive faster than steps are trained.
        """
        if service.runner.stopped:
            return JSONResponse({"status": "stopped"}, 503)
        if service.runner.trouble:
            return JSONResponse({"status": "trouble"}, 503)
        return JSONResponse({"status": "behind" if service.runner.behind else "ok"})

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
        """The newest lines of the audit log, oldest first."""
        return JSONResponse({"lines": service.audit.last(last)})

    return router


class Numbers(Collector):
    """The status for Prometheus, without durations: these depend on the content of records."""

    def __init__(self, service: "Service") -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        """The current numbers."""
        status, ledger = self._service.status(), self._service.facts.ledger()
        gauges = {
            "tidegate_releases": ("Models released.", status["releases"]),
            "tidegate_training": ("Whether a step is being trained.", status["training"]),
            "tidegate_batches_waiting": ("Batches not yet durable.", self._service.runner.waiting),
            "tidegate_erasures_waiting": (
                "Erasures not yet carried out.",
                self._service.runner.erasures_waiting,
            ),
        }
        for name, (words, value) in gauges.items():
            yield GaugeMetricFamily(name, words, float(value))
        by_stream = {
            "records": ("Records taken.", status["streams"]),
            "done": ("Records in completed steps.", status["streams"]),
            "steps_waiting": ("Complete steps not yet trained.", status["streams"]),
            "held_records": ("Raw records held.", status["streams"]),
            "paid": ("Budget spent by the most-charged record.", ledger["lines"]),
        }
        for name, (words, rows) in by_stream.items():
            family = GaugeMetricFamily(f"tidegate_{name}", words, labels=["stream"])
            for row in rows:
                family.add_metric([row["stream"]], row[name])
            yield family
        yield from measured(status)
