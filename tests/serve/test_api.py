"""What the routes say, held against the state and the command line."""

import io
import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.cli.run import json_lines
from tests.serve.fake import SCORES
from tests.serve.served import Served, become, config, served, stream
from tidegate.gate import Gate
from tidegate.privacy.meaning import meaning
from tidegate.release.export_formats import load
from tidegate.schedule import Span
from tidegate.serve.middleware import NOTHING_YET


def arrow(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


ARROW = "application/vnd.apache.arrow.stream"


def test_the_ledger_is_that_of_the_command_line(service: Served) -> None:
    folder = str(service.folder)
    assert service.ask("GET", "/v1/ledger").json["lines"] == json_lines("ledger", folder)
    of_one = service.ask("GET", "/v1/ledger?record=200").json
    assert of_one["lines"] == json_lines("ledger", folder, "--record", "200")
    with Gate.look(service.folder) as gate:
        share = float(gate.ledgers()["records"].paid(200))
    assert sum(line["share"] for line in of_one["lines"]) == pytest.approx(share)


def test_status_says_what_the_command_line_says_but_for_what_is_private(service: Served) -> None:
    told = service.ask("GET", "/v1/status").json
    (known,) = json_lines("status", str(service.folder))
    (mine,), (its,) = told["streams"], known["streams"]
    for name in ("stream", "records", "held_from", "held_records"):
        assert mine[name] == its[name]
    assert told["releases"] == known["releases"] == 3
    assert told["budget"] == known["budget"]
    assert told["meaning"] == meaning(**told["budget"])
    assert told["scores"] == known["scores"]
    assert told["drift"] == known["drift"]
    measured = {"quality", "scores", "surveys"}  # there the share of unusable records is noisy
    assert "unusable" not in json.dumps({k: v for k, v in told.items() if k not in measured})
    assert "held_bytes" not in mine, "the size of sparse rows depends on what they hold"


def test_the_chain_tiles_the_window(service: Served) -> None:
    plan = service.ask("GET", "/v1/plan").json
    spans = sorted((block["start"], block["stop"]) for block in plan["chain"])
    assert plan["chain"][0]["role"] == "base"
    assert [start for start, _ in spans[1:]] == [stop for _, stop in spans[:-1]]
    assert (spans[0][0], spans[-1][1]) == (200, 500)
    assert plan["window"] == {"start": 200, "stop": 500}
    assert plan["forever"] == {"records": 1.0}


def test_the_strip_is_the_most_in_each_bucket(service: Served) -> None:
    (strip,) = service.ask("GET", "/v1/ledger/strip?buckets=7").json["streams"]
    with Gate.look(service.folder) as gate:
        ledger = gate.ledgers()["records"]
        paid = [float(ledger.paid(record)) for record in range(500)]
    bounds = [*strip["starts"], 500]
    naive = [max(paid[a:b]) for a, b in pairwise(bounds)]
    assert strip["paid"] == pytest.approx(naive)
    assert max(strip["paid"]) <= 1


def test_releases_and_their_files(service: Served, tmp_path: Path) -> None:
    listed = service.ask("GET", "/v1/releases?from=1&limit=1").json["releases"]
    assert [each["number"] for each in listed] == [1]
    alone = service.ask("GET", "/v1/releases/1").json
    assert {**alone, "card": None} == {**listed[0], "card": None}
    assert set(listed[0]["card"]) == set(alone["card"]) - {"transform"}
    path = tmp_path / "release.safetensors"
    path.write_bytes(service.ask("GET", "/v1/releases/1/weights.safetensors").body)
    with Gate.look(service.folder) as gate:
        weights = gate.store.release(1).weights
    assert np.array_equal(load(path).weights, weights)
    assert service.ask("GET", "/v1/releases/1/card.md").body.startswith(b"# Release 1")
    pytest.importorskip("onnx")
    assert service.ask("GET", "/v1/releases/1/model.onnx").status == 200


@pytest.mark.parametrize("path", ["99", "99/card.md", "1/card.pdf", "-1", "x", "1e3", f"{2**70}"])
def test_what_is_no_release_is_not_found(service: Served, path: str) -> None:
    answer = service.ask("GET", f"/v1/releases/{path}")
    assert answer.status in {404, 422}
    assert list(answer.json) == ["error"]


def test_the_newest_release_has_a_tag_and_can_be_waited_for(service: Served) -> None:
    first = service.ask("GET", "/v1/releases/latest")
    tag = first.headers["etag"]
    assert tag == f'"{first.json["hash"]}"'
    same = service.ask("GET", "/v1/releases/latest", If_None_Match=tag)
    assert (same.status, same.body, same.headers["etag"]) == (304, b"", tag)
    assert service.ask("GET", "/v1/releases/latest?wait=0.1", If_None_Match=tag).status == 304


def test_a_wait_ends_with_the_release(tmp_path: Path) -> None:
    with served(tmp_path / "state") as running:
        assert running.ask("GET", "/v1/releases/latest").status == 404
        found: list[Any] = []
        thread = threading.Thread(
            target=lambda: found.append(running.ask("GET", "/v1/releases/latest?wait=20"))
        )
        thread.start()
        running.send(300)
        thread.join()
        assert found[0].json["number"] == 0


def events(running: Served) -> Iterator[tuple[str, Any]]:
    connection = HTTPConnection("127.0.0.1", running.port, timeout=20)
    token = {"Authorization": f"Bearer {running.tokens['read']}"}
    connection.request("GET", "/v1/releases/events", headers=token)
    answer = connection.getresponse()
    assert answer.headers["content-type"].startswith("text/event-stream")
    try:
        name = ""
        for line in io.TextIOWrapper(answer, "utf-8"):
            kind, _, rest = line.strip().partition(": ")
            if kind == "event":
                name = rest
            elif kind == "data":
                yield name, json.loads(rest)
    finally:
        connection.close()


def test_events_tell_each_release_once_and_how_things_stand(tmp_path: Path) -> None:
    with served(tmp_path / "state") as running:
        told = events(running)
        name, status = next(told)
        assert (name, status["streams"][0]["records"]) == ("progress", 0)
        running.send(500)
        numbers = []
        for name, data in told:
            if name == "release":
                numbers.append(data["number"])
            if numbers == [0, 1, 2] and name == "progress" and data["releases"] == 3:
                break
        told.close()  # type: ignore[attr-defined]
        # It is noticed when there is something to say.
        assert become(lambda: running.send(1).status == 200 and not running.runner._watchers)


def test_predictions_are_those_of_the_release(service: Served) -> None:
    X, _ = stream(20, 1000)
    with Gate.look(service.folder) as gate:
        newest = gate.store.newest()
        assert newest is not None
        model = newest.classifier()
    rows = [{"a": a, "b": b} for a, b in X.tolist()]
    table = pa.table({"a": X[:, 0], "b": X[:, 1]})
    for body, kind in (
        ({"x": X.tolist()}, "application/json"),
        ({"records": rows}, "application/json"),
        (arrow(table), ARROW),
    ):
        told = service.ask("POST", "/v1/predict", body, Content_Type=kind).json
        assert told["release"] == newest.number
        assert told["labels"] == model.predict(X).tolist()
        np.testing.assert_allclose(told["probabilities"], model.predict_proba(X), rtol=1e-6)


def test_nothing_is_predicted_before_the_first_release(tmp_path: Path) -> None:
    with served(tmp_path / "state") as running:
        answer = running.ask("POST", "/v1/predict", {"x": [[1, 2]]})
        assert (answer.status, answer.json) == (409, {"error": NOTHING_YET})


def test_all_ways_to_send_records_make_the_same_records(tmp_path: Path) -> None:
    X, y = stream(50)
    X = X.astype(np.float32).astype(np.float64)
    named = [{"a": a, "b": b, "y": label} for (a, b), label in zip(X.tolist(), y, strict=True)]
    listed = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), 2)
    bodies: list[tuple[Any, str]] = [
        ({"x": X.tolist(), "y": y.tolist()}, "application/json"),
        (json.dumps({"records": named}, default=int).encode(), "application/json"),
        (arrow(pa.table({"a": X[:, 0], "b": X[:, 1], "y": y})), ARROW),
        (arrow(pa.table({"x": listed, "y": y})), ARROW),
    ]
    # No step is complete: what a fit has read would be deleted while it is looked at.
    with served(tmp_path / "state", config(schedule={"kind": "independent", "step": 999})) as it:
        for number, (body, kind) in enumerate(bodies, start=1):
            answer = it.ask("POST", "/v1/records", body, Content_Type=kind)
            assert answer.json == {"count": 50 * number, "taken": 50}
        spans = [Span(start, start + 50) for start in range(0, 200, 50)]
        rows = [it.runner.gate.store.read("records", span) for span in spans]
    for each in rows[1:]:
        assert np.array_equal(each.X, rows[0].X)
        assert np.array_equal(each.y, rows[0].y)
    assert all(each.usable.all() for each in rows)


