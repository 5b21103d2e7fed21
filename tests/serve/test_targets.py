"""A service that predicts a number: over HTTP, for clients, metrics and the page."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.serve.served import Served, config, served
from tidegate.serve.bodies import ARROW
from tidegate.state.verification import verify

RECORDS = {"target": [0, 120], "norm": 1.5, "columns": ["a", "b"], "label": "minutes"}


def stream(n: int, start: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(start)
    X = rng.uniform(-1, 1, size=(n, 2))
    return X, 60 + 30 * X[:, 0] + 5 * rng.normal(size=n)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    settings = config(records=RECORDS, budget={"epsilon": 5000.0, "delta": 1e-6})
    folder = tmp_path_factory.mktemp("served") / "state"
    with served(folder, settings) as running:
        with running.client() as client:
            client.ingest(*stream(700))
        running.wait_for(4)
        yield running


def test_predictions_are_those_of_the_model(service: Served) -> None:
    X, _ = stream(40, 10**6)
    with service.client() as client:
        answer, model = client.predict(X), client.model()
    assert np.array_equal(answer.labels, model.predict(X))
    assert answer.probabilities.shape == (40, 0)
    assert np.corrcoef(answer.labels, X[:, 0])[0, 1] > 0.8
    raw = service.ask("POST", "/v1/predict", {"records": [{"a": 1.0, "b": 0.0}]})
    assert raw.status == 200
    assert raw.json["target"] == [0.0, 120.0]
    assert raw.json["predictions"] == pytest.approx(model.predict([[1.0, 0.0]]).tolist(), rel=1e-5)
    assert "labels" not in raw.json
    missing = service.ask("POST", "/v1/predict", {"records": [{"a": 1.0}]})
    assert (missing.status, "b" in missing.json["error"]) == (422, True)


def test_status_plan_and_metrics_speak_of_errors(service: Served) -> None:
    status = service.ask("GET", "/v1/status").json
    assert {"mae", "deviation", "scores"} <= set(status["quality"][-1])
    assert set(status["quality"][-1]["scores"]) >= {"mae", "rmse", "constant_rmse", "r2"}
    assert status["scores"]["target"] == [0.0, 120.0]
    assert len(status["surveys"][-1]["parts"]) == 8
    records = service.ask("GET", "/v1/plan").json["records"]
    assert records["target"] == [0.0, 120.0]
    assert records["classes"][0] == "0 to 15"
    metrics = service.ask("GET", "/metrics").body.decode()
    assert "tidegate_mae{" in metrics
    assert "tidegate_mae_deviation{" in metrics
    assert "tidegate_accuracy" not in metrics


def test_odd_targets_keep_their_slots(service: Served) -> None:
    """In JSON, as rows and as a matrix, and in Arrow; no answer tells them apart."""
    count = service.ask("GET", "/v1/status").json["streams"][0]["records"]
    odd: list[Any] = ["soon", None, 1e400, [1], {}, 7.5, -1e9]
    rows = [{"a": 0.1, "b": 0.2, "minutes": each} for each in odd]
    answers = [
        service.ask("POST", "/v1/records", {"records": rows}),
        service.ask("POST", "/v1/records", {"x": [[0.1, 0.2]] * len(odd), "y": odd}),
    ]
    table = pa.table({"a": [0.1] * 3, "b": [0.2] * 3, "minutes": [1.0, None, float("nan")]})
    answers.append(service.ask("POST", "/v1/records", arrow(table), Content_Type=ARROW))
    assert [each.status for each in answers] == [200] * 3
    taken = [count + 7, count + 14, count + 17]
    assert [each.json["count"] for each in answers] == taken
    with service.runner.gate.store.snapshot():
        unusable = service.runner.gate.store.quarantined("records")
    assert unusable == 5 + 5 + 2
    assert list(verify(service.runner.gate)) == []


def test_arrow_targets_of_text_are_read_one_by_one(service: Served) -> None:
    """One odd record can make all of them texts."""
    table = pa.table({"a": [0.1, 0.1], "b": [0.2, 0.2], "minutes": ["7", "zz"]})
    answer = service.ask("POST", "/v1/records", arrow(table), Content_Type=ARROW)
    assert answer.status == 200


def arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
