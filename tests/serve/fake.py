"""A stand-in for the service that answers out of a plan alone, however long the stream is.

The page can be brought with it where a real gate would take hours: thousands of releases, a server
that is gone, a stream that has only begun.
"""

import asyncio
import json
import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import reduce
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from tidegate.privacy import ApproxDP, Ledger
from tidegate.privacy.budget import down
from tidegate.privacy.meaning import meaning
from tidegate.privacy.person import Person
from tidegate.release import described
from tidegate.release.trained_on import Reach, extended, in_words
from tidegate.schedule import RecordFit, Schedule, SlidingWindow, Span
from tidegate.schedule.plan import Plan
from tidegate.serve.middleware import NOTHING_YET
from tidegate.serve.page.page import add_page
from tidegate.state.status import protection

TOKEN = "let-me-look"
BEGAN = datetime(2026, 1, 5, 8, tzinfo=UTC)
CLASSES = ["north", "east", "south", "west"]

SCORES: dict[str, Any] = {
    "accuracy": {"value": 0.81, "deviation": 0.02},
    "majority": {"value": 0.76, "deviation": 0.02},
    "balanced_accuracy": {"value": 0.71, "deviation": 0.03},
    "log_loss": {"value": 0.48, "deviation": 0.02},
    "constant_log_loss": {"value": 0.55, "deviation": 0.01},
    "brier": {"value": 0.15, "deviation": 0.01},
    "auc": {"value": 0.72, "deviation": 0.03},
    "bias": {"value": -0.01, "deviation": 0.02},
    "unusable": {"value": 0.0, "deviation": 0.02},
}
DRIFT = {"statistic": 0.58, "alarm": False, "what": "", "rate": 0.001}
ALARM = {"statistic": 3.2, "alarm": True, "what": "features", "rate": 0.001}
PLACE = {"at": 19456, "stream": "records"}
VERDICT = {
    "measure": "log_loss",
    "than_constant": "better",
    "than_before": "too noisy to tell",
    "words": "better than a constant, too noisy to tell whether it beats the release before",
}
BIN = {
    "low": 0.0,
    "high": 0.5,
    "predicted": {"value": 0.21, "deviation": 0.01},
    "observed": {"value": 0.2, "deviation": 0.02},
    "share": {"value": 0.9, "deviation": 0.02},
}
THRESHOLD = {
    "probability": 0.5,
    "precision": {"value": 0.61, "deviation": 0.05},
    "recall": {"value": 0.42, "deviation": 0.04},
    "flagged": {"value": 0.16, "deviation": 0.02},
}
NEWEST_SCORES: dict[str, Any] = {
    **PLACE,
    "of_release": 11,
    "records": 1024,
    **SCORES,
    "calibration": [BIN],
    "thresholds": [THRESHOLD],
    "confusion": {"counts": [[710.0, 68.0], [127.0, 119.0]], "deviation": 21.0},
    "verdict": VERDICT,
}
DRIFT_SO_FAR = {
    **PLACE,
    **DRIFT,
    "newest_alarm": {**PLACE, "at": 12288, **ALARM},
    "alarms": 1,
    "steps": 18,
}

OF_FOUR_CLASSES = {**SCORES, "auc": None, "bias": None, "brier": None}
FOUR = {"confusion": {"counts": [[90.0, 3.0, 2.0, 5.0]] * 4, "deviation": 4.0}}