def test_two_streams_are_told_apart(tmp_path: Path) -> None:
    two = {"kind": "twostream", "step": 50, "source": {"kind": "cumulative", "block": 100}}
    with served(tmp_path / "state", config(schedule=two)) as running, running.client() as client:
        assert running.send(10).status == 422, "which stream?"
        assert client.ingest(*stream(100), stream="source") == 100
        next(client.follow())
        assert client.ingest(*stream(60), stream="target") == 60
        next(client.follow(1))
        lines = client.ledger()["lines"]
        assert lines == json_lines("ledger", str(tmp_path / "state"))
        assert [(line["stream"], line["records"]) for line in lines] == [
            ("source", 100),
            ("target", 60),
        ]
        chain = client.get("/v1/plan")["chain"]
        assert [block["stream"] for block in chain] == ["source", "target"]
        assert {line["stream"] for line in client.ledger(record=7)["lines"]} == {"source", "target"}
        only = client.get("/v1/ledger?record=7&stream=target")["lines"]
        assert {line["stream"] for line in only} == {"target"}
        assert running.ask("GET", "/v1/ledger?stream=other").status == 422
        assert set(client.get("/v1/plan")["forever"]) == {"source", "target"}


def test_metrics_are_public_numbers(service: Served) -> None:
    text = service.ask("GET", "/metrics").body.decode()
    assert 'tidegate_records{stream="records"} 500.0' in text
    assert "tidegate_releases 3.0" in text
    assert "seconds" not in text, "how long things take depends on the records"
    names = {line.split()[0].partition("{")[0] for line in text.splitlines() if line[0] != "#"}
    assert {name for name in names if "unusable" in name} <= {
        "tidegate_unusable_share",
        "tidegate_unusable_share_deviation",
    }, "these are noisy and paid for"
    assert "tidegate_drift" in names


