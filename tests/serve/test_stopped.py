"""A service whose state stops: it says so, refuses records, and goes on once it is corrected."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.serve.served import Served, config, served

STEP = 512
SECTIONS: dict[str, Any] = {
    "schedule": {"kind": "sliding", "window": 2 * STEP, "step": STEP},
    "budget": {"epsilon": 4.0, "delta": 1e-6},
}


def batch(n: int) -> dict[str, Any]:
    slots = np.arange(n)
    X = np.column_stack([np.cos(slots), np.sin(slots), slots % 2])
    return {"x": X.tolist(), "y": (slots % 2).tolist()}


def until_stopped(service: Served) -> Any:
    end = time.monotonic() + 60
    while (answer := service.ask("GET", "/v1/health")).status == 200:
        assert time.monotonic() < end
        time.sleep(0.05)
    return answer


def test_a_stopped_service(tmp_path: Path) -> None:
    wrong = config(**SECTIONS, records={"classes": [7, 8], "norm": 1.5})
    with served(tmp_path / "state", wrong) as service:
        assert service.ask("GET", "/v1/status").json["stopped"] is None
        assert service.ask("POST", "/v1/records", batch(STEP)).status == 200
        answer = until_stopped(service)
        assert (answer.status, answer.json) == (503, {"status": "stopped"})
        refused = service.ask("POST", "/v1/records", batch(1))
        assert refused.status == 409
        assert "512 records cannot be used" in refused.json["error"]
        stopped = service.ask("GET", "/v1/status").json["stopped"]
        assert stopped["message"] == refused.json["error"]
        assert service.ask("GET", "/v1/ledger").json["summary"]["worst"] == pytest.approx(0.05)
    with served(tmp_path / "state", wrong) as service:  # it stays stopped
        assert until_stopped(service).status == 503
    right = config(**SECTIONS, records={"classes": [0, 1], "norm": 1.5})
    with served(tmp_path / "state", right) as service:
        assert service.ask("POST", "/v1/records", batch(STEP)).status == 200
        status = service.ask("GET", "/v1/status").json
        assert (status["stopped"], len(status["stopped_steps"])) == (None, 1)
        assert service.ask("GET", "/v1/health").status == 200