class Fake:
    """A schedule at some time of its stream; by default a sliding window."""

    def __init__(
        self,
        *,
        window: int = 7168,
        step: int = 1024,
        records: int = 0,
        schedule: Schedule | None = None,
        person: Person | None = None,
    ) -> None:
        self.schedule = schedule or SlidingWindow(window=window, step=step)
        self.plan = Plan(
            schedule=self.schedule,
            budget=ApproxDP(1.0, 1e-6, contributions=person.contributions if person else 1),
            reserve=Fraction(1, 20),
            person=person,
        )
        self.step = step
        self.records = 0
        self.ledger = Ledger()
        self.fits: dict[int, tuple[RecordFit, float]] = {}
        self.released: list[RecordFit] = []
        self.evaluations = 0
        self.arrive(records)

    def arrive(self, records: int) -> None:
        """Let records come in."""
        before, self.records = self.done, self.records + records
        for at in range(before + self.step, self.done + 1, self.step):
            if self.released:  # the newest is tried on this step
                self.evaluations += 1
                self.ledger.charge(Span(at - self.step, at), self.plan.reserve)
            for line in self.plan.due(at):
                self.ledger.post(line)
                self.fits[line.fit.number] = (line.fit, down(line.share))
                if line.fit.released:
                    self.released.append(line.fit)

    @property
    def done(self) -> int:
        return self.records // self.step * self.step

    def chain(self) -> list[dict[str, Any]]:
        found, number = [], self.released[-1].number if self.released else None
        while number is not None:
            fit, share = self.fits[number]
            found.append(
                {
                    "fit": fit.number,
                    "start": fit.span.start,
                    "stop": fit.span.stop,
                    "role": fit.role,
                    "emphasized": bool(fit.slot_weights),
                    "started_from": fit.start,
                    "emphasis": [
                        {
                            "start": span.start,
                            "stop": span.stop,
                            "weight": float(part),
                            "share": share * float(part) ** fit.power,
                        }
                        for span, part in fit.slot_weights
                    ],
                    "level": fit.level,
                    "share": share,
                    "stream": None,
                }
            )
            number = fit.prior
        return found[::-1]

    def trained_on(self, fit: RecordFit) -> str:
        fits = [fit]
        while (prior := fits[-1].prior) is not None:
            fits.append(self.fits[prior][0])
        return in_words(reduce(extended, reversed(fits), Reach()), fit)

    def card(self, number: int) -> dict[str, Any]:
        fit = self.released[number]
        share = self.fits[fit.number][1]
        return {
            "release": number,
            "fit": fit.number,
            "at": fit.at,
            "start": fit.span.start,
            "stop": fit.span.stop,
            "prior": fit.prior,
            "emphasis": [[*span, str(part)] for span, part in fit.slot_weights],
            "started_from": fit.start,
            "level": fit.level,
            "stream": None,
            "share": str(share),
            "share_rounded_down": share,
            "mu": share**0.5,
            "budget": {"epsilon": 1.0, "delta": 1e-6},
            "classes": CLASSES,
            "features": [{"kind": "AppendIntercept", "value": 1.0}],
            "shape": [3, 4],
            "settings": {"noise_scale": 0.0123},
            "loss": {"kind": "Softmax"},
            "learner": {"kind": "GradientPerturbation"},
            "private": True,
            "warning": None,
            "evaluation": None,
            "time": (BEGAN + timedelta(minutes=number)).isoformat(),
        }

    def summary(self, number: int) -> dict[str, Any]:
        card = self.card(number)
        return {
            "number": number,
            "at": card["at"],
            "hash": f"{number:064x}",
            "time": card["time"],
            "trained_on": self.trained_on(self.released[number]),
            "card": card,
        }

    def status(self) -> dict[str, Any]:
        held = self.plan.needed(self.done)
        quality = [
            {
                "at": fit.at,
                "accuracy": 0.8 + 0.1 * math.sin(fit.at / 30_000) + 0.02 * math.sin(fit.at),
                "deviation": 0.02,
                "scores": OF_FOUR_CLASSES,
                "drift": {**DRIFT, **(ALARM if index == 5 else {})},
            }
            for index, fit in enumerate(self.released[1:])
        ]
        surveys = [
            {
                "at": at,
                "stream": "records",
                "classes": [0.4, 0.3, 0.2 + 0.1 * math.sin(at / 9000), 0.1],
                "unusable": 0.01,
                "deviation": 0.02,
                "drift": DRIFT,
            }
            for at in range(self.step, self.done + 1, self.step)
        ][-1000:]
        return {
            "private": True,
            "schedule": described(self.schedule),
            "budget": {"epsilon": 1.0, "delta": 1e-6},
            "protects": protection(self.plan.protects),
            "meaning": meaning(1.0, 1e-6, self.plan.protects),
            "releases": len(self.released),
            "newest": None,
            "trained_on": self.trained_on(self.released[-1]) if self.released else None,
            "training": False,
            "quality": quality,
            "scores": {**NEWEST_SCORES, **OF_FOUR_CLASSES, **FOUR} if quality else None,
            "drift": DRIFT_SO_FAR if quality else None,
            "surveys": surveys,
            "streams": [
                {
                    "stream": "records",
                    "records": self.records,
                    "done": self.done,
                    "step": self.step,
                    "next_model": self.done + self.step,
                    "steps_waiting": (self.records - self.done) // self.step,
                    "behind": self.records - self.done >= 2 * self.step,
                    "held_from": held,
                    "held_records": self.records - held,
                    "held_because": f"future fits may read records from {held:,} on",
                }
            ],
        }

    def strip(self, buckets: int) -> dict[str, Any]:
        width = max(1, -(-self.records // buckets))
        starts = list(range(0, self.records, width))
        paid = [0.0] * len(starts)
        for span, share in self.ledger.runs():
            for bucket in range(span.start // width, (span.stop - 1) // width + 1):
                paid[bucket] = max(paid[bucket], down(share))
        return {"bound": 1, "streams": [{"stream": "records", "starts": starts, "paid": paid}]}


def fake_app(fake: Fake) -> FastAPI:  # noqa: C901 (a list of routes)
    """The service's answers, out of a plan."""
    app = FastAPI()
    add_page(app)

    @app.middleware("http")
    async def access(request: Request, call_next: Any) -> Response:
        told = request.headers.get("authorization")
        if request.url.path.startswith("/v1") and told != f"Bearer {TOKEN}":
            return JSONResponse({"error": "unauthorized"}, 401)
        answer: Response = await call_next(request)
        return answer

    @app.get("/v1/status")
    def status() -> Any:
        return fake.status()

    @app.get("/v1/plan")
    def plan() -> Any:
        chain = fake.chain()
        spans = [(block["start"], block["stop"]) for block in chain]
        start, stop = min(spans, default=(0, 0))[0], max(stop for _, stop in spans or [(0, 0)])
        window = {"start": start, "stop": stop} if chain else None
        return {
            "schedule": described(fake.schedule),
            "budget": {"epsilon": 1.0, "delta": 1e-6},
            "chain": chain,
            "window": window,
            "records": {"columns": ["temperature", "humidity"], "text": None, "classes": CLASSES},
        }

    @app.get("/v1/ledger")
    def ledger() -> Any:
        worst = fake.ledger.worst()
        line = {
            "stream": "records",
            "records": fake.records,
            "fits": fake.ledger.posted,
            "evaluations": fake.evaluations,
            "worst_record": worst.record,
            "paid": down(worst.share),
            "most_for_ever": 1.0,
        }
        return {"lines": [line], "summary": {}}

    @app.get("/v1/ledger/strip")
    def strip(buckets: int = 200) -> Any:
        return fake.strip(buckets)

    @app.get("/v1/releases")
    def releases(request: Request) -> Any:
        start = int(request.query_params.get("from", 0))
        stop = start + int(request.query_params.get("limit", 10**9))
        known = range(len(fake.released))[start:stop]
        return {"releases": [fake.summary(number) for number in known]}

    @app.get("/v1/releases/latest")
    def latest() -> Any:
        return fake.summary(len(fake.released) - 1)

    @app.get("/v1/releases/events")
    async def events(request: Request) -> StreamingResponse:
        async def told() -> AsyncIterator[str]:
            seen, records = len(fake.released), -1
            while not await request.is_disconnected():
                for number in range(seen, len(fake.released)):
                    yield f"event: release\ndata: {json.dumps(fake.summary(number))}\n\n"
                seen = len(fake.released)
                if records != fake.records:
                    records = fake.records
                    yield f"event: progress\ndata: {json.dumps(fake.status())}\n\n"
                await asyncio.sleep(0.1)

        return StreamingResponse(told(), media_type="text/event-stream")

    @app.get("/v1/releases/{number}/{file}")
    def download(number: int, file: str) -> Response:
        return Response(f"{number} {file}", media_type="application/octet-stream")

    @app.post("/v1/predict")
    async def predict(request: Request) -> Any:
        asked = await request.json()
        rows = asked.get("x") or asked.get("records")
        if not fake.released:
            raise HTTPException(409, NOTHING_YET)
        if "x" in asked and len(rows[0]) != 2:
            return JSONResponse({"error": f"x has 2 columns, got {len(rows[0])}"}, 422)
        number = len(fake.released) - 1
        return {"release": number, "labels": ["east"], "probabilities": [[0.1, 0.6, 0.25, 0.05]]}

    return app