def test_a_listing_leaves_out_what_is_long(service: Served) -> None:
    listed = service.ask("GET", "/v1/releases").json["releases"][-1]["card"]
    whole = service.ask("GET", "/v1/releases/2").json["card"]
    before = listed["evaluation"]["step_before"]
    assert "noisy_counts" not in before
    assert set(before["scores"]) == set(SCORES) | {"records"}
    assert whole["evaluation"]["step_before"]["noisy_counts"]["slots"] == 100
    assert "calibration" in whole["evaluation"]["step_before"]["scores"]


def test_the_document_has_examples_and_names_every_route(service: Served) -> None:
    document = service.ask("GET", "/v1/openapi.json").json
    assert set(document["paths"]) == {
        "/metrics",
        "/v1/audit",
        "/v1/erasures",
        "/v1/health",
        "/v1/ledger",
        "/v1/ledger/strip",
        "/v1/plan",
        "/v1/predict",
        "/v1/records",
        "/v1/releases",
        "/v1/releases/events",
        "/v1/releases/latest",
        "/v1/releases/{number}",
        "/v1/releases/{number}/{file}",
        "/v1/status",
    }
    taken = document["paths"]["/v1/records"]["post"]["requestBody"]["content"]
    assert taken["application/json"]["examples"]
    for path, shown in (("status", "/v1/status"), ("plan", "/v1/plan"), ("ledger", "/v1/ledger")):
        answer = document["paths"][shown]["get"]["responses"]["200"]["content"]
        said = service.ask("GET", f"/v1/{path}").json
        assert set(answer["application/json"]["example"]) == set(said), "the example is out of date"


def test_predictions_name_their_classes_and_missing_columns(service: Served) -> None:
    columns = service.runner.gate.config.records.columns or ()
    record = dict.fromkeys(columns, 0.5)
    told = service.ask("POST", "/v1/predict", {"records": [record]}).json
    assert told["classes"] == list(service.runner.gate.config.records.groups)
    assert len(told["probabilities"][0]) == len(told["classes"])
    del record[columns[-1]]
    answer = service.ask("POST", "/v1/predict", {"records": [record]})
    assert answer.status == 422
    assert answer.json["error"] == (
        f"records lack column {columns[-1]}; each must have {', '.join(columns)}"
    )
    wide = service.ask("POST", "/v1/predict", {"x": [[0.5] * (len(columns) + 1)]})
    assert f"({', '.join(columns)})" in wide.json["error"]
